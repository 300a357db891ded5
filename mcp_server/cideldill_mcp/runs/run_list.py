"""The runs of the server's life, and what can be asked about all of them together.

Lives on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from cideldill_mcp.processes.process import Target
from cideldill_mcp.runs.run import Run
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.redaction.nodeids import meant


class RunList:
    """The test runs of the server's life, in order of their start; no listings of tests.

    Attributes:
        are_opened: They were recorded, and none can be started.
        ready: Not set while they are being opened.
    """

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self.are_opened = False
        self.ready = asyncio.Event()
        self.ready.set()

    @property
    def newest(self) -> Run | None:
        """The test run that was started last."""
        return next(reversed(self._runs.values()), None)

    @property
    def active(self) -> Run | None:
        """The test run that has not ended."""
        newest = self.newest
        return newest if newest is not None and not newest.is_over else None

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def get(self, run_id: str | None) -> Run:
        """A test run by id, or the newest.

        Raises:
            Refusal: `no_run` or `run_not_found`.
        """
        run = self.newest if run_id is None else self._runs.get(run_id)
        if run is not None:
            return run
        if not self._runs:
            raise Refusal(ErrorCode.NO_RUN, "no test run yet; test_run starts one")
        known = ", ".join(self._runs)
        raise Refusal(ErrorCode.RUN_NOT_FOUND, f"no run {run_id!r}; known: {known}", run_id=run_id)

    def nodeid(self, asked: str) -> str:
        """The id of a test for clients, of one that pytest printed: secrets in ids have tags."""
        if "[" not in asked:
            return asked
        for run in reversed(list(self)):
            known = [test.nodeid for test in run.results.tests.values()]
            if len(found := meant(asked, known, run.redactor)) == 1:
                return found[0]
        return asked

    def owner_of(self, pause_id: str) -> tuple[Run, Target]:
        """Where a pause is.

        Raises:
            Refusal: `pause_not_found` with `reason` `already_resumed` or `unknown`.
        """
        for run in self:
            if pause_id in run.pauses:
                return run, run.targets[run.pauses[pause_id]["worker"]]
        resumed = any(pause_id in run.resumed for run in self)
        steps = any(pause_id in run.stepping for run in self)
        became = (
            "makes a step; breakpoint_wait reports its stop" if steps else "was resumed already"
        )
        if worker := next((r.cut_off[pause_id] for r in self if pause_id in r.cut_off), None):
            became = f"is over: the process {worker} ended, or lost its connection, while paused"
        paused = [pause for run in self for pause in run.pauses]
        now = f"paused now: {', '.join(paused)}" if paused else "nothing is paused now"
        raise Refusal(
            ErrorCode.PAUSE_NOT_FOUND,
            f"pause {pause_id!r} {became if resumed else 'is unknown'}; {now}",
            pause_id=pause_id,
            reason="already_resumed" if resumed else "unknown",
        )
