"""Knows what ran while the exception that failed a phase was on its way.

`finally`, `__exit__` and handlers that raise it again run behind a failure, and so in failing tests
only: that is no cause of it. Which exception fails the phase is known at its end; until then the
ones that were handled are remembered by their ids, so that none is kept alive. Another one may get
the id of one that is gone; so all are forgotten when something begins and none is handled.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from pytest_cideldill.calltraces.exception_data import contexts_of, traceback_of
from pytest_cideldill.interpreter.running import main_ident

_exc_info: Final = sys.exc_info

_FARTHEST: Final = 100
"""Frames of a traceback that are looked at."""

_Site = tuple[int, int]
_Thing = TypeVar("_Thing", bound=Hashable)


class Aftermath(Generic[_Thing]):
    """Remembers what begins on the main thread while an exception is handled there.

    Attributes:
        is_empty: Whether nothing is remembered.
    """

    def __init__(self) -> None:
        self._main = main_ident()
        self._handled: dict[_Thing, list[tuple[int, _Site]]] = {}
        self.is_empty = True

    def see(self, thing: _Thing) -> None:
        """Something begins; on the hot path, on any thread."""
        error = _exc_info()[1]
        if error is not None and get_ident() == self._main:
            self._handled[thing] = [(id(each), _site(each)) for each in contexts_of(error)]
            self.is_empty = False
        elif not self.is_empty:
            self.look()

    def look(self) -> None:
        """Something begins once more."""
        if _exc_info()[1] is None and get_ident() == self._main:
            self.clear()

    def __contains__(self, thing: _Thing) -> bool:
        return thing in self._handled

    def of(self, failure: BaseException | None) -> set[_Thing]:
        """What was seen while the exception that failed a phase was handled; none with None."""
        if failure is None or self.is_empty:
            return set()
        key = (id(failure), _site(failure))
        return {thing for thing, keys in list(self._handled.items()) if key in keys}

    def clear(self) -> None:
        self._handled.clear()
        self.is_empty = True


def _site(error: BaseException) -> _Site:
    """The instruction that raised an exception."""
    place = traceback_of(error)
    for _ in range(_FARTHEST):
        if place is None or place.tb_next is None:
            break
        place = place.tb_next
    return (0, 0) if place is None else (id(place.tb_frame.f_code), place.tb_lasti)
