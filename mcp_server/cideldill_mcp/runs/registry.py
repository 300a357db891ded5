"""Runs: one fresh pytest child each; starts them, ends them, finds their pauses.

At most one test run is active; processes that only list tests come and go beside it.
Lives on the event loop. The tools ask here; the hub reports here.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.callrecords.records import Records
from cideldill_mcp.events.log import EventLog
from cideldill_mcp.objects.object_files import ObjectFiles
from cideldill_mcp.processes.launch import HASH_SEED, VARIABLE, Recipe, Start, launch
from cideldill_mcp.processes.listener import Hub, Owner
from cideldill_mcp.processes.process import MAIN, Target
from cideldill_mcp.processes.reaper import Reaper
from cideldill_mcp.runs.due_rows import due
from cideldill_mcp.runs.not_hit import never_hit
from cideldill_mcp.runs.run import Run, RunOrder
from cideldill_mcp.runs.stopping import INTERRUPT_S, Ladder, tears_down
from pytest_cideldill import protocol
from pytest_cideldill.config.settings import Settings
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.current_test_file import FilePosition
from pytest_cideldill.records.merge import run_folder
from pytest_cideldill.redaction.hidden_nodeids import meant

SILENT_S = 0.5
"""When the main process of a run is gone, the verdict waits for others until they are silent."""

LINGER_S = 10.0
"""How long a process may live after it left pytest in order (atexit, stuck threads)."""

EXIT_S = 0.5
"""How long the verdict waits for a process that said it was done to be gone as well."""

_GONE: dict[str, Any] = {"by": "disconnect", "reason": "process_gone"}


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
        """A test run by id, or the newest. Raises Refusal: `no_run` or `run_not_found`."""
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


class Runs(RunList):
    """Starts and ends runs, at most one test run at a time, and takes the events of the hub.

    Args:
        desired: Sent to every process that connects.
        settings: What the user chose; default: nothing.

    Attributes:
        listing: A collection that took longer than its client waits, for the next one that asks.
        reaper: Ends the processes of runs and questions when this process is gone.
        tag_key: Of the tags of secrets: ids with tags mean the same in all runs and questions.
        hash_seed: PYTHONHASHSEED of all runs, the user's if there is one: sets have one order, so
            that node ids made of them mean the same test in the next run.
    """

    def __init__(
        self, recipe: Recipe, desired: Desired, log: EventLog, settings: Settings | None = None
    ) -> None:
        self.recipe = recipe
        self.desired = desired
        self.log = log
        self.settings = settings or Settings()
        self.tag_key = secrets.token_bytes(32)
        self.hash_seed = os.environ.get(HASH_SEED) or str(secrets.randbelow(2**32))
        self._hub = Hub(Owner(self.admit, self.handle, self.lost), self.settings.bind)
        self.directory = Path(self._hub.directory)  # private; gone when this process is
        log.keep_in(self.directory)
        self.records = Records(self.directory)
        self.objects = ObjectFiles(self.directory)
        grace_s = self.settings.grace_s
        self.reaper = Reaper(self._hub.directory, grace_s, INTERRUPT_S)
        self.ladder = Ladder(log, grace_s)
        super().__init__()
        self._listings: dict[str, Run] = {}
        self.listing: Run | None = None

    # --- opening ----------------------------------------------------------------------------

    def open(self, run: Run, folder: Path) -> Run:
        """Take in a run that was recorded, whose events come next; gives it back."""
        self.desired.begin_run()
        self._runs[run.id] = run
        self.objects.open(run.id, folder)
        self.log.append("run_started", run_id=run.id, listing=False)
        return run

    # --- starting and stopping --------------------------------------------------------------

    async def start(self, order: RunOrder) -> Run:
        """Start a run.

        Raises:
            Refusal: `run_active` (listings aside), or the interpreter can't be started.
        """
        try:
            await self._hub.listen()
        except OSError as error:
            raise Refusal(ErrorCode.INTERNAL_ERROR, self._deaf(error)) from error
        # No await from here on: of two clients that start a run at once, one is refused.
        if not order.listing and (active := self.active) is not None:
            raise run_active(active)
        kind, runs = ("l", self._listings) if order.listing else ("r", self._runs)
        run = Run(f"{kind}{len(runs) + 1}", order, self.settings, self.tag_key)
        further = ["--collect-only", "-q"] if order.listing else []
        command = self.recipe.command_line([*order.arguments, *further])
        try:
            run.child = launch(command, self._start(run), self.reaper)
        except OSError as error:
            raise Refusal(
                ErrorCode.INTERNAL_ERROR, f"{command[0]} can't be started: {error}"
            ) from error
        if not order.listing:
            self.desired.begin_run()
        runs[run.id] = run
        self.log.append("run_started", run_id=run.id, listing=order.listing)
        run.child.watch(lambda: self._ended(run))
        return run

    def _deaf(self, error: OSError) -> str:
        """Why the processes of a run could not connect."""
        if self.settings.bind is None:
            return f"nothing can listen for the processes of a run: {error}"
        return (
            f"nothing can listen at --cideldill-bind={self.settings.bind}: {error}; start the "
            "server with an address of this machine and a free port, or without the option"
        )

    def _start(self, run: Run) -> Start:
        """What its main process gets: the invitation, and a hash seed if the user has none."""
        variables: dict[str, str] = {}
        invitation = self._hub.invitation(run.id) | {"pinned": len(self.recipe.pinned)}
        if not os.environ.get(HASH_SEED):
            invitation["hash_seed"] = variables[HASH_SEED] = self.hash_seed
        if self.settings.record and not run.order.listing:  # it records itself
            folder = run_folder(Path(self.settings.record).absolute(), run.id, time.time())
            self.objects.open(run.id, folder)
            invitation["record"] = str(folder)
        variables[VARIABLE] = json.dumps(invitation)
        return Start(run.id, self._hub.directory, variables)

    async def close(self, by: str, within_s: float) -> None:
        """End everything within a time; what tears down then is left to the reaper, and named."""
        everyone = [*self._runs.values(), *self._listings.values()]
        leaves = self.settings.grace_s > within_s and self.reaper.is_alive
        left = await self.ladder.end_all(everyone, by, within_s, leaves=leaves)
        if left:
            self._report_left(left)
        await self._hub.close()
        self.log.close()
        self.records.close()
        self.objects.close()
        self.reaper.close(leaves=bool(left))

    def _report_left(self, left: list[Run]) -> None:
        """In the log of the client, as long as there is one."""
        runs = ", ".join(run.id for run in left)
        with suppress(OSError, ValueError):
            sys.stderr.write(
                f"pytest-cideldill: {runs} was interrupted and left to tear down its fixtures; "
                f"what is left of it after {self.settings.grace_s:g} s is killed\n"
            )
            sys.stderr.flush()

    def _ended(self, run: Run) -> None:
        """The main process is gone; what it sent before may still be on its way."""
        run.process_gone()
        self.objects.process_is_gone(run.id)
        self.log.wake()
        self._settle_later(run, time.monotonic() + LINGER_S)

    def _settle_later(self, run: Run, deadline: float) -> None:
        """When each connection is read to its end, or when nothing more comes from them."""
        now = time.monotonic()
        heard_at = max((target.heard_at for target in run.targets.values()), default=0.0)
        if now - heard_at >= SILENT_S or now >= deadline:
            self.settle(run)
        else:
            asyncio.get_running_loop().call_later(SILENT_S, self._settle_later, run, deadline)

    def settle(self, run: Run, last: FilePosition | None = None) -> None:
        """Nothing more will come of a run; `last`: what was under way in one that was opened."""
        for target in list(run.targets.values()):  # a child of it may hold the connection
            self._take_left_behind(target)
        self._take_held(run, list(run.held), at_once=True)
        if run.settle(last):
            run.never_hit = never_hit(self.desired, run)
            self.log.append("run_finished", run_id=run.id, end=run.end)
            if not self.are_opened:
                self.objects.run_is_over(run.id)
            self.desired.end_run(run.id)

    # --- events of the hub ------------------------------------------------------------------

    def admit(self, target: Target) -> None:
        """Add a process, live or recorded, to its run, and send what is wanted of it."""
        run = self._runs.get(target.hello.run_id) or self._listings.get(target.hello.run_id)
        if run is None or run.is_over:
            raise ValueError(f"run {target.hello.run_id!r} is not active")
        if target.worker == MAIN and target.is_remote:
            raise ValueError("a run's main process is on this machine")
        if target.worker in run.targets:
            raise ValueError(f"{target.worker} of {run.id} is connected already")
        if target.worker == MAIN and self.recipe.rootdir is None:
            self.recipe = replace(self.recipe, rootdir=target.hello.rootdir)
        run.connected(target)
        target.send(run.configure())
        if not run.order.listing:
            target.send(protocol.SetDefaultBehavior(self.desired.default_behavior))
            for breakpoint in self.desired:
                if not breakpoint.is_lost:
                    target.send(breakpoint.command(0))
        target.send(protocol.Begin())
        self.log.append("worker_up", run_id=run.id, worker=target.worker)

    def handle(self, target: Target, event: protocol.Event, ts: float) -> None:
        run = self._runs.get(target.hello.run_id) or self._listings[target.hello.run_id]
        if isinstance(event, protocol.Replied):
            run.apply(target, event)  # it may be about a pause, whose lease it renewed
            target.answer(event)
            return
        if isinstance(event, protocol.Bound):
            self.desired.note(target.worker, event)
        if isinstance(event, protocol.LinesPassed):
            self.desired.note_passes(target.worker, event)
        if isinstance(event, protocol.Recorded):
            self._take_rows(run, target.worker, event)
            return
        if isinstance(event, protocol.NodeRelayed):
            run.held.setdefault(event.worker, []).append(event)
            self._take_held(run, [event.worker])
            return
        logged = run.apply(target, event)
        if logged is None:
            self.log.wake()
        else:
            type, values = logged
            seq = self.log.append(type, ts=ts, run_id=run.id, worker=target.worker, **values)
            run.logged(type, values, seq)
        if run.has_departed and run.child is not None and not run.is_stopping:
            asyncio.get_running_loop().call_later(LINGER_S, self._bury, run)

    def _take_rows(self, run: Run, worker: str, recorded: protocol.Recorded) -> None:
        """Calls and hits of a process."""
        parts = [common for common, _ in recorded.parts()]
        run.called.update(part.get("qualified_name") for part in parts)
        if not run.order.listing:
            are_calls = any(part["type"] == "call" for part in parts)
            rows = recorded.in_order() if are_calls else []
            self.records.add(run.id, worker, rows, recorded.lost)
        self.log.extend(due(recorded, run, self.desired), run_id=run.id, worker=worker)

    def _take_held(self, run: Run, workers: Iterable[str], *, at_once: bool = False) -> None:
        """Take what xdist's controller relayed for workers, as soon as it is their turn."""
        for worker in workers:
            for type, values in run.take_held(worker, at_once=at_once):
                self.log.append(type, run_id=run.id, worker=worker, **values)
        self.log.wake()

    def lost(self, target: Target) -> None:
        run = self._runs.get(target.hello.run_id) or self._listings[target.hello.run_id]
        worker = target.worker
        if worker == MAIN or MAIN not in run.targets:  # else xdist's controller relays its reports
            self._take_left_behind(target)
        for pause_id in run.disconnected(target):
            self.log.append("resumed", run_id=run.id, worker=worker, pause_id=pause_id, **_GONE)
        self.log.append("worker_down", run_id=run.id, worker=worker)
        self._take_held(run, [worker])
        if run.is_connected or run.child is None:
            return
        if run.child.returncode is not None:
            self.settle(run)
        elif run.has_verdict and not run.is_stopping:
            # It may hang in threads that never end: the verdict stands all the same.
            asyncio.get_running_loop().call_later(EXIT_S, self.settle, run)

    def _take_left_behind(self, target: Target) -> None:
        """Tests that had ended in a process that died before it sent that."""
        for event, ts in target.left_behind():
            self.handle(target, event, ts)

    def _bury(self, run: Run) -> None:
        """Kill a process that left pytest and hangs; what it does at its exit has its time."""
        child = run.child
        if child is None or run.is_stopping:
            return  # the ladder ends it
        if not tears_down(run):
            child.kill()  # signals nobody when it has ended
        elif self.settings.grace_s > LINGER_S:
            left = self.settings.grace_s - LINGER_S
            asyncio.get_running_loop().call_later(left, child.kill)


def run_active(active: Run) -> Refusal:
    """The refusal of a second test run."""
    return Refusal(
        ErrorCode.RUN_ACTIVE,
        f"run {active.id} is {active.state}; go on with it (debug_state), end it "
        "(test_stop), or give replace: true",
        run_id=active.id,
        state=active.state,
    )
