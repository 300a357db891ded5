"""What large records take to be read: `python -m benchmarks.records`.

Records of one kind of lines each, made in a temporary folder: `cideldill show`, `cideldill report`,
and `cideldill-mcp --open` until it answers `initialize`, until its tools answer, and how long other
requests wait meanwhile. Prints seconds and the most memory; asserts nothing. POSIX only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread

from benchmarks.spine import RawClient, versions
from pytest_cideldill.records.format import EVENTS, Line
from tests.process.written import Writer, call, hit

MEGABYTE = 1_000_000
QUICK = 0.05
"""Seconds between two requests while a record is opened."""

AIMS = "aims: 5 s + 1 s per 50 MB, 300 MB; others within 50 ms (p95)"

Make = Callable[[Writer, str], object]
"""Tells some lines in which a text stands that is another one each time."""


def passed(worker: Writer, name: str) -> None:
    """A test of which there is nothing to tell."""
    worker.test(f"test_passed[{name}]")


def failures(worker: Writer, name: str) -> None:
    """One with its autopsy."""
    worker.test(f"test_failed[{name}]", failure={"message": f"assert 3 == {name}"})


def skipped(worker: Writer, name: str) -> None:
    """One whose report is kept."""
    failure = {"category": "skipped", "outcome": "skipped", "exception": None, "autopsy": None}
    worker.test(f"test_skipped[{name}]", failure=failure)


def calls(worker: Writer, name: str) -> None:
    """A recorded call."""
    worker.append(
        **call(f"c1.{name}", pretty_args=[f"price={name}"]), nodeid="test_shop.py::test_it"
    )


def hits(worker: Writer, name: str) -> None:
    """A message of the one tracepoint."""
    worker.append(**hit(f"total={name}"), nodeid="test_shop.py::test_it")


def tracepoints(worker: Writer, name: str) -> None:
    """One of very many tracepoints."""
    worker.append(**hit(f"total={name}", id=f"tp-{name}"), nodeid="test_shop.py::test_it")


def notes(worker: Writer, name: str) -> None:
    """What a test logged."""
    worker.append("log", nodeid="test_shop.py::test_it", message=f"at {name}", values={"n": name})


def collecting(worker: Writer, name: str) -> None:
    """A file that could not be collected."""
    worker.append("collection_failed", nodeid=f"test_{name}.py", longrepr="E   NameError: name")


def begun(worker: Writer, name: str) -> None:
    """A test that does not end."""
    worker.append("test_started", nodeid=f"test_shop.py::test_begun[{name}]")


KINDS: dict[str, Make] = {
    each.__name__: each
    for each in (
        *(passed, failures, calls, hits),
        *(skipped, tracepoints, notes, collecting, begun),
    )
}

_PLACE = "000000000"
"""Stands for a number of nine digits while the lines are made."""


def record(folder: Path, make: Make, megabytes: int) -> Path:
    """A record of one run, about so large."""
    run = folder / "run-20260101T000000.000Z-c1"
    run.mkdir(parents=True)
    first, worker, last = Writer().begin(), Writer(), Writer().end(0)
    make(worker, _PLACE)
    template = "".join(each.text for each in worker.lines)
    with (run / EVENTS).open("w", encoding="ascii") as file:
        file.writelines(_texts(first))
        size = file.tell()
        for number in count(1):
            size += file.write(template.replace(_PLACE, f"{number:09}"))
            if size > megabytes * MEGABYTE:
                break
        file.writelines(_texts(last))
    return folder


def _texts(worker: Writer) -> Iterator[str]:
    return (Line(*each).text for each in worker.lines)


def command(*arguments: str) -> tuple[float, float]:
    """Seconds and megabytes that `cideldill` takes."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "pytest_cideldill", *arguments], stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"cideldill {arguments[0]} failed")
    return time.perf_counter() - began, used.ru_maxrss / 1024


def opening(folder: Path) -> tuple[float, float, list[float], float]:
    """Until `initialize` is answered, until tools are; what others waited; megabytes."""
    server = (sys.executable, "-m", "cideldill_mcp", "--open", str(folder))
    waited: list[float] = []
    with RawClient(folder, server) as client:
        client.initialize()
        answered = time.perf_counter() - client.started
        asked = client.send("tools/call", {"name": "debug_state", "arguments": {}})
        is_open = Event()

        def ask() -> None:
            while not is_open.wait(QUICK):
                began = time.perf_counter()
                pending[client.send("ping", {})] = began

        pending: dict[int, float] = {}
        asking = Thread(target=ask)
        asking.start()
        now = client.started
        for message in client.messages():
            now = time.perf_counter()
            if message.get("id") == asked:
                break
            if (began := pending.pop(message.get("id", 0), None)) is not None:
                waited.append(now - began)
        opened = now - client.started
        is_open.set()
        asking.join()
        peak = _peak(client.pid)
    return answered, opened, waited, peak


def _peak(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.records", description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    chosen = parser.parse_args()
    print(versions(), AIMS, "", sep="\n")
    print(
        f"{'':20}{'show':>14}{'report':>16}{'initialize':>12}{'tools answer':>20}{'others p95':>14}"
    )
    for megabytes in chosen.megabytes:
        for kind in chosen.kinds:
            with tempfile.TemporaryDirectory(prefix="cideldill-records-") as name:
                folder = record(Path(name), KINDS[kind], megabytes)
                shown = command("show", str(folder))
                page = command("report", str(folder), "-o", os.path.join(name, "page.html"))
                answered, opened, waited, peak = opening(folder)
            late = (
                statistics.quantiles(waited, n=20, method="inclusive")[-1] * 1e3
                if len(waited) > 1
                else 0.0
            )
            print(
                f"{kind:12}{megabytes:5} MB{_used(*shown)}{_used(*page)}{answered:10.2f} s"
                f"{_used(opened, peak)}{late:9.1f} ms",
                flush=True,
            )


def _used(seconds: float, megabytes: float) -> str:
    return f"{seconds:8.2f} s{megabytes:6.0f} MB"


if __name__ == "__main__":
    main()
