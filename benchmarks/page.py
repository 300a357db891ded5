"""How smooth the report is: `python -m benchmarks.page`.

A report of 10,000 events in a chromium without a window, which draws without a graphics card: how
long it takes to open, a frame while it is scrolled, which is compared with one of the same page at
rest, and a step of the timeline's zoom. Prints medians with every sample; asserts nothing. POSIX
only.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.spine import ratios, show, versions
from pytest_cideldill.reports.digest import runs_in
from pytest_cideldill.reports.html import write_report
from tests.together.browser import COMMAND, Page, browser
from tests.together.manyevents import big_record

FRAMES = """
new Promise((done) => {
  const box = document.querySelector('#hits .scroll');
  const took = [];
  let before = performance.now();
  const step = () => {
    took.push(performance.now() - before);
    before = performance.now();
    if (took.length > 60) return done(took.slice(1));
    if (%s) box.scrollTop = took.length * box.scrollHeight / 60;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""

ZOOMS = """
(async () => {
  const took = [];
  for (const way of ['in', 'in', 'right', 'out', 'left', 'all']) {
    const before = performance.now();
    document.querySelector(`[data-zoom=${way}]`).click();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    took.push(performance.now() - before);
  }
  return took;
})()
"""


def opening(page: Page, report: Path) -> float:
    """Milliseconds until it has loaded and shown everything."""
    started = time.perf_counter()
    page.open(report)
    return (time.perf_counter() - started) * 1e3


def frame(page: Page, is_scrolled: bool) -> float:
    """The median of 60 frames, in milliseconds."""
    took: list[float] = page.run(FRAMES % str(is_scrolled).lower())
    return statistics.median(took)


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.page", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="of each kind")
    runs = parser.parse_args().runs
    if COMMAND is None:
        parser.error("there is no chromium")
    print(versions(), end="\n\n")
    with tempfile.TemporaryDirectory(prefix="cideldill-page-") as name:
        folder = Path(name)
        report = folder / "report.html"
        big_record(folder / "rec")
        write_report(report, runs_in(folder / "rec"))
        with browser(folder / "profile") as page:
            opened = [opening(page, report) for _ in range(runs)]
            frames = [(frame(page, False), frame(page, True)) for _ in range(runs)]
            zoomed = [statistics.median(page.run(ZOOMS)) for _ in range(runs)]
    rested, scrolled = zip(*frames, strict=True)
    show("open 10,000 events", opened, "ms")
    show("a frame at rest", rested, "ms")
    show("a frame while it is scrolled", scrolled, "ms", "aim 50 ms")
    show("scrolled / at rest", ratios(scrolled, rested), "×")
    show("a step of the zoom", zoomed, "ms", "aim 150 ms")


if __name__ == "__main__":
    main()
