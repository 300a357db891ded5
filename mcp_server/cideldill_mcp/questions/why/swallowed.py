"""The part *swallowed* of `test_why`: exceptions that were caught on the way of a failing test.

They are no evidence of a fault by themselves. So those are first whose handler does nothing and
that left functions of the user's, the last before the failure first.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import Final, NamedTuple

from cideldill_mcp.questions.recordings.recorded import FAILED, Caught, Code, Passage, RecordedTest
from cideldill_mcp.questions.texts.fitting import short

_MESSAGE: Final = 160
_VALUE: Final = 60
_FRAMES: Final = 8
_LEFT: Final = 4

_MISTAKES: Final = frozenset(
    {"AttributeError", "ImportError", "NameError", "TypeError", "UnboundLocalError"}
)
"""Exceptions of Python that are a fault of the code more often than of its data."""


class Swallower(NamedTuple):
    """A function that has to do with a swallowed exception.

    Attributes:
        code: The function.
        reason: What it did, in a few words.
        caught: The exception.
    """

    code: Code
    reason: str
    caught: Caught

    @property
    def is_strong(self) -> bool:
        """Whether something was left half done, or a mistake left the function that made it."""
        caught = self.caught
        is_mistake = kind_of(caught.text) in _MISTAKES and _tier(caught) < 2
        return bool(caught.left) or (is_mistake and self.code is caught.raised.code)


def swallowed(test: RecordedTest, most: int) -> list[str]:
    """Plain lines about exceptions that a test has swallowed, the most useful ones first.

    Args:
        test: With `caught`.
        most: How many exceptions are shown; a last line counts those that are not.
    """
    found = ranked(test)
    lines = [line for each in found[:most] for line in _lines(each)]
    rest = found[most:]
    if rest:
        kinds = dict.fromkeys(kind_of(each.text) for each in rest)
        named = ", ".join(islice(kinds, 3)) + (", …" if len(kinds) > 3 else "")
        places = "place" if len(rest) == 1 else "places"
        lines.append(f"… caught at {len(rest):,} more {places}: {named}")
    return lines


def ranked(test: RecordedTest) -> list[Caught]:
    """What a test has caught until it failed, the most useful first."""
    phases = [phase.name for phase in test.phases]
    failed = next((phase.name for phase in test.phases if phase.outcome == FAILED), None)
    if failed is not None:
        phases = phases[: phases.index(failed) + 1]
    found = [each for each in test.caught if each.phase in phases]
    return sorted(found, key=lambda each: (_tier(each), -each.last))


def swallowers(test: RecordedTest, most: int) -> list[Swallower]:
    """The functions that raised, caught, or were left half done, of the most useful ones."""
    found: list[Swallower] = []
    for each in ranked(test)[:most]:
        name = kind_of(each.text)
        if each.place.code is not None:
            found.append(Swallower(each.place.code, f"swallows {name}", each))
        for left in each.left:
            found.append(Swallower(left.code, f"{name} leaves {left.name} half done", each))
        if each.raised.code is not None:
            found.append(Swallower(each.raised.code, f"raises {name}, which is swallowed", each))
    return found


def kind_of(text: str) -> str:
    """The class of an exception, without its module."""
    return text.partition(":")[0].rpartition(".")[2]


def _tier(caught: Caught) -> int:
    """0: silent, and it came from elsewhere; 2: caught where it was raised."""
    is_local = not caught.unwound and not caught.raised.library
    if is_local and not caught.left:
        return 2
    return 0 if caught.is_silent or caught.left else 1


def _lines(caught: Caught) -> list[str]:
    origin = f", from {_short(caught.origin)}" if caught.origin else ""
    times = f"  ×{caught.count:,}" if caught.count > 1 else ""
    within = f" in {caught.raised.library}" if caught.raised.library else ""
    where = f"raised {caught.raised.place}{within}, caught {_catcher(caught)}"
    lines = [f"{_short(caught.text)}{origin}  {where}{times}"]
    names = [frame.code.name for frame in caught.unwound if frame.code is not None]
    if len(names) > 1 or (names and caught.how):
        lines.append(f"  unwound: {_unwound(names, caught.more)}")
    if caught.left:
        parts = [
            f"{left.name}={short(left.value, _VALUE)} ({left.code.file}:{_numbers(left.lines)})"
            for left in caught.left[:_LEFT]
        ]
        more = len(caught.left) - _LEFT
        lines.append(f"  left behind: {', '.join(parts)}{f', {more} more' if more > 0 else ''}")
    return lines


def _short(text: str) -> str:
    kind, colon, message = text.partition(":")
    return short(f"{kind.rpartition('.')[2]}{colon}{message}", _MESSAGE)


def _catcher(caught: Caught) -> str:
    place: Passage = caught.place
    if place.library and not place.place:
        return f"in {place.library}" if caught.how else f"by what runs {place.library}"
    if place.library:
        return f"{'in' if caught.how else 'inside'} {place.library}, called at {place.place}"
    if not caught.how:
        return f"in C code, called at {place.place}"
    return f"{place.place}{'' if caught.how == 'except' else f' ({caught.how})'}"


def _unwound(names: list[str], more: int) -> str:
    parts = []
    for name, run in groupby(names):
        times = len(list(run))
        parts.append(name if times == 1 else f"{name} ×{times}")
    shown = parts[:_FRAMES]
    hidden = more + sum(1 for _ in parts[_FRAMES:])
    return " ← ".join([*shown, f"… {hidden} more"] if hidden else shown)


def _numbers(lines: tuple[int, ...]) -> str:
    return "/".join(map(str, lines))
