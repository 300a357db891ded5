"""Which objects hold an object: found through the garbage collector, without running code.

A trail leads from an owner, which can be referred to weakly or is a running frame, to the object.
All references that are taken here end with the call that took them.
"""

from __future__ import annotations

import gc
from _thread import get_ident
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.clock import ticking
from pytest_cideldill.interpreter.frame_locals import read_aside
from pytest_cideldill.interpreter.running import current_frames
from pytest_cideldill.rendering.layout import module_of

_DEEPEST: Final = 5
"""Objects between an owner and the object."""

_WIDEST: Final = 24
"""Objects whose holders are looked for at once."""

_MOST: Final = 40
"""Trails that are enough."""

_FIRST_S: Final = 0.5
_SHARE: Final = 0.15
"""Seconds that searches may take at once, and the part of the time that passes."""

_LIMIT_S: Final = 0.5
"""Seconds after which no further level is looked at."""

_FARTHEST: Final = 300
"""Frames of one thread that are looked at."""

_OURS: Final = __name__.partition(".")[0]

_weak_offset: Final = type.__dict__["__weakrefoffset__"].__get__

Trail = tuple[Any, ...]
"""An owner, what it holds, what that holds, …, the object."""

IsUser = Callable[[FrameType], bool]


class InFrame(NamedTuple):
    """A local of a running frame, as the owner of a trail."""

    frame: FrameType
    name: str


class Allowance:
    """The time that searches may take: a small part of the time that passes."""

    def __init__(self) -> None:
        self._clock = ticking()
        self._begun = self._clock()
        self._spent = 0.0

    @property
    def is_left(self) -> bool:
        """Whether a search may begin."""
        return self._spent < _FIRST_S + _SHARE * (self._clock() - self._begun)

    def spend(self, begun: float) -> None:
        """Count the time since `begun`, of `now`."""
        self._spent += self._clock() - begun

    def now(self) -> float:
        return self._clock()


def can_be_weak(cls: type) -> bool:
    """Whether there can be weak references to instances of a class."""
    return bool(_weak_offset(cls))


def holders(value: Any, goes_on: Callable[[Any], bool], is_user: IsUser) -> list[Trail]:
    """The trails that lead to an object, short ones first.

    Args:
        value: The object.
        goes_on: Called with each owner: whether who holds that is looked for, too.
        is_user: Whether the locals of a running frame are looked at.
    """
    places = _of_frames(is_user)
    clock = ticking()
    due = clock() + _LIMIT_S
    seen = {id(places), id(value)}
    found: list[Trail] = []
    level: list[Trail] = [(value,)]
    for depth in range(_DEEPEST):
        further: list[Trail] = []
        for trail in level:
            found += ((InFrame(*place), *trail) for place in places.get(id(trail[0]), ()))
        if len(found) >= _MOST or clock() > due:
            break
        targets = {id(trail[0]): trail for trail in level}
        ours = {id(found), id(level), id(further), id(targets), *map(id, level), *map(id, found)}
        referrers = gc.get_referrers(*(trail[0] for trail in level))
        for holder in referrers:
            if id(holder) in seen or id(holder) in ours or _is_hidden(holder):
                continue
            is_owner = can_be_weak(type(holder))
            goes_further = not is_owner or goes_on(holder)
            held = {id(referent) for referent in gc.get_referents(holder)} & targets.keys()
            for each in held:
                if any(holder is other for other in targets[each]):
                    continue  # a cycle
                trail = (holder, *targets[each])
                if is_owner:
                    found.append(trail)
                if goes_further and depth + 1 < _DEEPEST and len(further) < _WIDEST:
                    further.append(trail)
                    break
        del referrers
        level = further
        if not level:
            break
    return found


def _is_hidden(holder: Any) -> bool:
    """Frames are looked at by themselves; what is ours is nobody's business."""
    kind = type(holder)
    if kind is FrameType or kind is CodeType:
        return True
    return module_of(kind).partition(".")[0] == _OURS


def _of_frames(is_user: IsUser) -> dict[int, list[tuple[FrameType, str]]]:
    """Id of a value → the locals of running frames that hold it."""
    places: dict[int, list[tuple[FrameType, str]]] = {}
    for frame in user_frames(is_user):
        for name, held in read_aside(frame).items():
            places.setdefault(id(held), []).append((frame, name))
    return places


def user_frames(is_user: IsUser) -> list[FrameType]:
    """The running frames of user code, of all threads, this one first and from the inside out."""
    found = []
    threads = current_frames()
    own = innermost = frame = None
    try:
        own = threads.pop(get_ident(), None)
        for innermost in (own, *threads.values()):
            frame = innermost
            for _ in range(_FARTHEST):
                if frame is None:
                    break
                if is_user(frame):
                    found.append(frame)
                frame = frame.f_back
        return found
    finally:
        # They may hold the frame of this call: a cycle, which would keep all its callers alive.
        own = innermost = frame = None
        threads.clear()


def alive_at(address: int, kind: int, fits: Callable[[Any], bool]) -> list[Any]:
    """The object with an id, in a list; empty if it is gone.

    Args:
        address: The id.
        kind: The id of its type.
        fits: Whether an object there, of that type, is the one: an id may be given again.
    """
    for look in (gc.get_objects, _all_referents):
        objects = look()
        ids = list(map(id, objects))
        try:
            value = objects[ids.index(address)]
        except ValueError:
            continue
        finally:
            del objects
        return [value] if id(type(value)) == kind and fits(value) else []
    return []


def _all_referents() -> list[Any]:
    """The collector does not list dictionaries without anything that it could collect."""
    return gc.get_referents(*gc.get_objects())


def near(frame: FrameType, address: int, kind: int, most: int = 400) -> list[Any]:
    """The same among the locals of a frame and what these hold; cheap."""
    level: list[Any] = list(read_aside(frame).values())
    for _ in range(3):
        for value in level:
            if id(value) == address and id(type(value)) == kind:
                return [value]
        level = gc.get_referents(*level[:most])[: most * 5] if level else []
    return []
