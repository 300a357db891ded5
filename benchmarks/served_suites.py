"""Two suites of ordinary tests, for `benchmarks.served`: what is a served run without breakpoints?

Each process leaves the seconds of the processor that it took, from its start to its end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.spine import QUIET, RawClient

CONFTEST = """\
import atexit
import json
import time
from pathlib import Path

import pytest


def leave():
    Path({spent!r}).write_text(json.dumps(time.process_time()), encoding="utf-8")


atexit.register(leave)


@pytest.fixture(scope="module")
def prices():
    return {{f"item {{number}}": number for number in range(20)}}


@pytest.fixture
def basket(prices):
    return list(prices.items())
"""

TESTS = """\
import pytest


def total(basket, rounds={rounds}):
    found = 0
    for number in range(rounds):
        for _, price in basket:
            found += price * number % 7
    return found


@pytest.mark.parametrize("count", range({counts}))
def test_totals(basket, count):
    assert total(basket) == total(basket)
    assert len(basket) == 20, count


class TestBasket:
    @pytest.mark.parametrize("name", [f"item {{number}}" for number in range({names})])
    def test_prices(self, prices, name):
        assert prices[name] == int(name.split()[1])
        assert total(prices.items()) >= 0

    def test_empty(self):
        assert total([]) == 0
"""


_FEWEST = 3
"""Tests in a module."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Its size.

    Attributes:
        files: Modules of tests.
        tests: Of all of them together.
        rounds: How much a test does.
        seconds: What it takes of the processor where the aim was set.
        aim: Served, this many times of that.
    """

    files: int
    tests: int
    rounds: int
    seconds: float
    aim: float

    def portion(self, of_all: float) -> Suite:
        """Fewer tests."""
        files, tests = (max(int(each * of_all), 1) for each in (self.files, self.tests))
        return replace(self, files=files, tests=max(tests, _FEWEST * files))

    def write(self, folder: Path) -> Path:
        """The suite as a project."""
        folder.mkdir()
        (folder / "pytest.ini").touch()
        text = CONFTEST.format(spent=str(folder / "spent.json"))
        (folder / "conftest.py").write_text(text, encoding="utf-8")
        for number in range(self.files):
            tests = self.tests // self.files + (number < self.tests % self.files)
            names = min(tests // 3, 20)
            text = TESTS.format(rounds=self.rounds, names=names, counts=tests - names - 1)
            (folder / f"test_part_{number}.py").write_text(text, encoding="utf-8")
        return folder


SUITES = (
    Suite(files=60, tests=1_203, rounds=20, seconds=2.7, aim=1.04),
    Suite(files=24, tests=489, rounds=60, seconds=2.0, aim=1.03),
)


def blocked(folder: Path, *arguments: str) -> float:
    """Seconds of the processor that pytest takes without the plugin."""
    command = [sys.executable, "-m", "pytest", *QUIET, "-p", "no:cideldill", *arguments]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return _spent(folder)


def served(client: RawClient, folder: Path) -> float:
    """The same of the test process of a front end."""
    reply = client.call("test_run", timeout_s=300)
    assert reply["exit_code"] == 0, reply
    return _spent(folder)


def _spent(folder: Path) -> float:
    path = folder / "spent.json"
    spent: float = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return spent
