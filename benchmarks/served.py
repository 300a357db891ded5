"""Served runs beside other debuggers and beside none: `python -m benchmarks.served`.

One table: a figure, ours, the others, their ratio and the aim; below it every sample. All of it is
measured in one run and by turns, so that what slows the machine slows all alike. What hits and
calls take is processor time of the whole test process, of what its other threads do later as well.
Asserts that nothing was lost, and nothing of the figures. debugpy and hunter come with the extra
`bench`. Linux only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import debuggers, served_suites
from benchmarks.debuggers import Place, Sample, blocked, under, watched
from benchmarks.hits import HOT, STOPS, WATCHED, project, trace
from benchmarks.scale import LOG_BYTES, memory, processor
from benchmarks.spine import INITIALIZE, SHOP, RawClient, show, start_to_initialize, versions
from cideldill_mcp.replies.render import MAX_MAX_CHARS
from cideldill_mcp.tools.control import MAX_PAGE
from tests.together.timelines import timeline

MESSAGE = "{number} of {total}: {number}"

KEPT_BEFORE = 28.5
"""MB that a million hits added in f8a8735 (CPython 3.12.1)."""

SDK = "import mcp.server.lowlevel, mcp_types, anyio"
"""What no server of the SDK can do without."""

REST = """\
import loops
import pytest


@pytest.mark.parametrize("work, count", {runs})
def test_rest(work, count):
    loops.main({folder!r}, work, count)
"""

NO_CIDS = """\
from functools import partial

from pytest_cideldill.interpreter import sealed

room = sealed.load("pytest_cideldill.hooks.debugged_process")
room.ProcessOptions = partial(room.ProcessOptions, identifies=False)
"""
"""A plugin for the test process: its recorded calls have no content ids."""

ATTEMPTS = 5
"""Samples that are taken for one in which nothing was dropped."""

AT_ONCE = 100_000
"""Hits of a run: so many may wait, unless the machine is very busy."""

NO_KOLO = "kolo is no part of the extra, and not measured"

WAIT_S = 60.0
"""How long pushes may take that are on their way."""

Measure = Callable[[], float]
Tools = dict[str, Callable[..., Sample]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many of each.

    Attributes:
        hits: Of one sample of ours; at most `AT_ONCE`.
        hits_of_others: They take so much longer.
        passes: Of a line whose condition is false.
        read: Hits that are read from the log.
        kept: Hits whose memory is measured.
    """

    hits: int = AT_ONCE
    hits_of_others: int = 10_000
    passes: int = 300_000
    calls: int = 20_000
    read: int = 20_000
    pushed: int = 150_000
    stops: int = 150
    kept: int = 1_000_000

    def portion(self, of_all: float) -> Sizes:
        """Less of everything."""
        return Sizes(**{name: max(2, int(each * of_all)) for name, each in asdict(self).items()})


@dataclass(slots=True)
class Row:
    """A line of the table.

    Attributes:
        measures: Ours, then the others, by name.
        against: The one that ours is compared with.
        is_beyond: By the difference, and not by the ratio.
        is_long: One sample is enough: it takes long, and varies little.
    """

    figure: str
    unit: str
    aim: str
    measures: dict[str, Measure]
    against: str = ""
    is_beyond: bool = False
    is_long: bool = False
    samples: dict[str, list[float]] = field(default_factory=dict)

    def sample(self) -> None:
        """One more of each."""
        if not (self.is_long and self.samples):
            for name, measure in self.measures.items():
                self.samples.setdefault(name, []).append(measure())

    def cells(self) -> tuple[str, ...]:
        """As text, of medians."""
        (_, ours), *others = self.samples.items()
        shown = [f"{name} {_number(statistics.median(each))}" for name, each in others]
        own = f"{_number(statistics.median(ours))} {self.unit}".strip()
        return self.figure, own, ", ".join(shown) or "–", self._ratio(ours), self.aim

    def _ratio(self, ours: Sequence[float]) -> str:
        against = self.samples.get(self.against)
        if against is None:
            return "–"
        pairs = list(zip(ours, against, strict=True))
        if self.is_beyond:
            return f"{self.against} + {statistics.median(a - b for a, b in pairs):.2f} {self.unit}"
        return f"{statistics.median(a / b for a, b in pairs):.3f} × {self.against}"

    def show_samples(self) -> None:
        """Each of them."""
        for name, samples in self.samples.items():
            show(f"{self.figure}: {name}", samples, self.unit)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def counts(client: RawClient) -> dict[str, int]:
    """Of events, and of those that were dropped."""
    found: dict[str, int] = client.call("debug_state")["counts"]
    return found


# --- single hits and calls ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Program:
    """That of `loops.py`, in a project.

    Attributes:
        client: Of our front end; nothing is pushed to it.
        others: debugpy and hunter, as far as they are installed.
    """

    client: RawClient
    place: Place
    others: Tools
    sizes: Sizes

    def rest(self, work: str, count: int, *arguments: str) -> float:
        """Seconds of the processor that a served test takes, and what follows it."""
        test = f"test_rest.py::test_rest[{work}-{count}]"
        return debuggers.served(self.client, self.place, test, *arguments)["rest"]

    def each(self, work: str, count: int, *arguments: str) -> float:
        """Microseconds of a pass, from a run with many and one with a single one."""
        few = self.rest(work, 1, *arguments)
        return (self.rest(work, count, *arguments) - few) / (count - 1) * 1e6

    def line(self, kind: str, count: int) -> float:
        """Microseconds of a pass of the watched line, under us."""
        with watched(self.client, self.place, kind):
            return self.complete(partial(self.each, "lined", count))

    def call(self, *arguments: str) -> float:
        """Microseconds of a recorded call."""
        ask, name = self.client.call, "loops.order"
        ask("breakpoint_add", function_name=name, behavior="go")
        found = self.complete(partial(self.each, "ordering", self.sizes.calls, *arguments))
        newest = counts(self.client)["events"]
        recorded = ask("timeline_get", types=["call"], after=max(newest - 50, 0))["events"]
        assert {event["cids"] is None for event in recorded} == {bool(arguments)}, recorded
        ask("breakpoint_remove", function_name=name)
        return found

    def complete(self, measure: Measure) -> float:
        """A sample in which no event was dropped: that takes no time. A busy one has others."""
        for _ in range(ATTEMPTS):
            before = counts(self.client)["dropped"]
            found = measure()
            if counts(self.client)["dropped"] == before:
                return found
        raise RuntimeError(f"events were dropped {ATTEMPTS} times: the machine is too busy")

    def by_others(self, kind: str, work: str = "lined") -> dict[str, Measure]:
        """Microseconds of a pass under the others, and with what they are all made of."""
        tools = self.others if kind != "record" else {}
        count = self.sizes.hits_of_others
        found: dict[str, Measure] = {
            name: partial(self._by, tool, kind, work, count) for name, tool in tools.items()
        }
        bare = partial(under, "bare")
        return found | {"bare callback": partial(self._by, bare, kind, work, self.sizes.hits)}

    def _by(self, tool: Callable[..., Sample], kind: str, work: str, count: int) -> float:
        return tool(self.place, kind, work, str(count))["rest"] / count * 1e6

    def untouched(self) -> float:
        """Microseconds of a call in code that nothing watches."""
        return debuggers.ours(self.client, self.place, "calls")["process_time"]

    def blocked(self) -> float:
        """The same without the plugin."""
        return blocked(self.place, "calls")["process_time"]


def program(folder: Path, others: Tools, sizes: Sizes, stack: ExitStack) -> Program:
    """A front end on a project of `loops.py`."""
    folder.mkdir()
    place = debuggers.prepared(folder)
    lined = [("lined", count) for count in (1, sizes.hits, sizes.passes)]
    runs = [*lined, ("ordering", 1), ("ordering", sizes.calls)]
    text = REST.format(runs=runs, folder=str(folder))
    (folder / "test_rest.py").write_text(text, encoding="utf-8")
    (folder / "no_cids.py").write_text(NO_CIDS, encoding="utf-8")
    client = stack.enter_context(RawClient(folder))
    client.request("initialize", INITIALIZE)
    return Program(client, place, others, sizes)


# --- many hits ----------------------------------------------------------------------------------


def fill(client: RawClient, at_once: int, count: int) -> None:
    """Log so many hits, in as many runs as it takes."""
    trace(client, HOT, MESSAGE)
    while count > 0:
        before = counts(client)["dropped"]
        client.call("test_run", timeout_s=300)
        count -= at_once - (counts(client)["dropped"] - before)


def reading(count: int) -> dict[str, float]:
    """Seconds in which a client reads hits in pages, and what of it is the front end's."""
    with project(HOT, count, is_pushed=False) as (_, client):
        fill(client, count, count)
        busy, began = processor(client.pid), time.perf_counter()
        asked = {"types": ["hit"], "limit": MAX_PAGE, "max_chars": MAX_MAX_CHARS}
        found = list(islice(timeline(client.call, **asked), count))
        took, busy = time.perf_counter() - began, processor(client.pid) - busy
    assert len(found) == count, len(found)
    began = time.perf_counter()
    json.loads(json.dumps(found))
    floor = time.perf_counter() - began
    return {"ours": took, "processor of the front end": busy, "json of them": floor}


def pushing(count: int) -> dict[str, float]:
    """Pushes in a second to a client, and whether they stand for all hits."""
    pushes: list[tuple[float, int]] = []

    def note(message: dict[str, Any]) -> None:
        if message["method"] == "debugger/breakpointHit":
            pushes.append((time.perf_counter(), 1 + message["params"].get("coalesced", 0)))

    with project(HOT, count) as (_, client):
        trace(client, HOT, MESSAGE)
        client.on_notification = note
        client.call("test_run", timeout_s=300)
        expected = count - counts(client)["dropped"]
        deadline = time.monotonic() + WAIT_S
        while sum(each for _, each in pushes) < expected and time.monotonic() < deadline:
            client.call("debug_state")
    took, counted = pushes[-1][0] - pushes[0][0], sum(each for _, each in pushes)
    return {
        "ours": len(pushes) / took,
        "hits that they stand for": counted / took,
        "coalesced": counted - len(pushes),
        "uncounted": expected - counted,
    }


def stopping(count: int) -> dict[str, float]:
    """Milliseconds from a line to the client that waits for the stop there."""
    samples: list[float] = []
    with project(STOPS, count, is_pushed=False) as (folder, client):
        client.call("breakpoint_set", file="test_it.py", line=WATCHED[STOPS])
        client.call("test_run", wait=False)
        for _ in range(count):
            client.call("breakpoint_wait", timeout_ms=60_000)
            now = time.time()
            reached = (folder / "reached").read_text(encoding="utf-8").split()[-1]
            samples.append((now - float(reached)) * 1e3)
            client.call("debug_continue")
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return {"ours": cuts[94], "p50": cuts[49]}


def kept(count: int) -> float:
    """Megabytes that hits of one tracepoint add to the front end."""
    options = ("-o", f"cideldill_max_log_bytes={LOG_BYTES}")
    at_once = min(count, AT_ONCE)
    with project(HOT, at_once, *options, is_pushed=False) as (_, client):
        client.call("test_run", timeout_s=300)
        idle = memory(client.pid)
        fill(client, at_once, count)
        return memory(client.pid) - idle


def importing() -> float:
    """Seconds of a process that imports what a server of the SDK needs."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", SDK], check=True)
    return time.perf_counter() - began


def together(measure: Callable[[], dict[str, float]], *names: str) -> dict[str, Measure]:
    """Figures of one sample: the first one takes it."""
    now: dict[str, float] = {}

    def first() -> float:
        now.update(measure())
        return now["ours"]

    return {"ours": first, **{name: partial(now.__getitem__, name) for name in names}}


# --- the rows -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bench:
    """What rows are made of.

    Attributes:
        portion: Of the tests of a suite.
        stack: Ends what was started for them.
    """

    program: Program
    folder: Path
    portion: float
    stack: ExitStack

    @property
    def sizes(self) -> Sizes:
        """How many of each."""
        return self.program.sizes


def hit_rows(bench: Bench) -> Iterator[Row]:
    """A message with three names."""
    own = partial(bench.program.line, "log", bench.sizes.hits)
    measures: dict[str, Measure] = {"ours": own, **bench.program.by_others("log")}
    yield Row("a tracepoint hit, three names", "µs", "≤ 1/15 = 0.067 ×", measures, "debugpy")


def condition_rows(bench: Bench) -> Iterator[Row]:
    """A condition that is false."""
    own = partial(bench.program.line, "condition", bench.sizes.passes)
    measures: dict[str, Measure] = {"ours": own, **bench.program.by_others("condition")}
    yield Row("a false condition", "µs", "≤ 1/25 = 0.04 ×", measures, "debugpy")


def call_rows(bench: Bench) -> Iterator[Row]:
    """Calls that are only recorded."""
    call, bare = bench.program.call, bench.program.by_others("record", "ordering")
    for name, aim, arguments in (
        ("", "≤ 6 µs", ()),
        (" without cids", "≤ 3.5 µs", ("-p", "no_cids")),
    ):
        measures: dict[str, Measure] = {"ours": partial(call, *arguments), **bare}
        yield Row(f"a recorded call{name}", "µs", aim, measures, "bare callback")


def read_rows(bench: Bench) -> Iterator[Row]:
    """Pages of the timeline."""
    count = bench.sizes.read
    measures = together(partial(reading, count), "processor of the front end", "json of them")
    yield Row(f"{count:,} hits read in pages", "s", "≤ 0.4 s", measures)


def push_rows(bench: Bench) -> Iterator[Row]:
    """A client that every hit is pushed to."""
    names = ("hits that they stand for", "coalesced", "uncounted")
    measures = together(partial(pushing, bench.sizes.pushed), *names)
    aim = "≥ 30,000, or coalesced and 0 uncounted"
    yield Row("pushes in a second to one client", "", aim, measures)


def stop_rows(bench: Bench) -> Iterator[Row]:
    """A client that waits."""
    measures = together(partial(stopping, bench.sizes.stops), "p50")
    yield Row("a stop at the client that waits, p95", "ms", "≤ 5 ms", measures)


def suite_rows(bench: Bench) -> Iterator[Row]:
    """Suites without breakpoints."""
    for whole in served_suites.SUITES:
        suite = whole.portion(bench.portion)
        folder = suite.write(bench.folder / f"suite_{suite.tests}")
        served_suites.blocked(folder, "--collect-only")  # compiles
        client = bench.stack.enter_context(RawClient(folder))
        client.request("initialize", INITIALIZE)
        measures: dict[str, Measure] = {
            "ours": partial(served_suites.served, client, folder),
            "blocked": partial(served_suites.blocked, folder),
        }
        title = f"{suite.tests:,} tests without breakpoints"
        yield Row(title, "s", f"≤ {suite.aim} ×", measures, "blocked")


def start_rows(bench: Bench) -> Iterator[Row]:
    """The front end's start."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*")
    shop = shutil.copytree(SHOP, bench.folder / "shop", ignore=leftovers)
    measures: dict[str, Measure] = {"ours": partial(start_to_initialize, shop), "SDK": importing}
    aim = "≤ SDK's import + 0.15 s"
    yield Row("start to the answer of initialize", "s", aim, measures, "SDK", is_beyond=True)


def memory_rows(bench: Bench) -> Iterator[Row]:
    """What stays of hits."""
    measures: dict[str, Measure] = {"ours": partial(kept, bench.sizes.kept)}
    if bench.sizes == Sizes():
        measures["f8a8735"] = lambda: KEPT_BEFORE
    title = f"memory for {bench.sizes.kept:,} hits of one tracepoint"
    yield Row(title, "MB", "≤ 1/3 = 0.333 ×", measures, "f8a8735", is_long=True)


def untouched_rows(bench: Bench) -> Iterator[Row]:
    """A call in a served run."""
    measures = {"ours": bench.program.untouched, "blocked": bench.program.blocked}
    yield Row("untouched code, a call", "µs", "≤ 1.00 ×", measures, "blocked")


ROWS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "hit": hit_rows,
    "condition": condition_rows,
    "call": call_rows,
    "read": read_rows,
    "push": push_rows,
    "stop": stop_rows,
    "suite": suite_rows,
    "start": start_rows,
    "memory": memory_rows,
    "untouched": untouched_rows,
}

HEAD = ("figure", "ours", "the others", "ratio", "aim")


def show_table(rows: Sequence[Row]) -> None:
    """As Markdown, in columns."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Measure what was chosen, and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.served", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="these rows")
    parser.add_argument("--samples", type=int, default=3, help="of each figure")
    parser.add_argument("--portion", type=float, default=1.0, help="of the hits, calls and tests")
    chosen = parser.parse_args()
    print(versions())
    others = debuggers.installed()
    print(NO_KOLO, end="\n\n", flush=True)
    with ExitStack() as stack:
        temp = stack.enter_context(tempfile.TemporaryDirectory(prefix="cideldill-served-"))
        folder, sizes = Path(temp).resolve(), Sizes().portion(chosen.portion)
        loops = program(folder / "loops", others, sizes, stack)
        bench = Bench(loops, folder, chosen.portion, stack)
        rows = [row for name in chosen.only for row in ROWS[name](bench)]
        for _ in range(chosen.samples):
            for row in rows:
                row.sample()
    show_table(rows)
    print()
    for row in rows:
        row.show_samples()


if __name__ == "__main__":
    main()
