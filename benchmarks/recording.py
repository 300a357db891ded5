"""What it costs to record a run: `python -m benchmarks.recording`.

Processor time of whole pytest processes, all threads and the end of the run included: a suite
recorded and not, a loop with few and with many hits, tests that fail. What varies is measured in
turns. Prints medians with every sample beside the aims; asserts nothing. POSIX only.

Machines, their hours and the builds of one CPython differ by twice and more, so a hit is compared
as well with one in its barest form (`benchmarks.barehit`), measured beside it, whose time is known
from where the aim was set. That ratio depends less on the machine, for both are made of the same
kinds of work.

A suite's own time varies by more than recording adds. So a recorded one and one that is not run at
the same time, on a core each and the next time on the other's, where the system allows that: what
disturbs one disturbs both. What recording adds is measured as well with as many tests and subtests
that do nothing, where it is most of the difference, and given as a share of the suite. And with
`--instructions` valgrind counts those of the suite, which nothing disturbs (half an hour).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.barehit import WHERE_AIMED, bare_hit
from benchmarks.failures import deep
from benchmarks.spine import QUIET, ratios, show, versions
from pytest_cideldill.records.format import EVENTS, RUN
from tests.together.real_package import MORE_ITERTOOLS, archive

RECORD = "--cideldill-record=rec"

LINE = "        total += number\n"
PARTS = 4
"""Tests that the hits are spread over, so that none is dropped: that would cost less."""

LINES = 32
"""Tracepoints, so that none comes near the limit of a second."""

HOT = f"""\
import time

import pytest


def hot(count):
    total = 0
    for number in range(count):
{LINE * LINES}\
    return total


@pytest.mark.parametrize("part", range({PARTS}))
def test_it(part):
    hot({{}})
    time.sleep(0.5)  # which costs nothing, and lets the file keep up
"""

FIRST = HOT.splitlines().index(LINE.rstrip()) + 1
TRACES = [f"--cideldill-trace=test_it.py:{FIRST + each}=number={{number}}" for each in range(LINES)]

AIM = 3.0
"""µs of a recorded hit."""

OFTEN = 4
"""Times as many pairs of runs of tests that do nothing, which take so much less than the suite."""

NOTHING = """\
import unittest


def nothing(count):
    def test(self):
        for number in range(count):
            with self.subTest(number=number):
                pass

    return test


class Test(unittest.TestCase):
    pass


for number in range({tests}):
    count = ({subtests} + number) // {tests}
    setattr(Test, f"test_{{number}}", nothing(count))
"""

FAILING = """\
import pytest


class Cart:
    def __init__(self, items):
        self.items, self.coupon = items, "ten"

    def total(self):
        return sum(price * count for _, price, count in self.items)


@pytest.fixture
def cart():
    print("a cart is made")
    return Cart([("lamp", 40, 1), ("chair", 55, 4), ("table", 120, 1)])


@pytest.mark.parametrize("number", range({}))
def test_total(cart, number):
    expected = {{"total": 300 + number, "coupon": None}}
    seen = {{"total": cart.total(), "coupon": cart.coupon}}
    assert seen == expected
"""


def processor_time(folder: Path, *arguments: str) -> float:
    """Seconds of the processor that a run of pytest takes."""
    return taken(started(folder, arguments))


def started(
    folder: Path, arguments: Sequence[str], core: int | None = None
) -> subprocess.Popen[bytes]:
    """A run of pytest, on one core if that is named."""
    shutil.rmtree(folder / "rec", ignore_errors=True)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *QUIET, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        preexec_fn=None if core is None else partial(os.sched_setaffinity, 0, {core}),
    )


def taken(process: subprocess.Popen[bytes]) -> float:
    """Seconds of the processor that it takes to its end."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), process.args
    return used.ru_utime + used.ru_stime


def instructions(folder: Path, *arguments: str) -> int:
    """How many a run of pytest takes outside of the system, by valgrind."""
    shutil.rmtree(folder / "rec", ignore_errors=True)
    log = folder / "valgrind.log"
    counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--log-file={log}"]
    command = [*counting, "--cachegrind-out-file=/dev/null", sys.executable, "-m", "pytest"]
    subprocess.run(
        [*command, *QUIET, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=True,
    )
    counted = re.search(r"I +refs: +([0-9,]+)", log.read_text(encoding="utf-8"))
    assert counted is not None, log
    return int(counted[1].replace(",", ""))


def in_turns(runs: int, *measured: Callable[[], float]) -> list[list[float]]:
    """The samples of each; the same index was measured side by side."""
    for each in measured:
        each()  # compiles
    rounds = [[each() for each in measured] for _ in range(runs)]
    return [list(samples) for samples in zip(*rounds, strict=True)]


def side_by_side(runs: int, folder: Path) -> tuple[list[float], list[float]]:
    """Of a project: not recorded, and recorded."""
    if not hasattr(os, "sched_setaffinity") or len(cores := sorted(os.sched_getaffinity(0))) < 2:
        plain, recorded = in_turns(
            runs, lambda: processor_time(folder), lambda: processor_time(folder, RECORD)
        )
        return plain, recorded
    twin = folder.with_name(f"{folder.name}-twin")
    shutil.copytree(folder, twin)
    pairs: list[list[float]] = []
    for number in range(1 + runs):
        here, there = (folder, twin) if number % 4 < 2 else (twin, folder)
        first, second = cores[number % 2], cores[1 - number % 2]
        both = started(here, (), first), started(there, (RECORD,), second)
        pairs.append([taken(each) for each in both])
    del pairs[0]  # compiles
    return [plain for plain, _ in pairs], [recorded for _, recorded in pairs]


def project(folder: Path, **files: str) -> Path:
    """A folder of tests."""
    folder.mkdir()
    for name, text in {"pytest.ini": "", **files}.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def suite(temp: Path) -> Path:
    """A released package with its tests."""
    with tarfile.open(archive(MORE_ITERTOOLS)) as packed:
        packed.extractall(temp, filter="data")
    return temp / MORE_ITERTOOLS.folder


def differences(of: Sequence[float], to: Sequence[float], count: int, scale: float) -> list[float]:
    """Pair by pair, for each of so many things."""
    return [(a - b) / count * scale for a, b in zip(of, to, strict=True)]


def show_mean(name: str, samples: Sequence[float], rest: str) -> None:
    """With its standard error."""
    error = statistics.stdev(samples) / len(samples) ** 0.5 if len(samples) > 1 else float("inf")
    print(f"{name:46}{statistics.mean(samples):7.3f} ± {error:.3f} {rest}")


def show_suite(folder: Path, nothing: Path, runs: int) -> None:
    """Recorded without tracepoints; `nothing` becomes a project of as many tests."""
    plain, recorded = side_by_side(runs, folder)
    show(f"{MORE_ITERTOOLS.name}'s tests", plain, "s")
    of_pairs = ratios(recorded, plain)
    show("recorded / not", of_pairs, "×", "aim 1.02 ×")
    show_mean("the mean of these", of_pairs, "×  aim 1.02 ×")
    (run,) = folder.parent.glob(f"{folder.name}*/rec/{RUN}*")
    outcomes = json.loads((run / "run.json").read_bytes())["outcomes"]
    subtests = outcomes.pop("subtests passed", 0)
    tests = sum(outcomes.values())
    project(nothing, test_it__py=NOTHING.format(tests=tests, subtests=subtests))
    idle, watched = side_by_side(OFTEN * runs, nothing)
    added = differences(watched, idle, 1, 1.0)
    show(f"added to {tests} tests, {subtests} subtests", added, "s")
    show_mean("the mean of these", added, "s")
    share = statistics.median(added) / statistics.median(plain)
    print(f"{'1 + that / the suite, by the medians':46}{1 + share:7.3f} ×   aim 1.02 ×")


def show_instructions(folder: Path) -> None:
    """Of the suite; each run takes the same but for a few in a million."""
    plain, recorded = instructions(folder), instructions(folder, RECORD)
    print(f"{'instructions of the suite':46}{plain / 1e9:7.3f} 10⁹")
    print(f"{'added':46}{(recorded - plain) / 1e9:7.3f} 10⁹")
    print(f"{'recorded / not':46}{recorded / plain:7.3f} ×   aim 1.02 ×")


def show_hits(few: Path, many: Path, count: int, runs: int) -> None:
    """Two loops with the same tracepoints, one of them with so many more passes of their lines."""
    arguments = [RECORD, *TRACES]
    bare_hits = [bare_hit] if sys.version_info >= (3, 12) else []
    less, more, *bare = in_turns(
        runs,
        lambda: processor_time(few, *arguments),
        lambda: processor_time(many, *arguments),
        *bare_hits,
    )
    (run,) = (many / "rec").glob(f"{RUN}*")
    dropped = json.loads((run / "run.json").read_bytes())["dropped"]
    assert not dropped, f"{dropped} hits were dropped"
    hits = differences(more, less, count, 1e6)
    show("a recorded hit", hits, "µs", f"aim {AIM:.0f} µs")
    least = (min(more) - min(less)) / count * 1e6
    print(f"{'the same of the least of each':46}{least:7.3f} µs  aim {AIM:.0f} µs")
    for each in bare:
        show("a bare one, without us", each, "µs", f"{WHERE_AIMED:.2f} µs where the aim was set")
        ratio_aim = f"aim {AIM / WHERE_AIMED:.2f} ×"
        show("a recorded hit / a bare one", ratios(hits, each), "×", ratio_aim)


def show_failures(folder: Path, count: int, runs: int) -> None:
    """Tests that fail, recorded and not; and what a record of one takes."""
    plain, recorded = in_turns(
        runs, lambda: processor_time(folder), lambda: processor_time(folder, RECORD)
    )
    show("a recorded failure", differences(recorded, plain, count, 1e3), "ms", "aim 15 ms")
    (run,) = (folder / "rec").glob(f"{RUN}*")
    lines = (run / EVENTS).read_bytes().splitlines()
    sizes = [len(line) / 1e3 for line in lines if b'"type":"test_phase"' in line[:80]]
    stored = sum(each.stat().st_size for each in run.iterdir()) / count / 1e3
    print(f"{'its line':46}{statistics.median(sizes):7.3f} kB")
    print(f"{'with its objects':46}{stored:7.3f} kB  aim 30 kB")


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.recording", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="of each kind")
    parser.add_argument("--hits", type=int, default=576_000, help="of 32 tracepoints")
    parser.add_argument("--failures", type=int, default=100, help="of each of two tests")
    parser.add_argument("--only", choices=("suite", "hits", "failures"), help="of the three parts")
    parser.add_argument("--instructions", action="store_true", help="count those of the suite")
    chosen = parser.parse_args()
    print(versions(), end="\n\n")
    with tempfile.TemporaryDirectory(prefix="cideldill-recording-") as name:
        temp = Path(name)
        if chosen.only in (None, "hits"):
            few = project(temp / "few", test_it__py=HOT.format(1))
            many = project(temp / "many", test_it__py=HOT.format(1 + chosen.hits // LINES // PARTS))
            show_hits(few, many, chosen.hits, chosen.runs)
        if chosen.only in (None, "failures"):
            failing = project(temp / "failing", test_it__py=FAILING.format(chosen.failures))
            show_failures(failing, chosen.failures, chosen.runs)
            print("the same with 10 frames of 40 locals each")
            test = f"\n\n@pytest.mark.parametrize('n', range({chosen.failures}))\n"
            text = f"import pytest\n{deep(10)}{test}def test_deep(n):\n    level0()\n"
            show_failures(project(temp / "deep", test_it__py=text), chosen.failures, chosen.runs)
        if chosen.only in (None, "suite"):
            tested = suite(temp)
            show_suite(tested, temp / "nothing", chosen.runs)
            if chosen.instructions:
                show_instructions(tested)


if __name__ == "__main__":
    main()
