"""Threads pass lines while those and others are armed, disarmed and restarted: nothing is lost.

One thread plays the I/O thread, as in a real process: it applies commands and takes rows.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from pytest_cideldill.probes.linehits import LineProbe
from pytest_cideldill.protocol import (
    AddException,
    AddLine,
    Recorded,
    RemoveBreakpoint,
    Stopped,
    Warned,
)
from pytest_cideldill.sourcecode.codes import key_of, walk
from tests.process.debuggee import Debuggee
from tests.process.sources_checks import armed, assert_clean

ROOT = Path(__file__).resolve().parents[2]
TEXT = """\
def steady(rounds):
    total = 0
    for number in range(rounds):
        total += number  # always
        total += 1  # changing
        if number % 8 == 0:
            total += helper(number)
            try:
                raise KeyError
            except KeyError:
                pass
    return total

def helper(number):
    made = lambda: number  # changing
    return sum(each + number for each in (1, 2)) + made()  # changing

def generate(rounds):
    for number in range(rounds):
        yield number  # always
"""
THREADS = 3
ROUNDS = 20
BATCH = 4
AGAIN = 100
MOST_CODES = 60
"""Each command arms all of them."""

AT_ONCE = 100
"""Turns of all threads for each time that rows are taken."""

HOW: list[dict[str, Any]] = [
    {"message": "{number}"},
    {"message": "x", "multiple": 3},
    {"condition": "number < 0"},
]
STEADY = ("always-0", "always-1")


class Stress:
    """One section: probes that stay count exactly, while others come and go.

    Attributes:
        passes: How often each thread's line was passed that is watched all the time.
        turns: Of each thread; two more mean that it has left what it was in.
    """

    def __init__(self, seed: int, file: Path) -> None:
        self.random = random.Random(seed)
        self.file = str(file)
        self.process = Debuggee()
        self.passes = [Counter[str]() for _ in range(THREADS)]
        self.turns = [0] * THREADS
        self.reported: Counter[str] = Counter()
        self.gone: set[str] = set()
        self.problems: list[str] = []
        self.codes: list[CodeType] = []
        self.places = self._places()
        self.turned = threading.Event()
        self.taken = threading.Event()
        self.allowed = AT_ONCE

    def _places(self) -> dict[str, list[tuple[int, list[str | int]]]]:
        """By comment: each line with the key of the code object that holds it."""
        found: dict[str, list[tuple[int, list[str | int]]]] = {"always": [], "changing": []}
        root = compile(TEXT, self.file, "exec")
        lines = dict(enumerate(TEXT.splitlines(), 1))
        for code, _, _ in walk(root):
            for line in {line for _, _, line in code.co_lines() if line}:
                comment = lines[line].partition("# ")[2]
                if comment in found and code.co_name != "<module>":
                    found[comment].append((line, key_of(code).to_plain()))
        return found

    # --- the program ------------------------------------------------------------------------

    def work(self, index: int, until: float) -> None:
        """New code now and then, which is bound as it starts, and code that was bound before."""
        kept: dict[str, Any] = {}
        exec(compile(TEXT, self.file, "exec"), kept)
        while time.monotonic() < until:
            names = kept
            if self.turns[index] % AGAIN == 0 and len(self.codes) < MOST_CODES:
                names = {}
                exec(compile(TEXT, self.file, "exec"), names)
                self.codes += [names["steady"].__code__, names["generate"].__code__]
            for each in (names, kept):
                each["steady"](ROUNDS)
                assert sum(each["generate"](ROUNDS)) == sum(range(ROUNDS))
                self.passes[index]["always-0"] += ROUNDS
                self.passes[index]["always-1"] += ROUNDS
            self.turns[index] += 1
            self.turned.set()
            while sum(self.turns) > self.allowed and not self.taken.wait(1.0):
                pass  # more rows than the log holds would be dropped, as they should
            self.taken.clear()
        self.turns[index] = sys.maxsize
        self.turned.set()

    # --- the I/O thread ---------------------------------------------------------------------

    def ask(self, make: Any) -> None:
        """Apply a command; it is acknowledged when this returns."""
        self.process.start(make)()

    def add(self, id: str, place: tuple[int, list[str | int]], **asked: Any) -> None:
        line, key = place
        self.ask(lambda request: AddLine(request, id, self.file, line, key, **asked))

    def take(self) -> None:
        """What the hot path left, as the I/O thread takes it."""
        self.allowed = sum(self.turns) + AT_ONCE
        for event in [*self.process.rows.take(self), *self.process.manager.look_around()]:
            if isinstance(event, Recorded):
                for row in event.in_order():
                    id = row["breakpoint_id"]
                    self.reported[id] += 1
                    if id in self.gone:
                        self.problems.append(f"{id} was told after its end")
            elif isinstance(event, Warned):
                self.problems.append(event.message)

        self.taken.set()

    def settle(self) -> None:
        """Wait until every thread has left what it was in."""
        before = list(self.turns)
        while any(now - then < 2 for now, then in zip(self.turns, before, strict=True)):
            if all(now == sys.maxsize for now in self.turns):
                break
            self.turned.wait(1.0)
            self.turned.clear()
            self.take()

    def change(self, batch: int, until: float) -> None:
        """Probes come, rest, come back and go, some of them at the same line."""
        due: dict[str, tuple[LineProbe, int]] = {}
        for number in range(BATCH):
            id, place = f"changing-{batch}-{number}", self.random.choice(self.places["changing"])
            how = self.random.choice(HOW)
            self.add(id, place, **how)
            probe = next(each for each in self.process.manager.lines.probes if each.spec.id == id)
            due[id] = probe, 0 if "condition" in how else how.get("multiple", 1)
            for enabled in self.random.choice([(), (False,), (False, True)]):
                self.take()
                self.add(id, place, **how, enabled=enabled)
            self.restart()
            if time.monotonic() > until:
                break
        self.ask(lambda n: AddException(n, "ex", "OSError"))
        for id in self.random.sample(sorted(due), len(due)):
            self.restart()
            self.ask(lambda n, id=id: RemoveBreakpoint(n, id))
        self.ask(lambda n: RemoveBreakpoint(n, "ex"))
        self.settle()
        self.take()
        self.gone.update(due)
        for id, (probe, each) in due.items():
            expected = probe.passes.value // each if each else 0
            if self.reported[id] != expected:
                self.problems.append(f"{id}: told {self.reported[id]} of {expected}")

    def restart(self) -> None:
        """All events of all tools come back that were disabled anywhere."""
        if sys.version_info >= (3, 12):
            for _ in range(self.random.randint(0, 3)):
                sys.monitoring.restart_events()

    def run(self, seconds: float) -> dict[str, Any]:
        """All of it; the figures."""
        for id, place in zip(STEADY, self.places["always"], strict=True):
            self.add(id, place, message="{number}")
        steady = {each.spec.id: each for each in self.process.manager.lines.probes}
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(n, until)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        batches = 0
        while any(thread.is_alive() for thread in threads):
            self.change(batches, until)
            batches += 1
        for thread in threads:
            thread.join()
        self.take()
        expected: Counter[str] = Counter()
        for each in self.passes:
            expected += each
        counted = Counter({id: steady[id].passes.value for id in STEADY})
        reported = Counter({id: self.reported[id] for id in STEADY})
        self.process.manager.release("stop")
        names: dict[str, Any] = {}
        exec(compile(TEXT, self.file, "exec"), names)
        names["steady"](ROUNDS)
        self.take()
        figures = f"passed {expected}, counted {counted}, told {reported}; {self.problems}"
        assert counted == reported == expected, figures
        assert {id: self.reported[id] for id in STEADY} == reported, "told after the end"
        assert self.problems == []
        assert not self.process.has(Stopped)
        assert armed(self.codes) == []
        assert_clean()
        return {"passes": expected.total(), "batches": batches, "codes": len(self.codes)}


class Neighbour:
    """Another tool, which disables line events at random."""

    def __init__(self) -> None:
        self.luck = random.Random(1)

    def __enter__(self) -> None:
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            monitoring.use_tool_id(1, "neighbour")
            monitoring.register_callback(1, monitoring.events.LINE, self._on_line)
            monitoring.set_events(1, monitoring.events.LINE)

    def __exit__(self, *_: object) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(1, 0)
            sys.monitoring.register_callback(1, sys.monitoring.events.LINE, None)
            sys.monitoring.free_tool_id(1)

    def _on_line(self, code: CodeType, line: int) -> Any:
        return sys.monitoring.DISABLE if self.luck.random() < 0.5 else None


def main(seconds: str, seed: str) -> None:
    """In a process of its own: a crash is told with its stacks."""
    faulthandler.enable()
    sys.setswitchinterval(1e-5)
    gc.freeze()  # what is looked through at each command: the program's own objects are enough
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py").resolve()
        file.write_text(TEXT, encoding="utf-8")
        for number in range(int(seed), int(seed) + 2):
            if number % 2:
                with Neighbour():
                    found.append(Stress(number, file).run(float(seconds) / 2))
            else:
                found.append(Stress(number, file).run(float(seconds) / 2))
    print(json.dumps(found))


def stressed(seconds: float, seed: int) -> list[dict[str, int]]:
    """The figures of a process that was put under stress."""
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, str(seconds), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COVERAGE_CORE": ""},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    figures: list[dict[str, int]] = json.loads(done.stdout)
    return figures


@pytest.mark.full
def test_a_moment_of_stress() -> None:
    for figures in stressed(2.0, seed=0):
        assert figures["batches"] >= 1
        assert figures["passes"] > 1_000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12, 2))
def test_minutes_of_stress(seed: int) -> None:
    for figures in stressed(60.0, seed):
        assert figures["batches"] >= 3  # on 3.11 each command is traced


if __name__ == "__main__":
    main(*sys.argv[1:])
