"""An object that is found again at each event, without being kept alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import FrameType
from typing import Any, Final

from pytest_cideldill.interpreter.frame_locals import read_aside
from pytest_cideldill.watching import memory
from pytest_cideldill.watching.contents import SCALARS, Look
from pytest_cideldill.watching.expressions import LOST
from pytest_cideldill.watching.holders import (
    Allowance,
    InFrame,
    IsUser,
    Trail,
    alive_at,
    can_be_weak,
    holders,
    near,
)
from pytest_cideldill.watching.memory import Fingerprint

_MOST_PLACES: Final = 8

_KEY, _INDEX, _ANY = 0, 1, 2
_Hop = tuple[int, Any, int]
"""How to go on from an object: by a key, by an index, or by looking at all that it holds; the id
of what is there."""


class _Place:
    """Where an object is held: a way from a weak reference, or from a local of a running frame."""

    __slots__ = ("_first", "_hops", "_name", "_ref", "frame")

    def __init__(self, trail: Trail) -> None:
        owner = trail[0]
        self.frame: FrameType | None = None
        self._name = ""
        self._ref: Callable[[], Any] | None = None
        if type(owner) is InFrame:
            self.frame, self._name = owner.frame, owner.name
            trail = trail[1:]
        else:
            self._ref = weakref.ref(owner)
        self._first = id(trail[0])
        self._hops = [_hop(*pair) for pair in pairwise(trail)]

    def get(self) -> Any:
        """What is there; `LOST` if that is something else."""
        if self.frame is not None:
            value = read_aside(self.frame).get(self._name, LOST)
            if id(value) != self._first:
                return LOST
        else:
            assert self._ref is not None
            value = self._ref()
            if value is None:
                return LOST
        for hop in self._hops:
            value = _follow(value, hop)
            if value is LOST:
                break
        return value


def _hop(holder: Any, held: Any) -> _Hop:
    if type(holder) is dict:
        for key, value in tuple(dict.items(holder)):
            if value is held and type(key) is str:
                return _KEY, key, id(held)
    elif type(holder) is list:
        for at, value in enumerate(tuple(holder)):
            if value is held:
                return _INDEX, at, id(held)
    return _ANY, None, id(held)


def _content(value: Any) -> Fingerprint | None:
    """What a list or a dictionary holds; None of what is neither, or empty."""
    kind = type(value)
    if kind is list and value:
        return memory.of_list(value)
    return memory.of_dict(value) if kind is dict and value else None


def _follow(holder: Any, hop: _Hop) -> Any:
    way, key, wanted = hop
    if way == _KEY and type(holder) is dict:
        found = dict.get(holder, key, LOST)
        if id(found) == wanted:
            return found
    elif way == _INDEX and type(holder) is list and key < len(holder):
        found = holder[key]
        if id(found) == wanted:
            return found
    return next((referent for referent in gc.get_referents(holder) if id(referent) == wanted), LOST)


class Followed:
    """The value of a name, after the frame that had it is over.

    Args:
        value: The value.
        is_user: See `holders`.
        allowance: Limits the time of searches.
    """

    def __init__(self, value: Any, is_user: IsUser, allowance: Allowance) -> None:
        self._is_user, self._allowance = is_user, allowance
        self._id, self._kind = id(value), id(type(value))
        self._constant: Any = LOST
        self._ref: Callable[[], Any] | None = None
        self._places: list[_Place] = []
        self._looks: Sequence[Look] = ()
        self._held: Fingerprint | None = None
        self._is_empty = False
        self.is_gone = False
        if self._kind in SCALARS:
            self._constant = value
        elif can_be_weak(type(value)):
            self._ref = weakref.ref(value)

    @classmethod
    def at(cls, address: int, kind: int, is_user: IsUser, allowance: Allowance) -> Followed:
        """Follow what has an id and a type with an id: it is looked for when it is wanted."""
        followed = cls(None, is_user, allowance)
        followed._constant = LOST
        followed._id, followed._kind = address, kind
        return followed

    @property
    def is_constant(self) -> bool:
        """Whether it can't change, and is remembered as it is."""
        return self._constant is not LOST

    def is_of(self, value: object) -> bool:
        """Whether it follows this object."""
        return self._id == id(value) and self._kind == id(type(value)) and not self.is_gone

    @property
    def needs_places(self) -> bool:
        """Whether only what holds it leads to it."""
        return not self.is_constant and self._ref is None

    def get(self, frame: FrameType | None) -> Any:
        """The object; `LOST` if it is not found now.

        Args:
            frame: The frame that has this event: the object may have come there.
        """
        if self._ref is not None:
            value = self._ref()
            if value is not None:
                return value
            self.is_gone = True
            return LOST
        if self.is_constant:
            return self._constant
        for at, place in enumerate(self._places):
            value = place.get()
            if value is not LOST and id(value) == self._id and id(type(value)) == self._kind:
                if at:
                    del self._places[:at]
                return value
        if self.is_gone:
            return LOST
        return self._find(frame)

    def note(self, looks: Sequence[Look], *, is_empty: bool) -> None:
        """Remember by what the object is recognized where its id may be another one's."""
        self._looks, self._is_empty = looks, is_empty

    def settle(self, value: Any, without: FrameType | None = None) -> None:
        """Look for places that hold the object.

        Args:
            value: The object.
            without: A frame that is just being left.
        """
        begun = self._allowance.now()
        self._held = _content(value)
        trails = [
            trail
            for trail in holders(value, lambda _: False, self._is_user)
            if not (type(trail[0]) is InFrame and trail[0].frame is without)
        ]
        self._places = [_Place(trail) for trail in trails[:_MOST_PLACES]]
        del trails
        self._allowance.spend(begun)

    def leave(self, frame: FrameType) -> None:
        """A frame is left, for now or for good: what it holds must not live longer through us."""
        if any(place.frame is frame for place in self._places):
            value = self.get(frame)
            self._places = [place for place in self._places if place.frame is not frame]
            if not self._places and value is not LOST:
                self.settle(value, frame)

    def _find(self, frame: FrameType | None) -> Any:
        """Look where the object has gone."""
        found: list[Any] = []
        if frame is not None and self._is_user(frame):
            found = [x for x in near(frame, self._id, self._kind) if self._fits(x)]
        if not found:
            if not self._allowance.is_left:
                return LOST
            begun = self._allowance.now()
            if not self._is_empty:
                found = alive_at(self._id, self._kind, self._fits)
            self._allowance.spend(begun)
        if not found:
            self.is_gone = True
            return LOST
        self.settle(found[0])
        return found[0]

    def _fits(self, value: Any) -> bool:
        """Whether an object with the id holds what the object held: ids are given again."""
        if self._looks:
            return all(look.is_same(value) for look in self._looks)
        return self._held is not None and self._held == _content(value)
