"""Owns the namespace of evaluated code: frame, REPL session, globals and builtins in one.

Runs in the process under test on the thread that evaluates. Must not know how code is run.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any, Final

from pytest_cideldill.interpreter.frame_locals import read_locals, write_local

# Looked up by the interpreter in the dict itself, past __getitem__.
_OWN: Final = ("__builtins__", "__name__", "__package__", "__spec__")


class FrameNamespace(dict[str, Any]):
    """Globals and locals of an evaluation in one, so that nested scopes see the frame too.

    Names are read through `__getitem__` and assigned through `__setitem__`; the content of the dict
    itself matters only where the interpreter bypasses them: class bodies and `global` statements.

    Args:
        frame: The paused frame; its locals are read and written in place.
        session: The names of the REPL session; new names are put here.
        global_names: Names that the code declares `global`.
        changed: Names of locals of the frame and of globals that are assigned are added as keys.
    """

    __slots__ = (
        "_changed",
        "_frame",
        "_frame_names",
        "_global_names",
        "_globals",
        "_locals",
        "_session",
    )

    def __init__(
        self,
        frame: FrameType,
        session: dict[str, Any],
        global_names: Iterable[str],
        changed: dict[str, None],
    ) -> None:
        super().__init__()
        self._frame: FrameType | None = frame
        self._locals: dict[str, Any] = {}
        self._globals = frame.f_globals
        self._session = session
        self._frame_names = _names_of(frame)
        self._global_names = frozenset(global_names)
        self._changed = changed
        for name in _OWN:
            if name in self._globals:
                dict.__setitem__(self, name, self._globals[name])
        dict.__setitem__(self, "__builtins__", frame.f_builtins)

    def __getitem__(self, name: str) -> Any:
        if name in self._global_names:
            return dict.get(self, name) if dict.__contains__(self, name) else self._globals[name]
        for names in (self._live_locals(), self._session, self._globals):
            if name in names:
                return names[name]
        return self._substitutes()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self._frame_names and self._write(name, value):
            self._changed[name] = None
        else:
            self._session[name] = value
        dict.__setitem__(self, name, value)

    def __delitem__(self, name: str) -> None:
        # Of the session only: a frame offers no way to delete a local.
        del self._session[name]
        dict.pop(self, name, None)

    def show_to_classes(self) -> None:
        """Put all names into the dict itself: a class body looks there, past `__getitem__`."""
        for names in (self._globals, self._session, self._live_locals()):
            for name in names:
                if name not in self._global_names and name not in _OWN:
                    dict.__setitem__(self, name, names[name])

    def finish(self) -> None:
        """Carry out `global` assignments and let go of the frame.

        Functions defined in the evaluation keep this namespace. They use a copy of the locals from
        then on, for a frame must not outlive its pause.
        """
        for name in self._global_names:
            if dict.__contains__(self, name):
                self._globals[name] = dict.pop(self, name)
                self._changed[name] = None
        self._locals = dict(self._live_locals())
        self._frame = None

    def _live_locals(self) -> Mapping[str, Any]:
        return self._locals if self._frame is None else read_locals(self._frame)

    def _write(self, name: str, value: Any) -> bool:
        if self._frame is None:
            self._locals[name] = value
            return True
        write_local(self._frame, name, value)
        # The variable of an inlined comprehension (3.12 on) has a place but can't be read back.
        held = read_locals(self._frame)
        return name in held and held[name] is value

    def _substitutes(self) -> dict[str, Callable[..., Any]]:
        """Replacements of builtins that would show this namespace instead of the frame's."""

        def names() -> dict[str, Any]:
            # Names with @ are those of pytest's assertion rewriting.
            held = self._live_locals()
            return {name: held[name] for name in held if not name.startswith("@")}

        return {"globals": lambda: self._globals, **views_of(names)}


def views_of(names: Callable[[], dict[str, Any]]) -> dict[str, Callable[..., Any]]:
    """Builtins that show these names instead of those of the code that calls them."""
    return {
        "locals": names,
        "vars": lambda *args: builtins.vars(*args) if args else names(),
        "dir": lambda *args: builtins.dir(*args) if args else sorted(names()),
    }


def _names_of(frame: FrameType) -> frozenset[str]:
    code = frame.f_code
    if code.co_flags & inspect.CO_OPTIMIZED:
        return frozenset(code.co_varnames + code.co_cellvars + code.co_freevars)
    return frozenset(read_locals(frame))
