"""Puts the calls of two recordings side by side: by function, and by arguments where that helps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from cideldill_mcp.questions.recordings.recorded import BODIES, Call

Both = tuple[Call | None, Call | None]
"""A call of the left side and the one of the right side that it is; None: there is none."""

Key = Callable[[Call], Hashable]

MOST_PAIRS: Final = 250_000
"""Calls of one parent times those of the other, of which the best alignment is looked for."""


def either(both: Both) -> Call:
    """The left call, else the right one."""
    call = both[0] or both[1]
    assert call is not None
    return call


def aligned(
    left: Sequence[Call], right: Sequence[Call], key: Key, other_key: Key
) -> Iterator[Both]:
    """The calls of two parents in order, without bodies of modules and classes.

    First those with equal arguments are put together, then those of the same function between them.

    Args:
        key: Equal for calls of the same function; for those of the left side.
        other_key: The same for the right side.
    """
    ours = [call for call in left if call.code.kind not in BODIES]
    theirs = [call for call in right if call.code.kind not in BODIES]

    def inner(a: Sequence[Call], b: Sequence[Call]) -> Iterator[Both]:
        return _by((a, list(map(key, a))), (b, list(map(other_key, b))), _alone)

    keys = [_whole(key, call) for call in ours]
    other_keys = [_whole(other_key, call) for call in theirs]
    yield from _by((ours, keys), (theirs, other_keys), inner)


def _whole(key: Key, call: Call) -> Hashable:
    return key(call), str(call.args), tuple((call.begun or {}).values())


def _by(
    ours: tuple[Sequence[Call], Sequence[Hashable]],
    theirs: tuple[Sequence[Call], Sequence[Hashable]],
    others: Callable[[Sequence[Call], Sequence[Call]], Iterator[Both]],
) -> Iterator[Both]:
    """Those with equal keys together; `others` aligns what lies between."""
    (left, keys), (right, other_keys) = ours, theirs
    start = 0
    while start < min(len(keys), len(other_keys)) and keys[start] == other_keys[start]:
        yield left[start], right[start]
        start += 1
    end = 0
    most = min(len(keys), len(other_keys)) - start
    while end < most and keys[-1 - end] == other_keys[-1 - end]:
        end += 1
    last, other_last = len(keys) - end, len(other_keys) - end
    if (last - start) * (other_last - start) > MOST_PAIRS:
        yield from others(left[start:last], right[start:other_last])
    else:
        matcher = SequenceMatcher(None, keys[start:last], other_keys[start:other_last], False)
        at = other_at = start
        for a, b, size in matcher.get_matching_blocks():
            yield from others(left[at : start + a], right[other_at : start + b])
            at, other_at = start + a + size, start + b + size
            yield from zip(left[start + a : at], right[start + b : other_at], strict=True)
    yield from zip(left[last:], right[other_last:], strict=True)


def _alone(left: Sequence[Call], right: Sequence[Call]) -> Iterator[Both]:
    for call in left:
        yield call, None
    for call in right:
        yield None, call
