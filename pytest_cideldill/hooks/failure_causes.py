"""Failures that differ in cause, by what pytest reports of them.

One bug often fails many tests: the parameters of one test, the tests of one fixture. Reports may
have come from a worker of xdist, so nothing is asked but what they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from pytest_cideldill.interpreter.values import dataclass

Cause = tuple[str, ...]

MOST: Final = 1_000
"""Causes that are distinguished."""

_CLASS: Final = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")
_NO_FIXTURE: Final = re.compile(r"fixture '[^'\n]*' not found")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]+")
_MOST_CHARACTERS: Final = 500


@dataclass(slots=True)
class FirstFailure:
    """The first failure of a cause.

    Attributes:
        nodeid: Its test.
        others: How many other tests failed for the same cause.
    """

    nodeid: str
    others: int = 0


class FailureCauses:
    """The causes of a run's failures, filled in the order in which those are reported.

    Args:
        is_user: Whether a file is the user's code.
    """

    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self._is_user = is_user
        self._firsts: dict[Cause, FirstFailure] = {}
        self._counted: set[str] = set()

    def add(self, report: pytest.TestReport) -> None:
        """Note a failure. A test counts once, with the phase that failed first."""
        if report.nodeid in self._counted:
            return
        self._counted.add(report.nodeid)
        cause = cause_of(report, self._is_user)
        if cause in self._firsts:
            self._firsts[cause].others += 1
        elif len(self._firsts) < MOST:
            self._firsts[cause] = FirstFailure(report.nodeid)

    def firsts(self) -> list[FirstFailure]:
        """The first failure of each cause, in their order."""
        return list(self._firsts.values())


def cause_of(report: pytest.TestReport, is_user: Callable[[str], bool]) -> Cause:
    """What failures with one root cause share: the class raised, and the place in user code.

    Not the message, which has values in it: the parameters of one test fail for one reason. But it
    is all there is when the exception passed no code of the user's: that of a fixture that is not
    found, what a plugin says of a test.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    message = getattr(crash, "message", None)
    if message is None:  # no exception, or one that a plugin shows in its own way
        return ("", _without_values(report.longreprtext))
    # pytest leaves the class out where it explains an assertion.
    found = _CLASS.match(str(message))
    kind = found[0] if found else "AssertionError"
    for path, line in _places(report.longrepr):
        if is_user(path):
            return (kind, path, str(line))
    return (kind, _without_values(str(message)))


def _places(longrepr: Any) -> Iterator[tuple[str, int]]:
    """The lines of the traceback, innermost first, and that of the crash behind them."""
    traceback = getattr(longrepr, "reprtraceback", None)
    for entry in reversed(getattr(traceback, "reprentries", None) or ()):
        place = getattr(entry, "reprfileloc", None)
        if place is not None:
            yield str(place.path), place.lineno
    crash = longrepr.reprcrash
    yield str(crash.path), crash.lineno


def _without_values(message: str) -> str:
    """What failures with one cause say alike: no addresses; of a fixture not who wanted it."""
    missing = _NO_FIXTURE.search(message)
    return missing[0] if missing else _ADDRESS.sub("0x", message)[:_MOST_CHARACTERS]
