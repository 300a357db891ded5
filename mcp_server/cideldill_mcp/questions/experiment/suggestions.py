"""Experiments of the answer's own: results that the failing test would have needed.

Out of the calls of the baseline: the last user call that gave a side of the failed comparison gives
the other one; a function on the failing test's way gives what it gave in tests that pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from cideldill_mcp.questions.experiment.experiment_specs import Experiment
from cideldill_mcp.questions.experiment.trials import Trial, first_failing
from cideldill_mcp.questions.recordings.recorded import BODIES, Call, RecordedTest
from cideldill_mcp.questions.texts.fitting import clipped
from pytest_cideldill.protocol.trace_rows import ForcedChange

MOST: Final = 5
"""Suggestions of one question."""

_OF_NEIGHBOURS: Final = 3

_LITERALS: Final = (int, float, str, bool, type(None), list, dict)
"""What JSON can carry as it is."""


def suggestions(baseline: Trial) -> list[Experiment]:
    """At most `MOST` experiments, the likeliest first."""
    nodeid = first_failing(baseline)
    if nodeid is None or not baseline.recorded:
        return []
    tests = baseline.recorded[0].tests
    test = tests.get(nodeid)
    if test is None:
        return []
    changes: dict[str, ForcedChange] = {}
    of_neighbours = islice(_of_neighbours(test, tests.values()), _OF_NEIGHBOURS)
    for change in (*_of_comparison(test), *of_neighbours):
        shown = f"{change.function.rpartition('.')[2]} → {change.value!r}"
        changes.setdefault(clipped(shown, 40), change)
    return [
        Experiment(name, [change], is_suggested=True)
        for name, change in list(changes.items())[:MOST]
    ]


def _of_comparison(test: RecordedTest) -> Iterator[ForcedChange]:
    """Each side of the failed comparison as the result of the call that gave the other one."""
    sides = _sides(test)
    if sides is None:
        return
    for actual, wanted in (sides, sides[::-1]):
        calls = [each for each in _functions(test) if _value(each.result) == (True, actual)]
        if not calls:
            continue
        last = calls[-1]
        yield _returning(last, wanted, last.ordinal)
        if last.ordinal > 1 or len([call for call in calls if call.code is last.code]) > 1:
            yield _returning(last, wanted, 0)


def _of_neighbours(test: RecordedTest, tests: Iterable[RecordedTest]) -> Iterator[ForcedChange]:
    """What functions of the failing test gave in those that pass."""
    seen: dict[str, list[Call]] = {}
    for call in _functions(test):
        seen.setdefault(call.code.dotted, []).append(call)
    for other in tests:
        if other is test or other.outcome != "passed":
            continue
        for call in _functions(other):
            here = seen.get(call.code.dotted)
            is_known, value = _value(call.result)
            if not here or not is_known or any(each.result == call.result for each in here):
                continue
            if call.args != here[-1].args:
                continue  # other arguments may well give another result
            yield _returning(call, value, 0)


def _returning(call: Call, value: Any, ordinal: int) -> ForcedChange:
    return ForcedChange(
        "return",
        call.code.dotted,
        call=ordinal,
        value={"$literal": value} if isinstance(value, dict) else value,
    )


def _functions(test: RecordedTest) -> list[Call]:
    """The calls in the test's own phase, in the order of their ends as far as that is known."""
    return [
        call
        for call in test.calls.values()
        if call.code.kind not in BODIES and call.result is not None and call.parent is not None
    ]


def _sides(test: RecordedTest) -> tuple[Any, Any] | None:
    """Both sides of `assert 9 == 10`, if both are literals."""
    failure = test.failure
    text = "" if failure is None else failure.text.removeprefix("AssertionError: ")
    if not text.startswith("assert "):
        return None
    with suppress(ValueError, TypeError, SyntaxError, MemoryError):
        match ast.parse(text.removeprefix("assert "), mode="eval").body:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return ast.literal_eval(left), ast.literal_eval(right)
    return None


def _value(text: str | None) -> tuple[bool, Any]:
    """Whether a text is a literal that JSON can carry, and its value."""
    if text is None:
        return False, None
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return False, None
    return isinstance(value, _LITERALS), value
