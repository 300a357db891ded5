"""The border between handlers and the program: whose exception is it that leaves a handler?

Used by every callback of a source, on the thread of the program; holds no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import CodeType

from pytest_cideldill.interpreter.borders import passes, text_of


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
        """Called where a handler's exception arrives, before anything is done about it."""
        if passes(error, self._is_ours):
            return Verdict.FOREIGN
        overflow = issubclass(type(error), RecursionError)
        end = "this event was lost" if overflow else "it was removed"
        self.tell(f"{what} in {code.co_qualname} failed and {end}: {text_of(error)}")
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
