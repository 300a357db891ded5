"""Finds functions that `gc.freeze` has hidden from the garbage collector.

Programs freeze the modules that they have imported before they fork. Frozen objects are found from
the loaded modules on, by the references that the collector itself would follow, so that none of
their code runs.
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import FunctionType, ModuleType
from typing import Any, Final

from pytest_cideldill.interpreter.loaded_names import is_kind

_BATCH: Final = 1_000

_OF_PYTHON: Final = 1_000
"""Python 3.12 freezes some hundred objects of its own when it starts; a program many thousands."""


class Frozen:
    """Keeps weak references to frozen functions, and looks again when more objects are frozen."""

    def __init__(self) -> None:
        self._count = 0
        self._known: list[weakref.ref[FunctionType]] = []

    def beside(self, seen: list[FunctionType]) -> list[FunctionType]:
        """The frozen functions that are alive and that the collector does not have."""
        count, before = gc.get_freeze_count(), self._count
        self._count = count  # falls as frozen objects end
        if count <= _OF_PYTHON:
            self._known = []
            return []
        ids = {id(function) for function in seen}
        if count > before:
            self._known = [weakref.ref(each) for each in _reachable() if id(each) not in ids]
        alive = (reference() for reference in self._known)
        return [function for function in alive if function is not None and id(function) not in ids]


def _reachable() -> list[FunctionType]:
    """All functions that can be reached from modules; a million objects take a second."""
    functions: list[FunctionType] = []
    pending: list[Any] = [each for each in list(sys.modules.values()) if is_kind(each, ModuleType)]
    seen = {id(each) for each in pending}
    seen.add(id(functions))
    while pending:
        batch = pending[-_BATCH:]
        del pending[-_BATCH:]
        for referent in gc.get_referents(*batch):
            if gc.is_tracked(referent) and id(referent) not in seen:
                seen.add(id(referent))
                pending.append(referent)
                if type(referent) is FunctionType:
                    functions.append(referent)
    return functions
