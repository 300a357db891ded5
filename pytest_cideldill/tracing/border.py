"""Decides whether an exception that leaves a handler is ours or belongs to the program.

Every callback of a source uses it, on the thread of the program; it holds no lock.
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
    """Separates failures of our own from exceptions of the program, and reports each once."""

    __slots__ = ("_is_ours", "_on_failure", "_reported")

    def __init__(self, is_ours: Callable[[str], bool], on_failure: Callable[[str], None]) -> None:
        self._is_ours = is_ours
        self._on_failure = on_failure
        self._reported: set[str] = set()

    def judge(self, error: BaseException, what: str, code: CodeType) -> Verdict:
        """The verdict on an exception; called where it arrives, before anything else is done."""
        if passes(error, self._is_ours):
            return Verdict.FOREIGN
        overflow = issubclass(type(error), RecursionError)
        end = "this event was lost" if overflow else "it was removed"
        self.report(f"{what} in {code.co_qualname} failed and {end}: {text_of(error)}")
        return Verdict.OVERFLOW if overflow else Verdict.BUG

    def report(self, message: str) -> None:
        """Report a message, once."""
        if message in self._reported:
            return
        self._reported.add(message)
        try:
            self._on_failure(message)
        except Exception:  # noqa: BLE001 - the report of a failure must not become the next one
            return
