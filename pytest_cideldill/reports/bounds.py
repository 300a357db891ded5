"""Bounds of what a reader of a record holds in memory, whatever the record holds.

Somebody else may have written it. What is beyond a bound is only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pytest_cideldill.reports.words import left_out

WHOLE: Final = 2_000
"""Failures of which all is kept, some 10 kB each; of more only what fits in one line."""

MOST: Final[Mapping[str, int]] = {
    "failure": 20_000,
    "passed test": 20_000,
    "other test": 20_000,
    "report": 40_000,
    "note": 10_000,
    "tracepoint": 5_000,
    "stop": 1_000,
}
"""What is shown one by one → how many of them are held."""

_BYTES: Final = 12_000_000
"""Most bytes of lines of reports that are held whole; as objects they take ten times as much."""

ROW_BYTES: Final = 16_000_000
"""Most bytes of hits, and of calls, that are held as they were written."""

_LINE: Final = 500
"""Characters of each text of a report that is shown in one line."""

_OF_ONE_LINE: Final = (
    *("phase", "category", "outcome", "duration_s"),
    *("attempt", "subtest", "passed_code"),
)


class Bounds:
    """What of one run is held.

    Attributes:
        left: What is shown one by one → how many of them are only counted.
        shortened: Failures of which only one line is held, without frames and output.
    """

    __slots__ = ("_bytes", "_held", "_whole", "left", "shortened")

    def __init__(self) -> None:
        self.left: Counter[str] = Counter()
        self.shortened = 0
        self._held: Counter[str] = Counter()
        self._bytes = self._whole = 0

    def takes(self, name: str) -> bool:
        """Whether one more of these is held; else it is counted."""
        if self._held[name] >= MOST[name]:
            self.left[name] += 1
            return False
        self._held[name] += 1
        return True

    def report(self, report: dict[str, Any], size: int, *, is_failure: bool) -> dict[str, Any]:
        """A report as it is held: all of it, or what fits in one line.

        Args:
            report: As `protocol.PhaseReported` has it.
            size: Bytes of its line.
            is_failure: Of those only some may be whole.
        """
        self._whole += is_failure
        self._bytes += size
        if self._bytes <= _BYTES and not (is_failure and self._whole > WHOLE):
            return report
        self._bytes -= size
        self.shortened += is_failure
        return one_line(report)

    @property
    def sentence(self) -> str:
        """What is only counted, in words; empty: nothing."""
        left = left_out((count, name) for name, count in self.left.items())
        return f"{left} only counted, as there are too many" if left else ""


def one_line(report: Mapping[str, Any]) -> dict[str, Any]:
    """What one line shows of a report."""
    short = {name: _cut(report[name]) for name in _OF_ONE_LINE if name in report}
    for name, inside in (("exception", ("type", "message")), ("location", ("file", "line"))):
        if isinstance(part := report.get(name), dict):
            short[name] = {key: _cut(part[key]) for key in inside if key in part}
    if not short.get("exception"):
        short |= {key: _cut(report[key]) for key in ("longrepr", "incomplete") if report.get(key)}
    return short


def _cut(value: Any) -> Any:
    return value[:_LINE] if isinstance(value, str) else value
