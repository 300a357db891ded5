"""Groups of failures with one root cause: one bug often fails many tests.

Pure; filled in the order in which failures are reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pytest_cideldill.protocol import PhaseReported
from pytest_cideldill.reports.words import said

_Cause = tuple[str | None, ...]

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


class FailureGroups:
    """The groups of a run."""

    def __init__(self) -> None:
        self._numbers: dict[_Cause, int] = {}
        self._sizes: Counter[_Cause] = Counter()

    def add(self, event: PhaseReported) -> None:
        """Count a failure in its group."""
        cause = _cause_of(event)
        self._numbers.setdefault(cause, len(self._numbers) + 1)
        self._sizes[cause] += 1

    def of(self, event: PhaseReported) -> str | None:
        """`g1`, `g2` … in the order of their first failures; None: no failure like it was added."""
        number = self._numbers.get(_cause_of(event))
        return None if number is None else f"g{number}"

    def firsts_first(self, failures: Sequence[PhaseReported]) -> list[tuple[PhaseReported, int]]:
        """The first failure of each group with the size of that, then all the others with 0."""
        firsts: dict[_Cause, PhaseReported] = {}
        for event in failures:
            firsts.setdefault(_cause_of(event), event)
        known = {id(event) for event in firsts.values()}
        others = [(event, 0) for event in failures if id(event) not in known]
        return [(event, self._sizes[cause]) for cause, event in firsts.items()] + others


def _cause_of(event: PhaseReported) -> _Cause:
    """What failures with one root cause share: the class raised, and the place in user code.

    Not the message, which has values in it: the parameters of one test fail for one reason. But it
    is all there is when the exception passed no code of the user's: that of a fixture that is not
    found, what a plugin says of a test.
    """
    kind = None if event.exception is None else event.exception["type"]
    if not event.passed_code and (message := _message_of(event)):
        return (kind, _without_values(kind, message))
    if event.location is None:  # its process died
        return (kind, event.nodeid, event.phase)
    return (kind, str(event.location.get("file")), str(event.location["line"]))


def _message_of(event: PhaseReported) -> str:
    if event.exception is not None:
        return str(event.exception["message"])
    return said(event.longrepr)


def _without_values(kind: str | None, message: str) -> str:
    """What failures with one cause say alike: no addresses; of a fixture not what others are."""
    if kind is not None and kind.endswith("FixtureLookupError"):
        return message.partition("\n")[0]
    return _ADDRESS.sub("0x", message)
