"""The benchmarks can be run, and their page names each of them; their figures are for people."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"

TABLE = {
    "a tracepoint hit, three names": "≤ 1/15 = 0.067 ×",
    "a false condition": "≤ 1/25 = 0.04 ×",
    "a recorded call": "≤ 6 µs",
    "a recorded call without cids": "≤ 3.5 µs",
    "200 hits read in pages": "≤ 0.4 s",
    "pushes in a second to one client": "≥ 30,000, or coalesced and 0 uncounted",
    "a stop at the client that waits, p95": "≤ 5 ms",
    "12 tests without breakpoints": "≤ 1.04 ×",
    "4 tests without breakpoints": "≤ 1.03 ×",
    "start to the answer of initialize": "≤ SDK's import + 0.15 s",
    "memory for 10,000 hits of one tracepoint": "≤ 1/3 = 0.333 ×",
    "untouched code, a call": "≤ 1.00 ×",
}
"""Figures of the table, of a hundredth of everything, and the aims beside them."""


def run(*arguments: str) -> str:
    """What a benchmark prints."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    # On a busy machine servers leave before their runs have ended.
    reported = [line for line in done.stderr.splitlines() if " left to tear down " not in line]
    assert (done.returncode, reported) == (0, [])
    return done.stdout


def test_the_page_names_every_benchmark_that_can_be_run_and_no_other() -> None:
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    runnable = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(runnable)


@pytest.mark.full
def test_the_benchmark_of_served_runs_says_what_can_be_chosen() -> None:
    text = run("benchmarks.served", "--help")
    for each in ("--only", "--samples", "--portion", "memory"):
        assert each in text


@pytest.mark.soak
def test_a_small_run_of_it_prints_the_table() -> None:
    text = run("benchmarks.served", "--samples", "1", "--portion", "0.01")
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    table = [tuple(cell.strip() for cell in cells) for cells in lines]
    assert table[0] == ("figure", "ours", "the others", "ratio", "aim")
    assert {figure: aim for figure, *_, aim in table[2:]} == TABLE
    assert "uncounted 0" in text
    assert re.search(r"^debugpy (\d|is absent)", text, re.MULTILINE)


@pytest.mark.soak
def test_the_spine_is_measured() -> None:
    """Its figures are for people; here it only has to come to its end."""
    arguments = ["--runs", "1", "--calls", "2", "--pairs", "1", "--tests", "1"]
    assert run("benchmarks.spine", *arguments).count("aim") == 9
