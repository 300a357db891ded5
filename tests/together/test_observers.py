"""Observers in the process under test, of which clients know nothing.

The stdio server has one client; what several clients are told is in `tests/server/test_notify.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.together import ledger
from tests.together.driver import only_stop
from tests.together.workbench import Bench

pytestmark = pytest.mark.full

CONFTEST = (Path(__file__).parent / "inside" / "onlookers.py").read_text(encoding="utf-8")


def values(bench: Bench, *further: str) -> list[Any]:
    """What the test receives when its first call is skipped, and what `further` calls give."""
    bench.breakpoint("price")
    bench.breakpoint("checkpoint")
    ledger.write(bench, "price(2)", "price(-1)", "checkpoint()", *further)
    stop = only_stop(bench.run(["test_it.py"]))
    stop = only_stop(bench.go_on(stop, action="skip", fake_result=41))
    stop = only_stop(bench.go_on(stop))
    bench.go_on(stop)
    return ledger.received(bench)


EXPECTED = [41, "Refused: -1", None]


def test_nobody_needs_to_observe(bench: Bench) -> None:
    assert values(bench) == EXPECTED


def test_observers_are_notified_and_nothing_they_do_harms_the_test(bench: Bench) -> None:
    bench.write(conftest=CONFTEST)
    *received, reported = values(bench, "__import__('conftest').SEEN")
    assert received == EXPECTED
    pauses = [kind for kind in reported["first"] if kind != "Recorded"]
    assert pauses == ["Stopped", "Resumed"] * 3
    assert "Recorded" in reported["first"]
    for each in ("failing", "asking", "last"):  # calls are told on another thread than pauses
        assert Counter(reported[each]) == Counter(reported["first"])
    assert (reported["once"], reported["removed"], reported["a stranger"]) == (["Stopped"], [], [])
    assert reported["paused when told"] == ["True"] * 3
    warnings = bench.agent.call("debug_state")["warnings"]
    assert "an observer failed: ZeroDivisionError" in warnings
