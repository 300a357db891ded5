"""What people see of a record: nothing of it is obeyed, and all of it is bounded."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill import cli
from pytest_cideldill.objects.store import CIDStore
from pytest_cideldill.reports import html
from pytest_cideldill.reports.digest import read
from pytest_cideldill.reports.html import page
from pytest_cideldill.reports.html_data import of_run
from pytest_cideldill.reports.markdown import MOST_BYTES, append, code, fenced, markdown
from pytest_cideldill.reports.markup import tag
from pytest_cideldill.reports.terminal import Style, one_test, overview
from pytest_cideldill.reports.terminal import write as write_lines
from pytest_cideldill.reports.words import duration, left_out, verdict
from tests.each_case import for_each
from tests.process.written import Writer, call, hit, phase, write

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&amp;\x1b]0;x\x07\ud800\0"
)


class Elements(HTMLParser):
    """The elements of a page, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = [("", {})]
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found[-1][1].get("id") == "data" and not self.data:
            self.data = data


def story_of(record: Path, *tests: tuple[str, dict[str, Any] | None]) -> Any:
    writer = Writer().begin()
    for name, failure in tests:
        writer.test(name, hit("total=3"), call("c1"), failure=failure)
    return read(write(record, writer.end()))


@pytest.fixture
def hostile(tmp_path: Path) -> Any:
    """A story in which every text that a program under test can choose is hostile."""
    writer = Writer("main\x1b").begin()
    frame = {"function": HOSTILE, "source": HOSTILE, "location": {"file": HOSTILE, "line": 1}}
    variables = [{"name": HOSTILE, "value": HOSTILE}]
    autopsy = {
        "frames": [frame | {"arguments": variables, "variables": {"locals": variables}}],
        "parameters": {HOSTILE: HOSTILE},
        "fixtures": [{"name": HOSTILE, "value": HOSTILE}],
        "innerExceptions": [{"type": HOSTILE, "message": HOSTILE, "relation": HOSTILE}],
        "notes": [HOSTILE],
    }
    texts = dict.fromkeys(("longrepr", "stdout", "stderr", "log"), HOSTILE)
    place = {"file": HOSTILE, "line": 1}
    made = {"type": HOSTILE, "message": HOSTILE}
    writer.test(
        HOSTILE,
        hit(HOSTILE),
        hit(HOSTILE, id=HOSTILE),
        call("c1", qualified_name=HOSTILE, pretty_args=[HOSTILE], pretty_result=HOSTILE),
        failure={**texts, "autopsy": autopsy, "location": place, "exception": made},
    )
    writer.append("warning", message=HOSTILE)
    writer.append("log", message=HOSTILE, values={HOSTILE: HOSTILE})
    writer.append("test_started", nodeid=f"unfinished {HOSTILE}")
    return read(write(tmp_path, writer.end()))


def test_nothing_of_a_record_becomes_markup(hostile: Any) -> None:
    """The same elements as without it; no address but fragments; the data is one block."""
    text = page([hostile])
    text.encode()  # half of a surrogate pair has no encoding
    elements = Elements(text)
    assert [name for name, _ in elements.found].count("script") == 2
    assert "img" not in {name for name, _ in elements.found}
    assert not [key for _, had in elements.found for key in had if key in ("src", "href", "style")]
    assert not [key for _, had in elements.found for key in had if key.startswith("on")]
    (reported,) = json.loads(elements.data)
    assert reported["hits"][0][-1] == HOSTILE
    assert "http://www.w3.org/2000/svg" in text
    assert set(re.findall(r"\w+://\S+?(?=')", text)) == {"http://www.w3.org/2000/svg"}


def test_a_page_runs_only_its_own_script(hostile: Any) -> None:
    """By digest, so that not even an element that got into it would run."""
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page([hostile]))
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy


def test_nothing_of_a_record_is_obeyed_by_a_terminal(hostile: Any) -> None:
    text = "\n".join(overview(hostile, Style(), hits=True))
    text += "\n".join(one_test(hostile, hostile.tests[0].nodeid, Style()))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert r"\x1b]0;x\x07\ud800\x00" in text


def test_nothing_of_a_record_is_markup_of_a_summary(hostile: Any) -> None:
    """All of it stands in code, whatever ticks it holds."""
    text = markdown(hostile, "rec")
    outside = re.sub(r"(`+)[^`].*?[^`]\1(?!`)", "", re.sub(r"(?ms)^ *```text$.*?```$", "", text))
    assert "alert" in text
    assert not re.search("alert|script|onerror", outside)
    assert code("a `` b\nc") == "``` a `` b c ```"
    assert next(iter(fenced("x\n````\ny"))) == "`````text"
    assert code("x" * 500).endswith("x…`")


@pytest.mark.full
def test_a_summary_has_room_on_its_page(tmp_path: Path) -> None:
    """GitHub shows none that makes all of them longer than a megabyte."""
    failures = [(f"test_{number}", {"message": "x" * 30_000}) for number in range(200)]
    story = story_of(tmp_path / "rec", *failures)
    assert len(markdown(story, "rec").encode()) < MOST_BYTES
    assert markdown(story, "rec").endswith("0 dropped beyond the limits.\n")
    short = markdown(story, "rec", 3_000)
    assert len(short.encode()) <= 3_000
    assert "*There is no room for the rest.*" in short
    path = tmp_path / "page.md"
    path.write_bytes(b"x" * (1024 * 1024 - 2_000))
    for _ in range(3):
        append(story, "rec", path)
    assert 1024 * 1024 - 1_000 > path.stat().st_size - 1_000 > 1024 * 1024 - 4_000
    assert path.stat().st_size <= 1024 * 1024


def test_a_summary_says_what_failed_where_and_why(tmp_path: Path) -> None:
    text = markdown(story_of(tmp_path, ("test_right", None), ("test_wrong", {})), "rec")
    assert text.splitlines()[0].startswith("### ❌ 1 failed, 1 passed in ")
    assert "| failed | passed |\n|---|---|\n| 1 | 1 |" in text
    assert "- **`test_shop.py::test_wrong`** at `test_shop.py:10`" in text
    assert "  assert total([1, 2]) == 4\n  AssertionError: assert 3 == 4\n" in text
    assert "- `shop.py:5`: 2 hits, last `total=3`" in text
    assert text.endswith("Recorded in `rec`: 2 hits, 2 calls, 0 dropped beyond the limits.\n")


@pytest.mark.full
def test_a_page_is_bounded_and_says_what_it_left_out(tmp_path: Path) -> None:
    writer = Writer().begin()
    long = "x" * 60_000
    for number in range(300):
        inside = [hit(f"n={long}", id=f"tp-{number < 3}"), call(f"c{number}", pretty_args=[long])]
        writer.test(f"test_{number}", *inside, failure={"message": long} if number % 2 else {})
    story = read(write(tmp_path, writer.end()))
    text = page([story])
    assert len(text) < 10_000_000
    assert re.search(r"\d+ failures more: see the tests below\.", text)
    reported = of_run(story, [], 100)
    assert (len(reported["hits"]), len(reported["calls"])) == (100, 100)
    assert [hit[3] for hit in reported["hits"]].count(1) == 3  # those of which there are few
    assert reported["left_out"] == "200 hits and 200 calls"


@pytest.mark.full
def test_calls_are_shown_as_a_tree_of_any_depth(tmp_path: Path) -> None:
    """Below their callers; a caller that is not there, or a circle, harms nobody."""
    writer = Writer().begin()
    deep = [call(f"d{n}", f"d{n - 1}" if n else None) for n in range(3_000)]
    odd = [call("orphan", "gone"), call("x", "y"), call("y", "x")]
    writer.test("test_deep", *reversed(deep), *odd)
    reported = of_run(read(write(tmp_path, writer.end())), [], 10_000)
    depths = [row[0] for row in reported["calls"]]
    assert depths == [*range(3_000), 0]
    assert reported["left_out"] == "2 calls"


def test_objects_of_calls_are_reported_once(tmp_path: Path) -> None:
    cid, lost = "ab" * 64, "cd" * 64
    writer = Writer().begin()
    for name in ("a", "b"):
        cids = {"args": [cid], "kwargs": {"key": lost}, "result": cid}
        writer.test(f"test_{name}", call(name, cids=cids))
    folder = write(tmp_path, writer.end())
    store = CIDStore(folder / "objects.sqlite")
    store.put(cid, {"type": "int", "repr": "2", "attributes": {}})
    store.close()
    reported = of_run(read(folder), [], 100)
    assert [row[-1] for row in reported["calls"]] == [
        [["argument 1", 0], ["key", 1], ["result", 0]],
        [["argument 1", 0], ["key", 1], ["result", 0]],
    ]
    assert reported["objects"] == [{"type": "int", "repr": "2", "attributes": {}}, None]


def test_the_newest_runs_are_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MOST_RUNS", 2)
    names = [f"run-2026010{day}T000000Z-c{day}" for day in (1, 2, 3)]
    folders = [write(tmp_path, Writer().begin().end(), name=name) for name in names]
    html.write_report(tmp_path / "page.html", folders)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    sections = [
        had["aria-label"] for name, had in Elements(text).found if had.get("class") == "run"
    ]
    assert sections == [names[2], names[1]]
    assert "1 older run in the record: cideldill report DIR, or with --run ID." in text


def test_an_element_escapes_what_is_no_markup() -> None:
    made = tag("p", "<b>", tag("i", "&"), None, class_='"x', aria_label="a<b")
    assert made == '<p class="&quot;x" aria-label="a&lt;b">&lt;b&gt;<i>&amp;</i></p>'


def test_colors_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    assert Style.of(terminal).is_plain
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    assert not Style.of(terminal).is_plain
    assert Style.of(terminal)("\x1b", "red") == "\x1b[31m\\x1b\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Style.of(terminal).is_plain


def test_a_terminal_that_knows_few_characters_gets_the_others_as_escapes() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write_lines(iter(["a → b"]), stream)
    stream.seek(0)
    assert stream.read() == "a \\u2192 b\n"


@for_each(
    ("seconds", "reported"),
    [(0.0, "0 ms"), (0.00325, "3.25 ms"), (0.5, "0.50s"), (59.99, "59.99s"), (125.2, "2m 5s")],
)
def test_a_duration_is_shown_as_people_read_it(seconds: float, reported: str) -> None:
    assert duration(seconds) == reported


def test_what_is_left_out_is_reported_in_one_sentence() -> None:
    pairs = [(0, "test"), (1, "hit"), (2_000, "call"), (3, "note")]
    assert left_out(pairs) == "1 hit, 2,000 calls and 3 notes"
    assert left_out(pairs[:1]) == ""


# --- the console script -------------------------------------------------------------------------


def test_show_reports_outcomes_causes_hits_and_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story_of(tmp_path, ("test_right", None), ("test_wrong", {}))
    assert cli.main(["show", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "run-20260101T000000Z-c1" in lines[0]
    assert "FAILED test_shop.py::test_wrong - AssertionError: assert 3 == 4" in lines
    assert "  test_shop.py:10: assert total([1, 2]) == 4" in lines
    assert "shop.py:5 2 hits  total={total}" in lines
    assert "2 recorded calls, 0 rows dropped" in lines
    assert " 1 failed, 1 passed in " in lines[-1]
    assert cli.main(["show", str(tmp_path), "--hits"]) == 0
    assert "       1  total=3  main test_shop.py::test_wrong" in capsys.readouterr().out


def test_show_reports_all_about_one_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story_of(tmp_path, ("test_right", None), ("test_wrong", {}))
    assert cli.main(["show", str(tmp_path), "--test", "test_shop.py::test_wrong"]) == 0
    out = capsys.readouterr().out
    for reported in (
        "coupon = 'BULK10'",
        "prices = [1, 2]",
        "amount = 3",
        "printed",
        "shop.total(2) → 4",
    ):
        assert reported in out
    assert "test_right" not in out
    assert cli.main(["show", str(tmp_path), "--test", "test_wrong"]) == 1
    assert (
        "no test 'test_wrong' in run-20260101T000000Z-c1; there are test_shop.py::test_wrong"
        in (capsys.readouterr().err)
    )


def test_show_names_subtests_and_skips_blank_lines_and_colors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A place that no frame is at has no source beside it."""
    failure = {
        "subtest": "[m] (c='B')",
        "exception": {"type": "AssertionError", "message": "\n \n\x1b[31mNot equal\x1b[0m\nmore"},
        "location": {"file": "test_shop.py", "line": 99},
    }
    story_of(tmp_path, ("test_wrong", failure))
    assert cli.main(["show", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    reported = "FAILED test_shop.py::test_wrong [m] (c='B') - AssertionError: Not equal"
    assert lines[lines.index(reported) + 1] == "  test_shop.py:99"
    assert cli.main(["show", str(tmp_path), "--test", "test_shop.py::test_wrong"]) == 0
    out = capsys.readouterr().out
    assert "call [m] (c='B'): failed" in out
    assert "x1b" not in out


def test_report_writes_the_page_or_a_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story_of(tmp_path / "rec", ("test_wrong", {}))
    assert cli.main(["report", str(tmp_path / "rec")]) == 0
    assert (tmp_path / "rec" / "report.html").is_file()
    page, summary = tmp_path / "p.html", tmp_path / "s.md"
    assert cli.main(["report", str(tmp_path / "rec"), "--summary", str(summary)]) == 0
    assert (page.exists(), summary.read_text(encoding="utf-8")[:5]) == (False, "### ❌")
    assert cli.main(["report", str(tmp_path / "rec"), "-o", str(page)]) == 0
    assert page.is_file()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nowhere"], "nowhere is no folder"),
        (["report", "rec", "-o", "no/page.html"], "No such file or directory"),
        (["report", "rec", "--run", "c9"], "no run 'c9'; there are run-20260101T000000Z-c1"),
    ],
)
def test_what_is_not_there_is_named(
    tmp_path: Path,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1, one line, no traceback."""
    story_of(tmp_path / "rec", ("test_wrong", {}))
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 1
    reported = capsys.readouterr().err
    assert reported.startswith("cideldill: ")
    assert said in reported
    assert reported.count("\n") == 1


def test_a_run_that_was_cut_off_is_shown_as_one(tmp_path: Path) -> None:
    """A worker that died, and a whole run that did."""
    main, worker = Writer().begin(), Writer("gw0").begin()
    lost: dict[str, Any] = {
        "about": "gw0",
        "nodeid": "test_shop.py::test_lost",
        "plain": {},
        "duration_s": 0.1,
    }
    reported = phase(
        lost["nodeid"], phase="???", exception=None, longrepr="it crashed", autopsy=None
    )
    main.append("node_relayed", **lost, phases=[reported], has_ended=False)
    story = read(write(tmp_path / "one", main.end(), worker))
    assert verdict(story.summary) == "1 failed in 3 ms; the end of gw0 is missing"
    assert "FAILED test_shop.py::test_lost - it crashed" in list(overview(story, Style()))
    assert "it crashed" in page([story])
    writer = Writer().begin().append("test_started", nodeid="test_shop.py::test_killer")
    story = read(write(tmp_path / "other", writer))
    assert verdict(story.summary) == "no tests; the run did not come to its end"
    assert "UNFINISHED test_shop.py::test_killer (main)" in list(overview(story, Style()))
    assert "These tests had begun and did not end:" in page([story])
    assert markdown(story, "rec").startswith("### ❌ no tests; the run did not come to its end\n")


@pytest.mark.parametrize("command", ["show", "report"])
def test_lines_that_make_no_sense_are_passed_over_and_counted(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever made them; the others are told."""
    writer = Writer().begin()
    writer.test("test_wrong", failure={"autopsy": {"frames": [3]}})
    writer.test("test_bad", failure={})
    write(tmp_path, writer.end())
    assert cli.main([command, str(tmp_path)]) == 0
    reported, err = capsys.readouterr()
    shown = reported if command == "show" else (tmp_path / "report.html").read_text()
    assert err == ""
    assert "1 line of the record made no sense" in shown
    assert "FAILED test_shop.py::test_bad" in shown or command == "report"


def test_a_test_reports_why_it_was_skipped(tmp_path: Path) -> None:
    writer = Writer().begin()
    reported = {"category": "skipped", "outcome": "skipped", "exception": None, "longrepr": "later"}
    writer.test("test_later", failure=reported)
    writer.test("test_right")
    tests = of_run(read(write(tmp_path, writer.end(0))), [], 100)["tests"]
    assert [(row[4], row[-1]) for row in tests] == [("skipped", "later"), ("passed", "")]


def test_show_finds_a_test_in_the_newest_run_that_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And errors hold no commands for the terminal either."""
    for day, name in enumerate(("test_a", "test_a", "test_b\x1b[31m"), 1):
        writer = Writer().begin()
        writer.test(name, hit(f"day {day}"))
        write(tmp_path, writer.end(0), name=f"run-2026010{day}T000000Z-c{day}")
    assert cli.main(["show", str(tmp_path), "--test", "test_shop.py::test_a"]) == 0
    assert "day 2" in capsys.readouterr().out
    assert cli.main(["show", str(tmp_path), "--test", "test_c"]) == 1
    assert r"; there are test_shop.py::test_b\x1b[31m" in capsys.readouterr().err


def test_show_keeps_the_words_of_tests_for_who_asks(tmp_path: Path) -> None:
    writer = Writer().begin()
    for number in range(3):
        writer.append("log", message=f"word {number}", values={"n": str(number)})
    story = read(write(tmp_path, writer.end(0)))
    assert "3 messages of cideldill.log" in list(overview(story, Style()))
    assert "log word 2 n=2" in list(overview(story, Style(), hits=True))


FORGED = "x\nFAILED forged::test - no\n=== 99 passed in 1.00s ===\u2028\u200f\u061c\U000e0041y"


def test_no_text_of_a_record_makes_a_line_of_its_own(tmp_path: Path) -> None:
    """Nor anything that a terminal would not show; node ids, names of classes, messages of hits."""
    writer = Writer(FORGED).begin()
    failure = {"exception": {"type": FORGED, "message": FORGED}, "category": FORGED}
    writer.test(FORGED, hit(FORGED), failure=failure | {"longrepr": ""})
    writer.test("test_wrong", failure={"exception": {"type": FORGED, "message": FORGED}})
    writer.append("warning", message=FORGED)
    writer.append("test_started", nodeid=FORGED)
    story = read(write(tmp_path, writer.end()))
    lines = "\n".join(overview(story, Style(), hits=True)).splitlines()
    assert [each for each in lines if each.startswith(("FAILED forged", "=== 99"))] == []
    assert not re.search("[\u2028\u200f\u061c\U000e0041]", "".join(lines))
    assert not re.search("[\u2028\u200f\u061c\U000e0041]", page([story]).partition("<script")[0])


MARKS = "3.12 **b** `c` # h | [x](http://a.example) ![i](//b.example) <img src=x> @me www.c.de \\"


def test_the_head_of_a_summary_is_no_markup(tmp_path: Path) -> None:
    """Versions, categories and workers are texts of the record, too; half a surrogate is one."""
    writer = Writer()
    writer.append(
        "worker_up", run_id="c1", python=MARKS, pytest=f"{MARKS}\ud800", rootdir="/", pid=1
    )
    writer.test("test_wrong", failure={"category": f"{MARKS}\n### ✅ all passed"})
    head = markdown(read(write(tmp_path, writer.end())), "rec").partition("Recorded in")[0]
    assert "3.12 &#42;&#42;b" in head
    reported = re.sub(r"^### |&#\d+;|^\|.*\|$", "", head, flags=re.M)
    assert not re.search(r"[`*_\[\]<>#|@\\]|://|www\.", reported), reported
    assert len(re.findall("^#", head, re.M)) == 1


def test_of_very_many_failures_the_first_are_shown_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are counted and named; a page and a terminal say what is not there."""
    monkeypatch.setattr("pytest_cideldill.reports.bounds.WHOLE", 2)
    writer = Writer().begin()
    names = [writer.test(f"test_{number}", failure={}) for number in range(5)]
    story = read(write(tmp_path, writer.end()))
    assert [bool(each.autopsy) for each in story.failures] == [True, True, False, False, False]
    reported = "\n".join(overview(story, Style()))
    assert all(f"FAILED {name} - AssertionError: assert 3 == 4" in reported for name in names)
    sentence = "3 failures shown without frames and output, as there are too many"
    assert sentence in reported
    assert sentence in page([story])
