"""The report in a real browser: 10,000 events, by keyboard too, and nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from pytest_cideldill.reports.digest import runs_in
from pytest_cideldill.reports.html import write_report
from tests.together.browser import COMMAND, Page, browser
from tests.together.manyevents import big_record

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(COMMAND is None, reason="there is no chromium"),
]

SPACES = 2
"""Rows that stand for those above and below."""

SCROLLED = """
(async () => {
  const box = document.querySelector('#hits .scroll');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const steps = [];
  let made = 0;
  const watch = new MutationObserver((changes) => {
    for (const each of changes) made += each.addedNodes.length;
  });
  watch.observe(box, { childList: true, subtree: true });
  for (let step = 1; step <= 60; step += 1) {
    made = 0;
    box.scrollTop = step * (box.scrollHeight - box.clientHeight) / 60;
    await frame();
    await frame();
    const seen = box.getBoundingClientRect();
    const head = box.querySelector('th').getBoundingClientRect();
    const rows = [...box.querySelectorAll('tr.row')].map((row) => row.getBoundingClientRect());
    const above = rows[0].top - head.bottom;
    const below = seen.bottom - rows.at(-1).bottom;
    steps.push({ made, rows: rows.length, gap: Math.max(above, below) });
  }
  watch.disconnect();
  return steps;
})()
"""

ZOOMED = """
(async () => {
  const canvas = document.getElementById('timeline');
  const pen = CanvasRenderingContext2D.prototype;
  const fillRect = pen.fillRect;
  let [drawn, times] = [0, 0];
  pen.fillRect = function (...box) { drawn += 1; fillRect.apply(this, box); };
  const watch = new MutationObserver((changes) => { times += changes.length; });
  watch.observe(canvas, { attributeFilter: ['aria-label'] });
  const steps = [];
  for (const way of ['all', 'in', 'in', 'right', 'left', 'out', 'all']) {
    [drawn, times] = [0, 0];
    document.querySelector(`[data-zoom=${way}]`).click();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const [begin, end] = canvas.ariaLabel.match(/-?[0-9.]+(?= s)/g).map(Number);
    steps.push({ begin, span: end - begin, drawn, times });
  }
  watch.disconnect();
  pen.fillRect = fillRect;
  return steps;
})()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The report of that record, opened."""
    folder = tmp_path_factory.mktemp("page")
    big_record(folder / "rec")
    write_report(folder / "report.html", runs_in(folder / "rec"))
    with browser(folder / "profile") as page:
        page.folder = folder
        page.open(folder / "report.html")
        yield page


@pytest.fixture(autouse=True)
def from_the_start(page: Page) -> Iterator[None]:
    """Each test finds the page as it was opened, and leaves nothing that went wrong in it."""
    page.run("document.querySelector('#filters button[type=reset]').click()")
    settle(page)
    yield
    assert page.said == []
    assert page.urls == [(page.folder / "report.html").as_uri()]


def settle(page: Page) -> None:
    page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def state(page: Page) -> str:
    settle(page)
    return str(page.run("document.getElementById('state').textContent"))


def choose(page: Page, name: str, value: str) -> str:
    page.run(
        f"{{ const field = document.querySelector('[name={name}]'); field.value = {value!r};"
        " field.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    return state(page)


def count(page: Page, selector: str) -> int:
    return int(page.run(f"document.querySelectorAll({selector!r}).length"))


def text(page: Page, selector: str) -> str:
    return str(page.run(f"document.querySelector({selector!r})?.textContent ?? ''"))


def test_ten_thousand_events_scroll_smoothly(page: Page) -> None:
    """Each frame makes few rows and leaves no gap (how long it takes: `benchmarks.page`)."""
    assert state(page) == "401 tests, 8,001 hits, 2,001 calls"
    steps = page.run(SCROLLED)
    assert max(step["rows"] for step in steps) < 60
    assert all(0 < step["made"] <= step["rows"] + SPACES for step in steps)
    assert max(step["gap"] for step in steps) < 2  # the border below the last row
    last = page.run("[...document.querySelectorAll('#hits tr.row')].pop().ariaRowIndex")
    assert last == "8002"


def test_the_timeline_zooms_by_buttons_and_draws_once_for_each(page: Page) -> None:
    """However many events there are, it draws no more of them than there are pixels for."""
    steps = page.run(ZOOMED)
    whole = steps[0]["span"]
    shares = [1, 1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 2, 1]
    assert [step["span"] / whole for step in steps] == pytest.approx(shares, abs=1e-4)
    _, _, near, right, left, _, again = (step["begin"] for step in steps)
    assert right - near == pytest.approx(whole / 16, rel=1e-3)
    assert (left, again) == pytest.approx((near, steps[0]["begin"]), abs=1e-5)
    assert [step["times"] for step in steps] == [1] * len(steps)
    assert max(step["drawn"] for step in steps) < 5_000  # of more than 10,000


def test_hostile_texts_are_texts(page: Page) -> None:
    """Nothing of them ran, or became an element."""
    assert count(page, "img") == 0
    assert count(page, "script") == 2
    choose(page, "text", "onerror")
    shown = text(page, "#hits tr.row")
    assert "</script><script>alert(1)</script><img src=x onerror=alert(1)>" in shown
    for rows in ("hits", "calls", "notes"):
        page.run(f"document.querySelector('#{rows} tr.row').click()")
        assert "<img src=x" in text(page, "#details")
        page.run("document.querySelector('#details').close()")


def test_filters_hold_for_everything(page: Page) -> None:
    assert choose(page, "text", "test_7[gw1]") == "1 test, 20 hits, 5 calls"
    page.run("document.querySelector('#filters').reset()")
    settle(page)
    assert choose(page, "worker", "1").startswith("200 tests, 4,000 hits")
    assert choose(page, "outcome", "failed") == "1 test, 20 hits, 5 calls"
    assert count(page, "#tests tr.row") == 1


def test_the_timeline_zooms_by_keyboard_and_is_a_filter(page: Page) -> None:
    page.run("document.getElementById('timeline').focus()")
    for _ in range(5):
        page.press("+")
        settle(page)
    reported = state(page)
    assert 2 < int(reported.split()[0]) < 40
    assert " s to " in reported
    label = page.run("document.getElementById('timeline').ariaLabel")
    assert label.startswith("Timeline from 2.")
    page.press("0")
    assert state(page) == "401 tests, 8,001 hits, 2,001 calls"
    drawn = page.run(
        "(() => { const canvas = document.getElementById('timeline');"
        " const data = canvas.getContext('2d').getImageData(0, 0, 1000, 100).data;"
        " return new Set(new Uint32Array(data.buffer)).size; })()"
    )
    assert drawn > 5


def test_a_table_is_walked_by_keyboard(page: Page) -> None:
    """The active row is told; Enter opens it, Escape closes, End goes to the last of all."""
    page.run("document.querySelector('#hits .scroll').focus()")
    for key in ("ArrowDown", "ArrowDown", "End", "ArrowUp"):
        page.press(key)
    active = page.run("document.activeElement.getAttribute('aria-activedescendant')")
    assert active == "hits-7999"
    assert count(page, f"#{active}.active") == 1
    page.press("Enter")
    assert page.run("document.getElementById('details').open")
    page.run("document.getElementById('details').close()")


def test_calls_are_a_tree_with_objects(page: Page) -> None:
    choose(page, "text", "test_3[gw0]")
    levels = "[...document.querySelectorAll('#calls tr.row')].map((row) => row.ariaLevel).join('')"
    assert page.run(levels) == "12345"
    page.run("document.querySelector('#calls .scroll').focus()")
    page.press("ArrowDown")
    page.press("ArrowLeft")
    assert page.run(levels) == "12"
    page.press("ArrowRight")
    page.press("Home")
    assert page.run(levels) == "12345"
    page.press("Enter")
    assert "argument 1" in text(page, "#details .object")
    assert "price 40" in text(page, "#details .object details .leaf")
    page.run("document.getElementById('details').close()")


def test_a_tracepoint_has_a_line_of_its_numbers(page: Page) -> None:
    label = page.run("document.querySelector('#tracepoints .spark svg').getAttribute('aria-label')")
    assert label.startswith("total: 0 to 96, last ")


def test_everything_has_a_name_for_who_does_not_see_it(page: Page) -> None:
    """And headings are in order."""
    unnamed = page.run(
        "[...document.querySelectorAll('input, select, button, canvas, svg[role], [role=grid]')]"
        ".filter((one) => !(one.ariaLabel || one.title || one.textContent || one.labels?.length))"
        ".map((one) => one.outerHTML)"
    )
    assert unnamed == []
    levels = page.run(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => +one.tagName[1])"
    )
    assert levels[:2] == [1, 2]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_nothing_sticks_out_of_the_failure_that_it_is_of(page: Page) -> None:
    """Nor out of the page."""
    inside = ".run details.failure[open] > table.pairs"
    assert page.run(f"document.querySelectorAll('{inside}').length") > 0
    assert page.run(STICKING_OUT) == []


STICKING_OUT = """
(() => {
  const right = (one) => one.getBoundingClientRect().right;
  const found = [...document.querySelectorAll('.failure[open] > *')]
    .filter((one) => right(one) > right(one.parentElement));
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) found.push(page);
  return found.map((one) => one.tagName + '.' + one.className);
})()
"""


def test_texts_stand_out_in_light_and_dark(page: Page) -> None:
    """WCAG's contrast of 4.5 for the colors that texts have, on both of the grounds."""
    for scheme in ("light", "dark"):
        page.color_scheme(scheme)
        settle(page)
        assert page.run(LOW_CONTRAST) == [], scheme
    page.color_scheme("light")


LOW_CONTRAST = """
(() => {
  const style = getComputedStyle(document.body);
  const light = (name) => {
    const hex = style.getPropertyValue(`--${name}`).trim();
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const found = [];
  for (const ground of ['ground', 'raised', 'shade']) {
    for (const ink of ['ink', 'dim', 'accent', 'passed', 'failed', 'skipped', 'xfailed', 'x']) {
      const [one, other] = [light(ground), light(ink)].sort((a, b) => b - a);
      const contrast = (one + 0.05) / (other + 0.05);
      if (!(contrast >= 4.5)) found.push(`${ink} on ${ground}: ${contrast.toFixed(2)}`);
    }
  }
  return found;
})()
"""
