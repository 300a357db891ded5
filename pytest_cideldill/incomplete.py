"""Reports of which a part could not be made: they go without it, and say so.

What is not told counts as passed, or is waited for: a report must leave, however little it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Final

from pytest_cideldill.borders import passes
from pytest_cideldill.borders import text_of

INCOMPLETE: Final = "incomplete"
"""Key of the sentence that says what is missing, and why."""


def add_to(report: dict[str, Any], *parts: Callable[[], Mapping[str, Any]]) -> None:
    """Add what parts make; one that fails is left out, which the report says."""
    for make in parts:
        try:
            report.update(make())
        except Exception as error:
            if passes(error):
                raise
            note(report, because(error))


def because(error: BaseException) -> str:
    """The sentence about a part that could not be made."""
    return f"the report could not be made: {text_of(error)}"


def note(report: dict[str, Any], sentence: str) -> None:
    """Have a report say that something is missing."""
    before = report.get(INCOMPLETE)
    report[INCOMPLETE] = f"{before}; {sentence}" if type(before) is str else sentence
