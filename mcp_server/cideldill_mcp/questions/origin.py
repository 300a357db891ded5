"""Where the wrong value of a failure came from: the inmost call that gave it, or raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cideldill_mcp.questions.call_text import deepest
from cideldill_mcp.questions.differences import RESULT, Difference, states_between
from cideldill_mcp.questions.recorded import (
    BODIES,
    Call,
    Code,
    Failed,
    Recorded,
    RecordedTest,
    descendants,
)

_EMPTY: Final = frozenset({"None", "True", "False", "''", "b''", "[]", "()", "{}", "set()"})
"""Values that many calls return; they say something on the failing line only."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The call that a wrong value came from.

    Attributes:
        chain: The calls from the test to it, outermost first; each but the first gave the value
            that the one before gave.
        text: The value; empty: it raised.
        side: Of the comparison: `left` or `right`; empty: there was none.
        path: Where in that side the value is; empty: it is the side.
    """

    chain: list[Call]
    text: str = ""
    side: str = ""
    path: str = ""

    @property
    def call(self) -> Call:
        """The inmost one."""
        return self.chain[-1]


def first_difference(failed: Failed) -> Difference | None:
    """Where both sides of a comparison differ first inside; None: they are no such values."""
    left, right = failed.insides.get("left"), failed.insides.get("right")
    if failed.op not in ("==", "is", "in", "not in", "!=") or left is None or right is None:
        return None
    found = next(states_between(left, right), None)
    return found if found is None or found.path else None


def origin_of(
    recorded: Recorded, test: RecordedTest, is_of_tests: Callable[[Code], bool]
) -> Origin | None:
    """Where the wrong value came from; None: it is not known."""
    phase, failed = test.failure, test.failed
    if phase is None:
        return None
    if failed is None or not failed.op:
        path = deepest([*phase.continued, *phase.roots])
        inner = [call for call in path if not is_of_tests(call.code)]
        return Origin(path) if inner else None
    calls = [
        call
        for root in phase.roots
        for call in descendants(root)
        if call.has_ended and call.code.kind not in BODIES and not is_of_tests(call.code)
    ]
    calls.sort(key=lambda call: call.ended_at)
    if (inside := first_difference(failed)) is not None:
        return _of_inside(recorded, calls, inside)
    return _of_operand(calls, failed, is_of_tests)


def _of_operand(
    calls: list[Call], failed: Failed, is_of_tests: Callable[[Code], bool]
) -> Origin | None:
    """The last call that gave a side; the side that is an expression first."""
    sides = [("left", failed.left), ("right", failed.right)]
    if "(" in failed.expressions[1] and "(" not in failed.expressions[0]:
        sides.reverse()
    for side, text in sides:
        gave = [call for call in calls if call.result == text]
        if _says_little(text):  # only what the test called itself
            gave = [each for each in gave if each.parent is None or is_of_tests(each.parent.code)]
            gave = [each for each in gave if each is calls[-1]]
        if gave:
            outer = next(
                (each for each in reversed(gave) if each.parent and is_of_tests(each.parent.code)),
                gave[-1],
            )
            return Origin(_inward(outer, text), text, side)
    return None


def _inward(call: Call, text: str) -> list[Call]:
    """From a call to the inmost one that gave the same."""
    chain = [*above(call), call]
    while True:
        inner = [each for each in chain[-1].children if each.result == text]
        if not inner or inner[-1].code.kind in BODIES:
            return chain
        chain.append(inner[-1])


def above(call: Call) -> list[Call]:
    """The calls around a call, outermost first."""
    found: list[Call] = []
    outer = call.parent
    while outer is not None:
        found.insert(0, outer)
        outer = outer.parent
    return found


def _of_inside(recorded: Recorded, calls: list[Call], inside: Difference) -> Origin | None:
    """The first call that gave what differs: as its result, or inside of it at such a place."""
    step = inside.path[max(inside.path.rfind("."), inside.path.rfind("[")) :]
    for side, text in (("left", inside.left), ("right", inside.right)):
        if not _says_little(text):
            gave = next((call for call in calls if call.result == text), None)
            if gave is not None:
                return Origin([*above(gave), gave], text, side, inside.path)
    for side, text in (("left", inside.left), ("right", inside.right)):
        for call in calls:
            if any(path.endswith(step) and leaf == text for path, leaf in _leaves(recorded, call)):
                return Origin([*above(call), call], text, side, inside.path)
    return None


def _leaves(recorded: Recorded, call: Call) -> Iterator[tuple[str, str]]:
    """What a call gave, or left in its arguments."""
    for name, state in (call.ended or {}).items():
        leaves = recorded.leaves.get(state, {})
        before = {} if name == RESULT else recorded.leaves.get((call.begun or {}).get(name, ""), {})
        yield from (each for each in leaves.items() if before.get(each[0]) != each[1])


def _says_little(text: str) -> bool:
    """Whether many values are like it."""
    number = text.removeprefix("-")
    return text in _EMPTY or (number.isdigit() and len(number) < 2) or not text
