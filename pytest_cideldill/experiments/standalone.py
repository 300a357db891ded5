"""The process of an experiment: everything that watches one, and nobody at the other end.

What a debugged process would have sent is dropped, but for why places were not reached.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.composition import Process, ProcessOptions
from pytest_cideldill.context import Identity
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.experiments.changes import Changes
from pytest_cideldill.protocol import Event, Warned, Watched
from pytest_cideldill.protocol.trace_rows import ForcedChange
from pytest_cideldill.rendering.display import Lens

_LEASE_S = 1.0
"""Nothing is parked; if anything were, it would go on soon."""


class ExperimentProcess:
    """Makes the changes of one process.

    Args:
        lens: Of the process.
        specs: What is changed.
        rows: Take what becomes of it.
        key: Of the tags of secrets.

    Attributes:
        guard: Marks threads that evaluate for us.
        manager: Of the breakpoints at the places of the changes.

    Raises:
        ValueError, OSError: There is no such line.
    """

    def __init__(
        self, lens: Lens, specs: Sequence[ForcedChange], rows: RowFile, key: bytes
    ) -> None:
        self._rows = rows
        self.guard = EvaluationGuard()
        self._link = _Nobody(self)
        options = ProcessOptions(
            Identity("q", "main"), os.devnull, key, _LEASE_S, "never", identifies=False
        )
        self._process = Process(self._link, lens, options, self.guard)
        self.manager = self._process.manager
        self._changes = Changes(self._process.context, specs, rows)
        self._process.pauses.decide = self._changes.decide

    def begin(self) -> None:
        """Have the places watched, before anything of the program is loaded."""
        self.manager.apply_all(self._changes.commands)
        self.manager.begin()

    def begin_test(self) -> None:
        self._changes.begin_test()

    def end_test(self) -> None:
        self._changes.end_test()

    def close(self) -> None:
        """Watch nothing any more."""
        self.manager.release("stop")

    def drain(self) -> None:
        """Drop the records of calls."""
        for _ in self._process.rows.batches():
            pass

    def take(self, event: Event) -> None:
        """What would be sent."""
        if isinstance(event, Warned):
            self._rows.add(["warning", event.message])
        elif isinstance(event, Watched) and not event.blind:
            self._rows.add(["unreached", self._changes.by_number(event.facts)])


class _Nobody:
    """A link that takes everything at once and sends nothing."""

    is_open = True

    def __init__(self, owner: ExperimentProcess) -> None:
        self._owner = owner

    def send(self, event: Event, *, urgent: bool = False) -> None:  # noqa: ARG002
        self._owner.take(event)

    def flush(self, deadline_s: float) -> bool:  # noqa: ARG002
        return True

    def nudge(self) -> None:
        self._owner.drain()

    def has_room(self) -> bool:
        return True
