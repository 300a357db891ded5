"""Where the names of a watched expression have their values: a frame while it lives, then what it
had; or modules. Nothing of the program is kept alive, but frames that run.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, MappingProxyType
from typing import Any, Final, Protocol

from pytest_cideldill.interpreter.frame_locals import aside_reader
from pytest_cideldill.interpreter.loaded_names import module_dict_of, names_of_module
from pytest_cideldill.watching.contents import Look
from pytest_cideldill.watching.expressions import BUILTINS, LOST
from pytest_cideldill.watching.following import Followed
from pytest_cideldill.watching.holders import Allowance, IsUser

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_SUSPENDS: Final = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_FRAMES: Final = {
    id(GeneratorType): "gi_frame",
    id(CoroutineType): "cr_frame",
    id(AsyncGeneratorType): "ag_frame",
}
"""Attributes by the id of a type, as a metaclass may define how its classes are hashed."""

Names = tuple[Mapping[str, Any], dict[str, Any]]
"""The local names and the globals of an event; to be dropped before it is over."""


class Scope(Protocol):
    """Gives names their values at an event."""

    is_constant: bool
    """Whether none of it can change."""

    @property
    def is_over(self) -> bool:
        """Whether something that the names stood for is gone."""

    @property
    def frame(self) -> FrameType | None:
        """The frame whose names they are, while it lives."""

    def read(self, frame: FrameType | None) -> Names:
        """The names; `LOST` stands for what can't be found. `frame`: the one that has the event."""

    def leave(self, frame: FrameType, *, is_over: bool) -> None:
        """A frame is left by an event that has been looked at already."""

    def note(self, looks: Sequence[Look], *, is_empty: bool) -> None:
        """What the value of the expression holds: by that it is recognized later."""

    def drop(self) -> None:
        """Let everything go."""


class FrameScope:
    """The names of one frame.

    Args:
        frame: It has just begun.
        wanted: Its local names that are needed.
        root: The one whose value is that of the expression; empty if there is none.
        is_user: See `holders`.
        allowance: Limits the time of searches.
    """

    def __init__(
        self,
        frame: FrameType,
        wanted: Sequence[str],
        root: str,
        is_user: IsUser,
        allowance: Allowance,
    ) -> None:
        self._frame: FrameType | None = frame
        self._suspended: Callable[[], Any] | None = None
        self._attribute = ""
        self._read = aside_reader(frame.f_code)
        self._wanted, self._root = tuple(wanted), root
        self._is_user, self._allowance = is_user, allowance
        self._followed: dict[str, Followed] = {}
        self._looks: Sequence[Look] = ()
        self._is_empty = True
        self._globals: Callable[[], Any] = _module_of(frame.f_globals)
        self.is_constant = False

    @property
    def is_over(self) -> bool:
        return self.frame is None and any(each.is_gone for each in self._followed.values())

    @property
    def frame(self) -> FrameType | None:
        if self._suspended is not None:
            owner = self._suspended()
            return None if owner is None else getattr(owner, self._attribute)
        return self._frame

    def read(self, frame: FrameType | None) -> Names:
        own = self._frame or self.frame
        if own is not None:
            return self._read(own), own.f_globals
        held = {name: each.get(frame) for name, each in self._followed.items()}
        module = self._globals()
        return held, {} if module is None else module_dict_of(module)

    def leave(self, frame: FrameType, *, is_over: bool) -> None:
        for each in self._followed.values():
            each.leave(frame)
        if frame is not self.frame:
            return
        if is_over:
            self._end(frame)
        elif self._suspended is None:
            self._suspend(frame)
        else:
            self._follow(frame, is_over=False)

    def note(self, looks: Sequence[Look], *, is_empty: bool) -> None:
        self._looks, self._is_empty = looks, is_empty
        if self._root in self._followed:
            self._followed[self._root].note(looks, is_empty=is_empty)

    def drop(self) -> None:
        self._frame = self._suspended = None
        self._followed.clear()

    def _end(self, frame: FrameType) -> None:
        """The frame is over: from now on its values are followed."""
        self._follow(frame, is_over=True)
        self._frame = self._suspended = None
        self.is_constant = all(each.is_constant for each in self._followed.values())

    def _follow(self, frame: FrameType, *, is_over: bool) -> None:
        """Follow the values by themselves, as they are now."""
        held = self._read(frame)
        values = {name: held[name] for name in self._wanted if name in held}
        del held
        for name in list(values):
            value = values.pop(name)
            followed = self._followed.get(name)
            if followed is None or not followed.is_of(value):
                followed = self._followed[name] = Followed(value, self._is_user, self._allowance)
                if name == self._root:
                    followed.note(self._looks, is_empty=self._is_empty)
            if followed.needs_places and (is_over or self._allowance.is_left):
                followed.settle(value, frame)

    def _suspend(self, frame: FrameType) -> None:
        """A generator or a coroutine stands still: it may be dropped there, so it is not kept."""
        self._frame = None
        if frame.f_code.co_flags & _SUSPENDS:
            for holder in gc.get_referrers(frame):
                attribute = _FRAMES.get(id(type(holder)))
                if attribute is not None and getattr(holder, attribute) is frame:
                    self._suspended, self._attribute = weakref.ref(holder), attribute
                    break
        self._follow(frame, is_over=False)


def _module_of(names: Mapping[str, Any]) -> Callable[[], Any]:
    """A weak reference to the module with these globals."""
    name = names.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    if names_of_module(module) is names:
        return weakref.ref(module)
    return lambda: None


class ModuleScope:
    """The globals of a module that may not be loaded yet, or all modules by their names.

    Args:
        module: Its dotted name; None: names are those of the test's module, else of modules.
        of_test: The test's module, if it has one.
        wanted: The names that are needed.
    """

    def __init__(self, module: str | None, of_test: Any, wanted: Sequence[str]) -> None:
        self._module = module
        self._of_test = None if of_test is None else weakref.ref(of_test)
        self._wanted = [name for name in wanted if name not in BUILTINS]
        self.frame: FrameType | None = None
        self.is_over = self.is_constant = False

    def read(self, frame: FrameType | None) -> Names:  # noqa: ARG002
        if self._module is not None:
            return _NOTHING, names_of_module(sys.modules.get(self._module)) or {}
        own = names_of_module(self._of_test()) if self._of_test is not None else None
        if own is not None and all(name in own for name in self._wanted):
            return _NOTHING, own
        names: dict[str, Any] = {}
        for name in self._wanted:
            found = (own or {}).get(name, sys.modules.get(name, LOST))
            if found is not LOST:
                names[name] = found
        return _NOTHING, names

    def leave(self, frame: FrameType, *, is_over: bool) -> None:
        """Modules don't end."""

    def note(self, looks: Sequence[Look], *, is_empty: bool) -> None:
        """Modules are found by their names."""

    def drop(self) -> None:
        self.is_over = True
