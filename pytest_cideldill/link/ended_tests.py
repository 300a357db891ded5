"""Sends the starts and ends of tests late, many at once, and keeps them in a file until they left.

On the thread of pytest's hooks. To wake the link's thread takes longer than most tests do; and a
process that dies must not take the outcomes of its tests with it.
"""

from __future__ import annotations

from pytest_cideldill.interpreter import clock
from pytest_cideldill.link.threaded import ThreadedLink
from pytest_cideldill.protocol import NodeFinished, NodeStarted
from pytest_cideldill.protocol.ended_tests import EndedTest, KeptRows, row_of

HURRY_S = 0.03
"""How long a test's end may be held up until what can't be kept has left, …"""

UNHURRIED_S = 1.0
"""… and how long that is not tried again if it took longer."""


class EndedTests:
    """Takes the starts and ends of the tests of a process that has a front end.

    Args:
        link: Sends them.
        kept: Keeps them in a file that survives this process; None: there is none.
        waits: Whether they may leave late if they are kept; not where a record is written as well.
    """

    def __init__(self, link: ThreadedLink, kept: KeptRows | None, *, waits: bool) -> None:
        self._link = link
        self._kept = kept
        self._waits = waits and kept is not None
        self._begun = self._ended = 0
        self._started = 0.0
        self._is_other_free = True  # the half of the file that is not being filled
        self._hurries_after = 0.0

    def started(self, event: NodeStarted) -> None:
        """A test begins."""
        self._begun += 1
        self._started = event.ts
        if self._kept is not None:
            self._kept.begin(self._begun, event.ts)
        self._link.send_test(event, later=self._waits)

    def ended(self, event: NodeFinished, reports: list[list[str]]) -> None:
        """A test ended; `reports`: phase, category and outcome of those that were sent."""
        self._ended += 1
        now = clock.wall()
        try:
            text = row_of(self._ended, self._begun, self._started, now, reports, event)
        except (TypeError, ValueError, RecursionError):  # the link sends what can be
            self._link.send(event)
            return
        is_kept = self._keep(text)
        self._link.send_test(EndedTest(text, event), later=is_kept and self._waits)
        if event.failed or (self._kept is not None and not is_kept):
            self._hurry(now)

    def _keep(self, text: str) -> bool:
        """Whether a row is in the file."""
        if self._kept is None:
            return False
        if self._kept.add(text):
            return True
        if not self._is_other_free:
            return False
        self._is_other_free = False
        self._kept.turn()
        self._link.when_sent(self._note_free)
        return self._kept.add(text)

    def _note_free(self) -> None:
        """All rows in the other half have left; on the link's thread."""
        self._is_other_free = True

    def _hurry(self, now: float) -> None:
        """Have all of it leave, unless nobody reads: a failure is what clients wait for."""
        if now >= self._hurries_after and not self._link.flush(HURRY_S):
            self._hurries_after = clock.wall() + UNHURRIED_S
