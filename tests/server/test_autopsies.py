"""Autopsies as clients get them: their extent, and what is cut first."""

from __future__ import annotations

from typing import Any

import pytest

from cideldill_mcp.replies.render import dumps
from cideldill_mcp.runs.autopsies import (
    FEW_CHILDREN,
    FEW_FRAMES,
    FEW_LOCALS,
    fitted,
    shaped,
    siblings,
)
from cideldill_mcp.runs.results import Results
from pytest_cideldill.protocol import NodeFinished, NodeStarted, PhaseReported


def frame(index: int, *, variables: int | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": index, "function": f"f{index}", "source": "s" * 50}
    shown |= {"arguments": None, "variables": None}
    if variables is not None:
        shown["arguments"] = []
        shown["variables"] = {"locals": [{"name": f"v{n}", "value": "x"} for n in range(variables)]}
        shown["arguments"].append({"name": "a", "value": "[10 items]", "children": children(10)})
    return shown


def children(count: int) -> list[dict[str, str]]:
    return [{"name": f"[{n}]", "type": "int", "value": "x"} for n in range(count)]


def autopsy(frames: int = 10, variables: int = 20) -> dict[str, Any]:
    return {
        "exception": {"type": "KeyError", "message": "m", "stackTraceString": "t" * 300},
        "assertion": {"left": "[10 items]", "leftChildren": children(10)},
        "frames": [frame(n, variables=variables if n < 3 else None) for n in range(frames)],
        "userFrameIndex": 0,
        "innerExceptions": [{"type": "A"}, {"type": "B"}],
        "innerExceptionsTruncated": False,
        "stdout": "o" * 1_000,
        "fixtures": [],
    }


def with_variables(shown: dict[str, Any]) -> list[int]:
    return [each["index"] for each in shown["frames"] if each["variables"] is not None]


def test_as_much_is_shown_as_is_asked_for_and_recorded() -> None:
    """`max_frames`, `include_variables_for_frames`, `max_inner_exceptions`."""
    shown = shaped(autopsy(), frames=4, variables=2, inner=1)
    assert len(shown["frames"]) == 4
    assert with_variables(shown) == [0, 1]
    assert (shown["innerExceptions"], shown["innerExceptionsTruncated"]) == ([{"type": "A"}], True)
    whole = shaped(autopsy(), frames=99, variables=10, inner=5)
    assert whole == autopsy()


def test_what_fits_is_left_alone() -> None:
    whole = autopsy()
    assert fitted(whole, len(dumps(whole))) is whole


@pytest.mark.full
def test_the_most_useful_stays_longest() -> None:
    """Variables of callers go first, then outer frames, the trace, most parts of objects, old
    output, other variables, all parts of objects, those of operands, frames of callers last.
    """
    whole, seen = autopsy(), []
    for budget in range(len(dumps(whole)), 900, -50):
        shown = fitted(whole, budget)
        assert len(dumps(shown)) <= budget
        (argument,), assertion = shown["frames"][0]["arguments"], shown["assertion"]
        parts = argument.get("children", ()), assertion.get("leftChildren", ())
        gone = [
            with_variables(shown) == [0],
            len(shown["frames"]) <= FEW_FRAMES,
            shown["exception"]["stackTraceString"] is None,
            all(len(each) <= FEW_CHILDREN for each in parts),
            len(shown["stdout"]) < 1_000,
            shown["frames"][0]["variables"].get("left_out") == 20 - FEW_LOCALS,
            "children" not in argument,
            "leftChildren" not in assertion,
            len(shown["frames"]) == 1,
        ]
        assert argument.get("truncated", False) == (gone[3] and not gone[6])
        assert gone == sorted(gone, reverse=True), budget
        assert shown.get("truncated", False) == any(gone)
        seen.append(sum(gone))
    assert set(seen) == set(range(10))
    assert whole == autopsy()


def test_siblings_are_other_parameters_of_the_same_function() -> None:
    """Whatever the names of folders and parameters hold."""
    results = Results()
    for place, outcome in (
        ("a[1]/test_it.py::TestIt::test_n[x/y]", "failed"),
        ("a[1]/test_it.py::TestIt::test_n[::]", None),
        ("a[1]/test_it.py::TestIt::test_nn[x]", None),
        ("a[1]/test_other.py::TestIt::test_n[x]", None),
        ("a[1]/test_it.py::TestIt::test_n[[]", "error"),
    ):
        results.started("main", NodeStarted(place, 1.0))
        if outcome is not None:
            results.reported("main", PhaseReported(place, "call", outcome, "failed", 0.1))
        results.finished("main", NodeFinished(place, 0.1, {}))
    shown = siblings(results, "a[1]/test_it.py::TestIt::test_n[::]")
    assert shown == {
        "passed": ["TestIt::test_n[::]"],
        "failed": ["TestIt::test_n[x/y]", "TestIt::test_n[[]"],
    }
    assert siblings(results, "a[1]/test_it.py::TestIt::test_n") == {"passed": [], "failed": []}


@pytest.mark.parametrize("budget", [300, 500])
def test_the_exception_is_there_however_little_fits(budget: int) -> None:
    shown = fitted(autopsy(), budget)
    assert len(dumps(shown)) <= budget
    assert shown["exception"]["type"] == "KeyError"
