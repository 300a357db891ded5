"""`breakpoint()`, `pytest.set_trace()` and `pdb.set_trace()` of the user pause for the client.

Put in place before conftests are loaded, taken out at pytest's end. There is no terminal: without a
client they are logged and passed. What the user chose by PYTHONBREAKPOINT stays, as far as it needs
no terminal.
"""

from __future__ import annotations

import logging
import os
import pdb
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from _pytest.debugging import pytestPDB

from pytest_cideldill.interpreter.borders import contained, every
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.manager import BreakpointManager

_TERMINAL = frozenset({"IPython", "bpdb", "ipdb", "pdb", "pudb", "pytest"})
"""Modules whose debuggers wait for a terminal."""


class UserBreakpoints:
    """Makes `breakpoint()` and the `set_trace()` of pytest and pdb pause for the client.

    Args:
        passes: Nobody waits for stops of this process.
    """

    def __init__(self, manager: BreakpointManager, *, passes: bool) -> None:
        self._manager = manager
        self._passes = passes
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """Take the places of the debuggers."""
        interpreter = sys.modules["sys"]  # the program's own module: ours is a view of it
        self._replace(interpreter, "breakpointhook", self._hook(sys.breakpointhook))
        self._replace(pdb, "set_trace", self._set_trace)
        # What pytest.set_trace calls, also by a reference to that; also pdb.set_trace, once
        # pytest is configured.
        if (make := getattr(pytestPDB, "_init_pdb", None)) is not None:
            self._replace(pytestPDB, "_init_pdb", self._maker(make))

    def restore(self) -> None:
        """Put back what was there, unless somebody has replaced it since."""
        undo, self._undo = self._undo, []
        every("taking leave of debuggers", reversed(undo), self._manager.warn)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        held = vars(owner)[name]

        def undo() -> None:
            if vars(owner)[name] is value:
                setattr(owner, name, held)

        setattr(owner, name, value)
        self._undo.append(undo)

    # --- what is called instead -------------------------------------------------------------

    def _hook(self, before: Callable[..., Any]) -> Callable[..., Any]:
        def breakpointhook(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            chosen = "" if sys.flags.ignore_environment else os.environ.get("PYTHONBREAKPOINT", "")
            if chosen and chosen.partition(".")[0] not in _TERMINAL:
                return before(*args, **kwargs)  # `0`: nothing; else what the user wants
            self._hit(sys._getframe(1), "breakpoint()")
            return None

        return breakpointhook

    def _set_trace(self, *_args: Any, **_kwargs: Any) -> None:
        __tracebackhide__ = True
        self._hit(sys._getframe(1), "set_trace()")

    def _maker(self, before: Callable[..., Any]) -> Any:
        hit = self._hit

        class Debugger:
            """Stands for the one that pytest would make."""

            def set_trace(self, frame: FrameType) -> None:
                __tracebackhide__ = True
                hit(frame, "set_trace()")

        def make(_cls: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            return Debugger() if method == "set_trace" else before(method, *args, **kwargs)

        return classmethod(make)

    def _hit(self, frame: FrameType, what: str) -> None:
        __tracebackhide__ = True
        if not (self._passes or self._manager.pauses.are_over):
            self._manager.control.stop_here(frame, "breakpoint")
            return
        contained(what, partial(self._pass, frame, what), self._manager.warn, None)

    def _pass(self, frame: FrameType, what: str) -> None:
        """Say that nobody waits there."""
        place = f"{self._manager.lens.project.relative(frame_file(frame))}:{frame.f_lineno}"
        message = f"{what} at {place} was passed: no client waits for it"
        self._manager.warn(message)
        logging.getLogger("pytest_cideldill").warning(message)
