"""What hits of tracepoints cost from end to end: `python -m benchmarks.hits`.

A client on raw pipes, a front end, a pytest child; what a hit costs inside the test process alone
is in `benchmarks.engine`. Prints medians with every sample beside the aims; asserts nothing.
POSIX only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.spine import INITIALIZE, SERVER, RawClient, show, versions
from cideldill_mcp.tools.control import EVENT_TYPES

RARE = """\
import time


def test_it():
    for number in range({count}):
        time.sleep(0.005)
        number += 1
"""

HOT = """\
import json
import time


def hot(count):
    total = 0
    for number in range(count):
        total += number
    return total


def test_it():
    began, busy = time.perf_counter(), time.thread_time()
    hot({count})
    spent = time.perf_counter() - began, time.thread_time() - busy
    with open("spent", "w") as file:
        json.dump(spent, file)
"""

STOPS = """\
import time


def stop(file):
    file.write(repr(time.time()) + " ")
    file.flush()
    return file


def test_it():
    with open("reached", "w") as file:
        for number in range({count}):
            stop(file)
"""

WATCHED = {RARE: 7, HOT: 8, STOPS: 7}
"""The line of the tracepoint, or of the breakpoint."""

OTHERS = [each for each in EVENT_TYPES if each != "hit"]

POLL_S = 0.02
"""Seconds between two questions to a front end that takes in hits."""

PUSHED_S = 60
"""Seconds in which all that was hit is pushed or counted."""


@contextmanager
def project(
    text: str, count: int, *options: str, is_pushed: bool = True
) -> Iterator[tuple[Path, RawClient]]:
    """A project of one test, and a client of its front end; not pushed: it never says hello."""
    with tempfile.TemporaryDirectory(prefix="cideldill-hits-") as temp:
        folder = Path(temp)
        (folder / "pytest.ini").touch()
        (folder / "test_it.py").write_text(text.format(count=count), encoding="utf-8")
        with RawClient(folder, [*SERVER, *options]) as client:
            if is_pushed:
                client.initialize()
            else:
                client.request("initialize", INITIALIZE)
            yield folder, client


def trace(client: RawClient, text: str, message: str) -> None:
    """Set the tracepoint."""
    client.call("tracepoint_set", file="test_it.py", line=WATCHED[text], log_message=message)


def latencies(count: int, message: str) -> list[float]:
    """Milliseconds from each hit, by the clock of the test process, to its notification."""
    samples = []

    def note(pushed: dict[str, Any]) -> None:
        if pushed["method"] == "debugger/breakpointHit":
            hit = datetime.fromisoformat(pushed["params"]["timestamp"])
            samples.append((time.time() - hit.timestamp()) * 1e3)

    with project(RARE, count) as (_, client):
        trace(client, RARE, message)
        client.on_notification = note
        client.call("test_run", timeout_s=120)
        while len(samples) < count:
            client.call("debug_state")
    return samples


@dataclass(slots=True)
class Pushed:
    """Notifications of hits as they come; `began` and `ended` are the seconds of first and last."""

    count: int = 0
    coalesced: int = 0
    began: float = 0.0
    ended: float = 0.0

    def note(self, message: dict[str, Any]) -> None:
        """One notification of any kind."""
        if message["method"] == "debugger/breakpointHit":
            self.ended = time.perf_counter()
            self.began = self.began or self.ended
            self.count += 1
            self.coalesced += message["params"].get("coalesced", 0)


@dataclass(slots=True)
class Streams:
    """Of runs of a tight loop, one sample each.

    Attributes:
        wall: Microseconds of a round of the loop; the thread that sends takes its share meanwhile.
        busy: The same in processor time of the test's thread.
        per_s: Hits over the seconds from the start of the test until all are in the log.
        missing: Hits that are neither in the log nor counted as dropped.
        dropped: Hits that are counted as dropped.
        replies: Milliseconds of each `debug_state` meanwhile.
        pushes_per_s: Notifications of hits that the client gets between its first and its last.
        coalesced: Hits that one of them counts and does not show.
        unseen: Hits that are neither pushed nor counted.
    """

    wall: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)
    replies: list[float] = field(default_factory=list)
    pushes_per_s: list[float] = field(default_factory=list)
    coalesced: list[float] = field(default_factory=list)
    unseen: list[float] = field(default_factory=list)

    def run(self, count: int, message: str | None, *, is_pushed: bool = True) -> None:
        """One more; None: without the tracepoint."""
        with project(HOT, count, is_pushed=is_pushed) as (folder, client):
            if message is not None:
                trace(client, HOT, message)
            pushed = Pushed()
            client.on_notification = pushed.note
            before = client.call("timeline_get", limit=1)["next_after"]
            client.call("test_run", wait=False)
            while True:
                asked = time.perf_counter()
                state = client.call("debug_state")
                if state["state"] == "finished":
                    break
                self.replies.append((time.perf_counter() - asked) * 1e3)
                time.sleep(POLL_S)
            others = _others(client, before)
            if message is not None and is_pushed:
                self._note(client, pushed, count - state["counts"]["dropped"])
            spent = json.loads((folder / "spent").read_text(encoding="utf-8"))
        self.wall.append(spent[0] / count * 1e6)
        self.busy.append(spent[1] / count * 1e6)
        began, ended = others[0], others[-1]
        started = next(event for event in others if event["type"] == "test_started")
        self.per_s.append(count / (ended["ts"] - started["ts"]))
        logged = ended["seq"] - began["seq"] + 1 - len(others)
        self.dropped.append(state["counts"]["dropped"])
        self.missing.append(count - logged - self.dropped[-1] if message is not None else logged)

    def _note(self, client: RawClient, pushed: Pushed, count: int) -> None:
        """What is pushed, once all is; it may come seconds behind the end of the run."""
        deadline = time.perf_counter() + PUSHED_S
        while pushed.count + pushed.coalesced < count and time.perf_counter() < deadline:
            client.call("debug_state")
        self.pushes_per_s.append(pushed.count / (pushed.ended - pushed.began))
        self.coalesced.append(pushed.coalesced)
        self.unseen.append(count - pushed.count - pushed.coalesced)


def _others(client: RawClient, after: int) -> list[dict[str, Any]]:
    """The events of a run that are no hits, from `run_started` to `run_finished`."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != "run_finished":
        page = client.call("timeline_get", after=after, types=OTHERS)
        found += page["events"]
        after = page["next_after"]
    return found[: next(n for n, each in enumerate(found, 1) if each["type"] == "run_finished")]


def show_spread(name: str, samples: Sequence[float], aim: str = "") -> None:
    """The 50th and the 95th percentile and the largest, in milliseconds."""
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    print(f"{name:46}{cuts[49]:7.3f} ms  p50")
    print(f"{'':46}{cuts[94]:7.3f} ms  p95{aim and ', ' + aim}")
    print(f"{'':46}{max(samples):7.3f} ms  of {len(samples)} the longest")


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.hits", description=__doc__)
    parser.add_argument("--rare", type=int, default=400, help="hits of which each is waited for")
    parser.add_argument("--hot", type=int, default=150_000, help="hits of a tight loop")
    parser.add_argument("--runs", type=int, default=5, help="of the tight loop")
    chosen = parser.parse_args()
    print(versions(), end="\n\n")
    show_spread("hit to notification", latencies(chosen.rare, "{number}"), "aim 20 ms")
    plain, pushed, quiet = Streams(), Streams(), Streams()
    for _ in range(chosen.runs):
        plain.run(chosen.hot, None)
        pushed.run(chosen.hot, "{number}")
        quiet.run(chosen.hot, "{number}", is_pushed=False)
    show("round of a tight loop, processor time", plain.busy, "µs")
    for name, each in (("pushed", pushed), ("not pushed", quiet)):
        print(f"\n{chosen.hot} hits of a tight loop, {name}")
        show("a hit in the test, processor time", each.busy, "µs", "aim 1.5 µs")
        show("a hit in the test, wall time", each.wall, "µs")
        show("logged hits in a second, in thousands", [n / 1e3 for n in each.per_s], "", "aim 50")
        if each.pushes_per_s:
            pushes = [n / 1e3 for n in each.pushes_per_s]
            show("pushes in a second, in thousands", pushes, "", "aim 30")
            show("coalesced and counted", each.coalesced, "")
            show("neither pushed nor counted", each.unseen, "", "aim 0")
        show("dropped and counted", each.dropped, "")
        show("lost", each.missing, "", "aim 0")
        show_spread("debug_state meanwhile", each.replies)


if __name__ == "__main__":
    main()
