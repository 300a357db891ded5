"""What a line costs under us, debugpy, bdb and hunter: `python -m benchmarks.debuggers`.

The same loop (`loops.py`) on the same interpreter, timed by itself, a process per sample and the
tools by turns, so that what slows the machine slows them all. Ours is a real run: a pytest child of
the front end, whose hits go to the event log. debugpy is driven through a client of its protocol.
Prints medians with every sample, and ratios beside the aims; asserts nothing. debugpy and hunter
come with the extra `bench`; a line says which one is absent. POSIX only.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.spine import QUIET, RawClient, ratios, show, versions
from tests.together.dap import DapClient, free_port

LOOPS = Path(__file__).with_name("loops.py")
ROOT = LOOPS.parents[1]
MESSAGE = "{number} of {count}: {total}"
CONDITION = "number < 0"
TITLES = {
    "log": "a line hit that reports three names",
    "condition": "a line whose condition is false",
    "calls": "a call of code that nothing watches",
}
CLOCKS = {
    "perf_counter": "wall time",
    "process_time": "processor time of all threads",
}
AIMS = {"log": "aim 0.1 ×", "condition": "aim 0.05 ×"}
AIM_OF_CALLS = "aim 1.01 ×" if sys.version_info >= (3, 12) else "sys.settrace: every call pays"
TESTS = """\
import loops

def test_hits():
    loops.main({folder!r}, "hits")

def test_calls():
    loops.main({folder!r}, "calls")
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the program is.

    Attributes:
        watched: The line of the loop.
        elsewhere: One that never runs.
    """

    folder: Path
    file: Path
    watched: int
    elsewhere: int

    def line(self, kind: str) -> int:
        """Where the breakpoint is."""
        return self.elsewhere if kind == "calls" else self.watched

    def test(self, kind: str) -> str:
        """The test that measures."""
        return "test_loops.py::test_calls" if kind == "calls" else "test_loops.py::test_hits"

    def sample(self) -> Sample:
        """What the process that has ended measured."""
        path = self.folder / "samples.json"
        found: Sample = json.loads(path.read_text(encoding="utf-8"))
        path.unlink()
        return found


Sample = dict[str, float]
"""Microseconds per pass, by the clock."""

Measure = Callable[[Place, str], Sample]
"""What one pass takes, in a process of its own."""


def prepared(folder: Path) -> Place:
    """The program, and tests that run it."""
    file = Path(shutil.copy(LOOPS, folder))
    lines = file.read_text(encoding="utf-8").splitlines()
    marked = {
        mark: 1 + next(i for i, text in enumerate(lines) if text.endswith(f"# {mark}"))
        for mark in ("watched", "elsewhere")
    }
    (folder / "pytest.ini").touch()
    tests = TESTS.format(folder=str(folder))
    (folder / "test_loops.py").write_text(tests, encoding="utf-8")
    return Place(folder, file, **marked)


# --- the tools ----------------------------------------------------------------------------------


def bare(place: Place, kind: str) -> Sample:
    """The interpreter alone."""
    _run(place.folder, str(place.file), str(place.folder), "calls" if kind == "calls" else "hits")
    return place.sample()


def blocked(place: Place, kind: str) -> Sample:
    """The test, without the plugin."""
    _run(place.folder, "-m", "pytest", *QUIET, "-p", "no:cideldill", place.test(kind))
    return place.sample()


def ours(client: RawClient, place: Place, kind: str) -> Sample:
    """The test in a run of the front end."""
    with watched(client, place, kind):
        return served(client, place, place.test(kind))


@contextmanager
def watched(client: RawClient, place: Place, kind: str) -> Iterator[None]:
    """While runs are made that pass our breakpoint."""
    where = {"file": str(place.file), "line": place.line(kind)}
    if kind == "condition":
        id = client.call("breakpoint_set", **where, condition=CONDITION)["id"]
    else:
        message = MESSAGE if kind == "log" else "unused"
        id = client.call("tracepoint_set", **where, log_message=message)["tracepoint"]["id"]
    yield
    (known,) = client.call("breakpoint_list")["breakpoints"]
    assert (known["state"], known["hit_count"] > 0) == ("bound", kind != "calls"), known
    client.call("breakpoint_remove", id=id)


def served(client: RawClient, place: Place, test: str, *arguments: str) -> Sample:
    """A run of a test, with further arguments for pytest."""
    reply = client.call("test_run", nodeids=[test], args=list(arguments), timeout_s=300)
    assert reply["exit_code"] == 0, reply
    return place.sample()


def debugpy(place: Place, kind: str, *work: str) -> Sample:
    """The program, waiting for a client that sets the breakpoint; `work` goes to it."""
    port = free_port()
    command = ["-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client"]
    measured = work or ("calls" if kind == "calls" else "hits",)
    extras = {"log": {"logMessage": MESSAGE}, "condition": {"condition": CONDITION}}
    breakpoint = {"line": place.line(kind), **extras.get(kind, {})}
    process = subprocess.Popen(
        [sys.executable, *command, str(place.file), str(place.folder), *measured],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"},
    )
    with _attached(process, port) as client:
        (set_one,) = client.set_breakpoints(place.file, breakpoint)
        assert set_one["verified"], set_one
        client.go()
        client.until("terminated")
        outputs = [each for each in client.events if each["event"] == "output"]
    assert process.wait(30) == 0
    # It does not wait for the last messages at the end of the program.
    assert any(" of " in each["body"]["output"] for each in outputs) == (kind == "log")
    return place.sample()


def _attached(process: subprocess.Popen[bytes], port: int) -> DapClient:
    while True:
        try:
            return DapClient(port)
        except ConnectionRefusedError:  # it does not listen yet
            try:
                code = process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"debugpy ended with {code}") from None


def under(tool: str, place: Place, kind: str, *work: str) -> Sample:
    """bdb, hunter or a bare callback, in the process itself."""
    arguments = (tool, str(place.folder), kind, str(place.file), str(place.line(kind)), *work)
    _run(ROOT, "-m", "benchmarks.under", *arguments)
    return place.sample()


def _run(folder: Path, *arguments: str) -> None:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- what is printed ----------------------------------------------------------------------------


def compare(place: Place, tools: dict[str, Measure], kind: str, rounds: int) -> None:
    """One kind of line under all tools, by turns; the floor first."""
    found: dict[str, list[Sample]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, measure in tools.items():
            found[name].append(measure(place, kind))
    for clock, title in CLOCKS.items():
        print(f"{TITLES[kind]}, {title}")
        samples = {name: [each[clock] for each in found[name]] for name in found}
        for name, values in samples.items():
            show(f"  {name}", values, "µs")
        for name in list(samples)[2:]:
            aim = AIMS[kind] if name == "debugpy" else ""
            show(f"  ours / {name}", ratios(samples["ours"], samples[name]), "×", aim)
        print()


def compare_calls(place: Place, tools: dict[str, Measure], rounds: int) -> None:
    """Each tool to the same program without it, pair by pair.

    Ours to two floors: where things lie in memory differs by as much as these two do.
    """
    print(f"{TITLES['calls']}, {CLOCKS['process_time']}")
    floors = [(name, bare, "bare") for name in tools] + [("ours", blocked, "without the plugin")]
    for name, floor, without in floors:
        measure = tools[name]
        pairs = [(floor(place, "calls"), measure(place, "calls")) for _ in range(rounds)]
        plain, seen = ([each["process_time"] for each in side] for side in zip(*pairs, strict=True))
        show(f"  {without}", plain, "µs")
        show(f"  {name}", seen, "µs")
        aim = AIM_OF_CALLS if name == "ours" else ""
        show(f"  {name} / {without}", ratios(seen, plain), "×", aim)


def installed() -> dict[str, Callable[..., Sample]]:
    """The debuggers of the extra `bench` that are there; print their versions."""
    found: dict[str, Callable[..., Sample]] = {}
    for name, measure in (("debugpy", debugpy), ("hunter", partial(under, "hunter"))):
        try:
            print(f"{name} {importlib.metadata.version(name)}")
            found[name] = measure
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is absent: pip install pytest-cideldill[bench]")
    return found


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.debuggers", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each tool and kind of line")
    parser.add_argument("--pairs", type=int, default=15, help="of calls with and without it")
    chosen = parser.parse_args()
    print(versions())
    others: dict[str, Measure] = {"bdb": partial(under, "bdb"), **installed()}
    print()
    with tempfile.TemporaryDirectory(prefix="cideldill-debuggers-") as temp:
        place = prepared(Path(temp).resolve())
        with RawClient(place.folder) as client:
            client.initialize()
            own = partial(ours, client)
            for kind in ("log", "condition"):
                compare(place, {"bare": bare, "ours": own, **others}, kind, chosen.runs)
            compare_calls(place, {"ours": own, **others}, chosen.pairs)


if __name__ == "__main__":
    main()
