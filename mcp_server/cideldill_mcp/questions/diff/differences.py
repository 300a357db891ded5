"""Compares the values of two calls: arguments, results, and what the calls changed.

A value is compared by its state, as far as there is one, else by its short text. Left out are paths
that the client ignores, and noise: what differs between two runs of the same side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from cideldill_mcp.questions.recordings.recorded import Call, Recorded, RecordedTest

ABSENT: Final = "absent"
"""The text of a value that one side does not have."""

UNKNOWN: Final = "another state"
"""The text of a value that differs, where nothing more is known."""

RESULT: Final = "return"
RAISES: Final = "raises"
ENDS: Final = "end"
YIELDS: Final = "yields"

_ITEM, _NEXT = "\x1e", "\x1f"
"""In a leaf of many items: between step and text, and between items."""

_CUT: Final = "…"
_INDEX: Final = re.compile(r"\[[^\]]*\]|\{.*\}$")
ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_TYPE: Final = re.compile(r"<[\w.]+>")


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs.

    Attributes:
        path: Its argument, `return`, `raises` or `yields`, and the way inside of it.
        left: Its text on the left side.
        right: The same on the right side.
    """

    path: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Side:
    """What one side has recorded.

    Attributes:
        recorded: All of it.
        test: The test.
        is_timed_out: Whether it was ended from outside.
    """

    recorded: Recorded
    test: RecordedTest
    is_timed_out: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether later calls are not recorded."""
        return bool(self.recorded.calls_cut) or self.test.outcome == "unfinished"

    def is_behind(self, call: Call) -> bool:
        """Whether a call began when the test had failed, while the exception was on its way."""
        failed = self.test.failed
        return failed is not None and call.begun_at > failed.raised_at

    def left_at(self, call: Call) -> int:
        """The line at which the exception that failed the test left a call; 0: it did not."""
        failed = self.test.failed
        if failed is None or call.error is None or call.ended_at < failed.raised_at:
            return 0
        place = (call.code.file, call.code.qualname)
        lines = (each.line for each in failed.frames if (each.file, each.function) == place)
        return next(lines, 0)

    def key(self, call: Call) -> str:
        """The function of a call, as it is called on both sides: the test is the test."""
        name = self.test.nodeid.partition("[")[0].rpartition("::")[2]
        is_test = call.parent is None and call.code.name.rpartition(".")[2] == name
        return "" if is_test else call.code.dotted


@dataclass(slots=True)
class Noise:
    """What differs between two runs of one side.

    Attributes:
        values: Function and path.
        calls: Function of the parent, function of the call.
    """

    values: set[tuple[str, str]] = field(default_factory=set)
    calls: set[tuple[str, str]] = field(default_factory=set)
    _paths: dict[tuple[str, str], str] = field(default_factory=dict)
    _shapes: set[tuple[str, str]] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.values) + len(self.calls)

    def __ior__(self, other: Noise) -> Noise:
        self.values |= other.values
        self.calls |= other.calls
        self._shapes |= other._shapes
        self._paths = {**other._paths, **self._paths}
        return self

    def add(self, function: str, differences: Iterable[Difference]) -> None:
        """Note that values differ; where several items of one collection do, all of them."""
        for difference in differences:
            shape = function, _INDEX.sub("[]", difference.path)
            if self._paths.setdefault(shape, difference.path) != difference.path:
                self._shapes.add(shape)
            self.values.add((function, difference.path))

    def has(self, function: str, path: str) -> bool:
        """Whether a value is noise."""
        if (function, path) in self.values or (function, _INDEX.sub("[]", path)) in self._shapes:
            return True
        name = re.split(r"[.\[{]", path, maxsplit=1)[0]
        return (function, name) in self.values


def globs(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """What matches the paths of some globs; `*` and `?` alone are special."""
    parts = [re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns]
    return re.compile("|".join(parts), re.DOTALL) if parts else None


class Comparer:
    """Compares calls of two sides.

    Args:
        left: One side.
        right: The other one.
        noise: Left out.
        ignored: Matches paths that are left out.
    """

    def __init__(
        self, left: Side, right: Side, noise: Noise, ignored: re.Pattern[str] | None = None
    ) -> None:
        self.left, self.right = left, right
        self.noise = noise
        self._ignored = ignored
        self._is_cut = any(
            limit == "values" for side in (left, right) for limit, _ in (side.recorded.reached)
        )

    def arguments(self, a: Call, b: Call) -> list[Difference]:
        """The arguments that differ when the calls begin."""
        texts, others = dict(a.args), dict(b.args)
        states, other_states = a.begun or {}, b.begun or {}
        differences: list[Difference] = []
        for name in {**texts, **others}:
            differences += self._value(
                name,
                (texts.get(name, ABSENT), states.get(name)),
                (others.get(name, ABSENT), other_states.get(name)),
            )
        return self._wanted(a, differences)

    def outcome(self, a: Call, b: Call) -> list[Difference]:
        """What differs when the calls end: what they raised, returned, yielded and changed."""
        differences: list[Difference] = []
        is_over = a.has_ended and b.has_ended
        has_raised = a.error is not None or b.error is not None
        if is_over and has_raised and self._differ(a.error or "", b.error or ""):
            differences.append(Difference(RAISES, _ending(a), _ending(b)))
        if is_over:
            differences += self._changes(a, b)
        if is_over and not has_raised:
            state, other = (a.ended or {}).get(RESULT), (b.ended or {}).get(RESULT)
            differences += self._value(RESULT, (a.result or "", state), (b.result or "", other))
        differences += self._yields(a, b)
        if a.has_ended and not (b.has_ended or b.is_end_lost or self.right.is_timed_out):
            differences.append(Difference(ENDS, _ending(a), ABSENT))
        if b.has_ended and not (a.has_ended or a.is_end_lost or self.left.is_timed_out):
            differences.append(Difference(ENDS, ABSENT, _ending(b)))
        return self._wanted(a, differences)

    def _yields(self, a: Call, b: Call) -> Iterator[Difference]:
        ours = [text for kind, text in a.moves or () if kind == "yield"]
        theirs = [text for kind, text in b.moves or () if kind == "yield"]
        for at, (text, other) in enumerate(zip_longest(ours, theirs, fillvalue=ABSENT)):
            if self._differ(text, other):
                yield Difference(f"{YIELDS}[{at}]", text, other)
                return
        if a.parts != b.parts:
            yield Difference(YIELDS, f"{a.parts} times", f"{b.parts} times")

    def _changes(self, a: Call, b: Call) -> Iterator[Difference]:
        before, other_before = a.begun or {}, b.begun or {}
        after, other_after = a.ended or {}, b.ended or {}
        for name in before:
            if name in other_before and (name in after or name in other_after):
                ours = after.get(name, before[name])
                theirs = other_after.get(name, other_before[name])
                yield from self._states(name, ours, theirs)

    def _value(
        self, path: str, ours: tuple[str, str | None], theirs: tuple[str, str | None]
    ) -> Iterator[Difference]:
        (text, state), (other_text, other_state) = ours, theirs
        if state is not None and other_state is not None:
            yield from self._states(path, state, other_state, (text, other_text))
        elif self._differ(text, other_text):
            yield Difference(path, text, other_text)

    def _states(
        self, path: str, state: str, other: str, texts: tuple[str, str] | None = None
    ) -> Iterator[Difference]:
        if state == other or not state or not other:
            return
        ours = self.left.recorded.leaves.get(state)
        theirs = self.right.recorded.leaves.get(other)
        if ours is None or theirs is None:
            yield Difference(
                path, *(texts if texts and texts[0] != texts[1] else (UNKNOWN, UNKNOWN))
            )
            return
        yield from states_between(ours, theirs)

    def _differ(self, text: str, other: str) -> bool:
        if text == other:
            return False
        if self._is_cut and (_TYPE.fullmatch(text) or _TYPE.fullmatch(other)):
            return False  # there was no time to render one of them
        return ADDRESS.sub("", text) != ADDRESS.sub("", other)

    def _wanted(self, call: Call, found: list[Difference]) -> list[Difference]:
        if not found:
            return found
        function, ignored = self.left.key(call), self._ignored
        return [
            difference
            for difference in found
            if not self.noise.has(function, difference.path)
            and not (ignored is not None and ignored.fullmatch(difference.path))
        ]


def states_between(ours: dict[str, str], theirs: dict[str, str]) -> Iterator[Difference]:
    """What differs between two values, by their leaves; in the order of the leaves."""
    is_cut = _CUT in (next(reversed(ours.values()), ""), next(reversed(theirs.values()), ""))
    gone: list[str] = []
    for each in {**ours, **theirs}:
        text, other_text = ours.get(each, ABSENT), theirs.get(each, ABSENT)
        if text == other_text or _CUT in (text, other_text):
            continue
        if _ITEM in text or _ITEM in other_text:
            yield from _items(each, text, other_text)
            continue
        is_absent = ABSENT in (text, other_text)
        if is_absent and (is_cut or any(each.startswith(part) for part in gone)):
            continue
        if is_absent or text.partition(" of ")[0] != other_text.partition(" of ")[0]:
            # What is in a part that only one side has is no difference of its own.
            gone += [f"{each}.", f"{each}[", f"{each}{{"]
        yield Difference(each, text, other_text)


def _items(path: str, text: str, other: str) -> Iterator[Difference]:
    """The first item that differs, of many in one leaf."""
    ours, theirs = _by_step(text), _by_step(other)
    base = path.rpartition("[")[0]
    for step in {**ours, **theirs}:
        left, right = ours.get(step, ABSENT), theirs.get(step, ABSENT)
        if left != right:
            yield Difference(f"{base}{step}", left, right)
            return


def _by_step(text: str) -> dict[str, str]:
    parts = (part.partition(_ITEM) for part in text.split(_NEXT) if _ITEM in part)
    return {step: shown for step, _, shown in parts}


def _ending(call: Call) -> str:
    return call.error if call.error is not None else f"returns {call.result}"
