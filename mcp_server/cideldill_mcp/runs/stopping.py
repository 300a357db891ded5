"""How runs are ended: Ctrl-C, time for their fixtures, SIGTERM, SIGKILL. Each run climbs once.

Lives on the event loop. Tools, and the front end at its own end, end a run by asking
here; `docs/hangs.md` has the times for users.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from cideldill_mcp.events.log import EventLog
from cideldill_mcp.processes.launch import Child
from cideldill_mcp.processes.process import MAIN, Target
from cideldill_mcp.runs.end import Cut
from cideldill_mcp.runs.run import Run
from pytest_cideldill.errors import Refusal
from pytest_cideldill.protocol import ReadThreads, ReleaseAll

INTERRUPT_S = 2.0
"""How long a process may take after Ctrl-C or SIGTERM that does not tear down."""

LEAST_S = 1.0
"""The least that teardown has, when it is not to be waited for: most of it takes no time."""

RELEASE_S = 0.5
"""How long threads may take to leave their pauses."""

LOOK_S = 0.25
"""How often it is looked whether it tears down."""

ASK_S = 1.0
"""From when on a process is asked that does not say so by itself, and how long it may take."""

REPLY_S = 45.0
"""How long a caller waits; clients give up after 60 s."""

PROGRESS_S = 0.5

ReportProgress = Callable[[float, float, str], Awaitable[None]]
"""Takes the seconds since Ctrl-C, those that there are, and a sentence."""


async def _ignore(_seconds: float, _total: float, _text: str) -> None:
    return None


class Climb:
    """The way of one run to its end; it begins at once, whether anybody waits for it or not.

    Attributes:
        was_interrupted: Ctrl-C was sent.
        is_cut: Somebody wants it to end at once.
    """

    def __init__(self, run: Run, child: Child, log: EventLog, grace_s: float) -> None:
        self.was_interrupted = False
        self.is_cut = False
        self._run = run
        self._child = child
        self._log = log
        self._grace_s = grace_s
        self._kills = False
        self._began = time.monotonic()
        self._tears_down = False
        self._task = asyncio.create_task(self._climb(), name=f"the end of {self._run.id}")

    def cancel(self) -> None:
        """Somebody else goes on."""
        self._task.cancel()

    def cut(self, *, kill: bool) -> None:
        """Wait no longer."""
        self.is_cut, self._kills = True, self._kills or kill
        self._log.wake()
        if kill and self._task.done():
            self._child.kill()  # it has outlived the ladder

    async def wait(self, progress: ReportProgress) -> None:
        """Until the run is over, or as long as a caller can wait."""
        deadline = time.monotonic() + REPLY_S
        while (left := deadline - time.monotonic()) > 0:
            done, _ = await asyncio.wait([self._task], timeout=min(PROGRESS_S, left))
            if done:
                return
            await progress(time.monotonic() - self._began, self._grace_s, self.waits_for())

    def waits_for(self) -> str:
        """What it waits for, in a sentence."""
        seconds = f"{time.monotonic() - self._began:.0f} s"
        again = "test_stop once more cuts it"
        if self._run.cut is not None:
            return f"{self._run.id} is ended by {self._run.cut.signal}"
        if self._tears_down:
            return f"fixtures are torn down: {seconds} of {self._grace_s:.0f} s; {again}"
        return f"{self._run.id} was interrupted and has not ended: {seconds}; {again}"

    # --- the rungs --------------------------------------------------------------------------

    async def _climb(self) -> None:
        try:
            await self._rungs()
        except Exception:  # noqa: BLE001 - a border: a bug of ours must not keep the run alive
            traceback.print_exc(file=sys.stderr)
            self._child.kill()

    async def _rungs(self) -> None:
        run, child = self._run, self._child
        for target in run.targets.values():
            target.send(ReleaseAll("stop"))
        await self._log.until(lambda: self._kills or not run.pauses, RELEASE_S)
        if not self._kills:
            self._began = time.monotonic()
            self.was_interrupted = True
            child.interrupt()
            await self._tear_down()
        if not self._kills and not self._is_gone():
            self._note("SIGTERM")
            child.terminate()
            await self._log.until(lambda: self._kills or self._is_gone(), INTERRUPT_S)
        if not self._is_gone():
            self._note("SIGKILL")
            child.kill()
        await self._log.until(lambda: run.is_over, 2 * INTERRUPT_S)

    async def _tear_down(self) -> None:
        """As long as it moves towards its end, and has time."""
        moved_at, asks_at = self._began, self._began + ASK_S
        while not (self.is_cut or self._is_gone()):
            now = time.monotonic()
            self._tears_down = tears_down(self._run)
            if not self._tears_down and now >= asks_at:
                self._tears_down = await are_interrupted(self._run)
                now = time.monotonic()
            if self._tears_down:
                moved_at = now
            is_late = now - self._began >= max(self._grace_s, LEAST_S)
            if now - moved_at >= INTERRUPT_S or (is_late and self._tears_down):
                return
            await self._log.until(lambda: self.is_cut or self._is_gone(), LOOK_S)

    def _is_gone(self) -> bool:
        return self._child.returncode is not None

    def _note(self, signal: str) -> None:
        """For the run's end. What was under way when it was first cut counts."""
        if self._run.cut is None:
            seconds = time.monotonic() - self._began if self.was_interrupted else None
            self._run.cut = Cut(signal, seconds, tears_down(self._run))
        else:
            self._run.cut = replace(self._run.cut, signal=signal)


class Ladder:
    """Ends runs in steps: Ctrl-C, time for their fixtures, SIGTERM, SIGKILL.

    Args:
        log: Wakes those that wait for a run.
        grace_s: How long teardown may take.
    """

    def __init__(self, log: EventLog, grace_s: float) -> None:
        self._log = log
        self._grace_s = grace_s
        self._climbs: dict[str, Climb] = {}

    async def stop(
        self,
        run: Run,
        *,
        kill: bool = False,
        cuts: bool = False,
        progress: ReportProgress = _ignore,
    ) -> list[str]:
        """End a run; later callers wait for the same end.

        Args:
            kill: At once, by SIGKILL.
            cuts: When it is being ended already, its fixtures are not waited for any longer.
            progress: Gets how far it is.

        Returns:
            The ids of the pauses that were released.
        """
        released = list(run.pauses)
        child = run.child
        if child is None or run.is_over:
            return released
        climb = self._climbs.get(run.id)
        is_first = climb is None
        if climb is None:
            run.is_stopping = True
            climb = self._climbs[run.id] = Climb(run, child, self._log, self._grace_s)
        if kill or (cuts and not is_first):
            climb.cut(kill=kill)
        await climb.wait(progress)
        return released

    def waits_for(self, run: Run) -> str | None:
        """What a run waits for that is being ended."""
        climb = self._climbs.get(run.id)
        return None if climb is None or run.is_over else climb.waits_for()

    async def end_all(
        self, runs: Iterable[Run], by: str, within_s: float, *, leaves: bool
    ) -> list[Run]:
        """End all of them, pauses released (`by`), within a time.

        Args:
            runs: Those whose process lives.
            by: See `protocol.Resumed`.
            within_s: How long it may take.
            leaves: Those that tear down, or can't be ended so fast, may live on; else what is left
                is killed.

        Returns:
            Those that live on.
        """
        living = [(run, run.child) for run in runs if run.child and run.child.returncode is None]
        for run, _ in living:
            for target in run.targets.values():
                target.send(ReleaseAll(by))
        await self._log.until(lambda: not any(run.pauses for run, _ in living), 0.2)
        for run, child in living:
            climb = self._climbs.get(run.id)
            if climb is not None:
                climb.cancel()
            if climb is not None and (climb.is_cut or run.cut is not None):
                child.kill()
            elif climb is None or not climb.was_interrupted:
                child.interrupt()

        def left() -> list[tuple[Run, Child]]:
            return [(run, child) for run, child in living if child.returncode is None]

        deadline = time.monotonic() + within_s
        await self._log.until(lambda: not left(), 0.6 * within_s)
        if leaves:
            late = left()
            asked = asyncio.gather(*(are_interrupted(run, within_s / 4) for run, _ in late))
            for (_, child), is_interrupted in zip(late, await asked, strict=True):
                if is_interrupted:
                    child.handles_interrupt()
        await self._log.until(lambda: not left(), deadline - time.monotonic())
        if leaves:
            return [run for run, _ in left()]
        for _, child in left():
            child.kill()
        await self._log.until(lambda: not left(), 0.5)
        return []


def tears_down(run: Run) -> bool:
    """Whether each process of a run that can be asked says that it only cleans up."""
    here = _processes(run)
    return bool(here) and all(process.tears_down for process in here)


async def are_interrupted(run: Run, within_s: float = ASK_S) -> bool:
    """Whether those that don't say so handle Ctrl-C: they are in a `finally` of a test."""
    asked = [process for process in _processes(run) if not process.tears_down]
    interrupted = await asyncio.gather(*(_is_interrupted(process, within_s) for process in asked))
    return bool(asked) and all(interrupted)


async def _is_interrupted(target: Target, within_s: float) -> bool:
    try:
        threads = await target.ask(ReadThreads, within_s)
    except Refusal:
        return False  # it is gone, or no Python code runs
    return bool(threads.get("interrupted"))


def _processes(run: Run) -> list[Target]:
    """Those on this machine: others get no Ctrl-C. The main one says so also when it has left."""
    main = [] if run.main is None else [run.main]
    others = [each for name, each in run.targets.items() if name != MAIN and not each.is_remote]
    return main + others
