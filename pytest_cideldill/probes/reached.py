"""How near the program came to a line that is watched: which lines of its code ran meanwhile.

The event source reports each line that is not watched once, which costs nothing later; lines that
are watched have counts of passes. Read when the run is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_cideldill.probes.counting import Counter


class LineStretch:
    """A code object from one arming of its lines to the next.

    Args:
        ran: The other lines that run; grows.
        watched: The lines that are watched, each with a counter of its passes.
    """

    __slots__ = ("_passed", "_ran", "_watched")

    def __init__(self, ran: set[int], watched: Iterable[tuple[int, Counter]]) -> None:
        self._ran = ran
        self._passed: set[int] = set()
        self._watched = {passes: (line, passes.value) for line, passes in watched}

    def covers(self, watched: Iterable[tuple[int, Counter]]) -> bool:
        """Whether it began with all these."""
        return all(passes in self._watched for _, passes in watched)

    def end(self) -> None:
        """End it: later passes do not belong to it."""
        self._passed = self._passed_now()
        self._watched = {}

    @property
    def lines(self) -> set[int]:
        """The lines that ran."""
        return self._ran | self._passed_now()

    def _passed_now(self) -> set[int]:
        passed = {line for passes, (line, n) in self._watched.items() if passes.value > n}
        return self._passed | passed


class Reach:
    """How near the program came to the line of one probe.

    Attributes:
        stretches: Of all code that has the line, while the probe watched it.
        is_absent: Whether what was loaded is known to have no such line.
    """

    __slots__ = ("is_absent", "stretches")

    def __init__(self) -> None:
        self.stretches: list[LineStretch] = []
        self.is_absent = False

    def nearest(self, line: int) -> int | None:
        """The line that ran and is nearest to this one; None: its code never ran."""
        ran = {each for stretch in self.stretches for each in stretch.lines}
        return min(ran, key=lambda each: (abs(each - line), each), default=None)
