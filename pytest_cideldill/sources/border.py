"""The border between handlers and the program: whose exception is it that leaves a handler?

Used by every callback of a source, on the thread of the program; holds no lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from types import CodeType
from types import TracebackType

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep


class Verdict(Enum):
    """What to do with an exception that left a handler."""

    FOREIGN = "raise it"
    OVERFLOW = "swallow it"
    BUG = "swallow it and disarm"


class Border:
    """Tells failures of our own from exceptions that belong to the program; tells each once."""

    __slots__ = ("_is_ours", "_on_failure", "_told")

    def __init__(self, is_ours: Callable[[str], bool], on_failure: Callable[[str], None]) -> None:
        self._is_ours = is_ours
        self._on_failure = on_failure
        self._told: set[str] = set()

    def judge(self, error: BaseException, what: str, code: CodeType) -> Verdict:
        """Called where a handler's exception arrives, before anything is done about it.

        Ours is an `Exception` of which every frame, from the callback inwards, belongs to us or to
        the standard library. A signal handler runs inside the handler it interrupts, but its own
        frame is the program's; KeyboardInterrupt, exits and pytest's outcomes are no `Exception`.
        """
        place = error.__traceback__
        if not issubclass(type(error), Exception) or not self._is_all_ours(place):
            return Verdict.FOREIGN
        overflow = issubclass(type(error), RecursionError)
        end = "this event was lost" if overflow else "it was removed"
        self.tell(f"{what} in {code.co_qualname} failed and {end}: {_text(error)}")
        return Verdict.OVERFLOW if overflow else Verdict.BUG

    def tell(self, message: str) -> None:
        """Pass a message on, once."""
        if message in self._told:
            return
        self._told.add(message)
        try:
            self._on_failure(message)
        except Exception:  # noqa: BLE001 - telling a failure must not become the next one
            return

    def _is_all_ours(self, place: TracebackType | None) -> bool:
        while place is not None:
            file = place.tb_frame.f_code.co_filename
            ours = file.startswith((_HERE, "<frozen ")) or self._is_ours(file)
            if not ours and not (file.startswith(_LIBRARY) and "site-packages" not in file):
                return False
            place = place.tb_next
        return True


def _text(error: BaseException) -> str:
    """Type, message and place, without running code of the objects in `args`."""
    said = error.args[0] if error.args and type(error.args[0]) is str else ""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" at {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"
    return f"{type(error).__name__}{f': {said}' if said else ''}{where}"
