"""Which calls did the same, and which of them are rounds of one loop."""

from __future__ import annotations

from collections.abc import Sequence

from cideldill_mcp.questions.recordings.recorded import Call
from cideldill_mcp.questions.texts.call_text import kind_of

_Inside = tuple[tuple[int, int], ...]
"""Line and shape of the calls inside of a call, each once."""


class Shapes:
    """A number for the shape of each call: calls with equal shapes did the same.

    How often a line repeated something, and how deep a recursion went, is no part of a shape.
    Errors count with their text, results with their kind. Calls beyond the limit are like each
    other only, as it is not known what was inside of them.
    """

    def __init__(self, calls: dict[int, Call]) -> None:
        self.sizes: dict[Call, int] = {}
        self._shapes: dict[Call, int] = {}
        self._insides: dict[Call, _Inside] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        for number in sorted(calls, reverse=True):  # children before their parents
            self._add(calls[number])

    def of(self, call: Call) -> int:
        """The shape of a call."""
        return self._shapes[call]

    def beside(self, outer: Call, inner: Call) -> _Inside:
        """What was called on the way from a call to one inside of it, apart from the way."""
        found: list[tuple[int, int]] = []
        while inner is not outer and inner.parent is not None:
            above = inner.parent
            found += [
                (each.line, self._shapes[each]) for each in above.children if each is not inner
            ]
            inner = above
        return tuple(dict.fromkeys(found))

    def of_round(self, calls: Sequence[Call]) -> tuple[int, ...]:
        """The shape of one round of calls."""
        return tuple(dict.fromkeys(self._shapes[call] for call in calls))

    def _add(self, call: Call) -> None:
        inside: _Inside = ()
        size = 1
        if call.children:
            own = call.code
            found: dict[tuple[int, int], None] = {}
            for child in call.children:
                size += self.sizes[child]
                if child.code is own:
                    found |= dict.fromkeys(self._insides[child])
                else:
                    found[child.line, self._shapes[child]] = None
            inside = tuple(found)
        self.sizes[call] = size
        self._insides[call] = inside
        ending = call.error if call.error is not None else kind_of(call.result)
        key = (call.code.number, call.error is not None, ending, inside, call.is_beyond)
        self._shapes[call] = self._numbers.setdefault(key, len(self._numbers))


Round = list[Call]


def rounds_of(calls: Sequence[Call]) -> list[Round]:
    """Calls of one parent, split where its lines go back: these are rounds of a loop."""
    rounds: list[Round] = []
    seen: set[tuple[int, int]] = set()
    before = -1
    for call in calls:
        key = (call.line, call.code.number)
        if not rounds or call.line < before or key in seen:
            rounds.append([])
            seen = set()
        rounds[-1].append(call)
        seen.add(key)
        before = call.line
    return rounds


def runs_of(calls: Sequence[Call]) -> list[list[Round]]:
    """Rounds in a row that begin with the same call: each run is a loop, or a single round."""
    runs: list[list[Round]] = []
    for each in rounds_of(calls):
        key = _key(each[0])
        if runs and _key(runs[-1][0][0]) == key:
            runs[-1].append(each)
            continue
        # What comes before a loop stands on earlier lines, like the calls of its first round.
        before = runs[-1] if runs else []
        keys = [_key(call) for call in before[0]] if len(before) == 1 else []
        at = keys.index(key) if key in keys else 0
        if at:
            runs[-1:] = [[before[0][:at]], [before[0][at:], each]]
        else:
            runs.append([each])
    return runs


def _key(call: Call) -> tuple[int, int]:
    return call.line, call.code.number
