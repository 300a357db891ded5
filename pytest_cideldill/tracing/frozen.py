"""Functions that `gc.freeze` has taken out of the garbage collector's sight.

Programs freeze what they have imported, before they fork. Such objects are found from the loaded
modules on, by the references that the collector itself would follow: that runs no code of theirs.
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import FunctionType, ModuleType
from typing import Any, Final

_BATCH: Final = 1_000

_OF_PYTHON: Final = 1_000
"""Python 3.12 freezes some hundred objects of its own when it starts; a program many thousands."""


class Frozen:
    """Knows them by weak references, and looks again when more was frozen."""

    def __init__(self) -> None:
        self._count = 0
        self._known: list[weakref.ref[FunctionType]] = []

    def beside(self, seen: list[FunctionType]) -> list[FunctionType]:
        """Those that are alive and not among the ones that the collector has."""
        count, before = gc.get_freeze_count(), self._count
        self._count = count  # falls as frozen objects end
        if count <= _OF_PYTHON:
            self._known = []
            return []
        ids = {id(each) for each in seen}
        if count > before:
            self._known = [weakref.ref(each) for each in _reachable() if id(each) not in ids]
        alive = (reference() for reference in self._known)
        return [each for each in alive if each is not None and id(each) not in ids]


def _reachable() -> list[FunctionType]:
    """All functions that modules lead to: a million objects take a second."""
    found: list[FunctionType] = []
    pending: list[Any] = [each for each in list(sys.modules.values()) if _is_module(each)]
    seen = {id(each) for each in pending}
    seen.add(id(found))
    while pending:
        batch = pending[-_BATCH:]
        del pending[-_BATCH:]
        for each in gc.get_referents(*batch):
            if gc.is_tracked(each) and id(each) not in seen:
                seen.add(id(each))
                pending.append(each)
                if type(each) is FunctionType:
                    found.append(each)
    return found


def _is_module(each: object) -> bool:
    return issubclass(type(each), ModuleType)
