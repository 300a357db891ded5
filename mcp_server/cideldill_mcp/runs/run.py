"""One run: state, processes, pauses, results, by its events. Starts nothing; on the event loop."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cideldill_mcp.processes.launch import Child
from cideldill_mcp.processes.process import MAIN, Target
from cideldill_mcp.runs.end import Cut, Evidence, classify
from cideldill_mcp.runs.results import Logged, Results
from pytest_cideldill import protocol
from pytest_cideldill.config.settings import Settings
from pytest_cideldill.protocol.current_test_file import FilePosition, read_position
from pytest_cideldill.redaction.redactor import Redactor

MAX_WARNINGS = 20

_ALONE = (
    "not connected, its tests run undebugged: pytest-cideldill is missing there or is another "
    "version, or it can't reach this server"
)


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What a run is asked to do.

    Attributes:
        wanted: Node ids, None for all.
        pause_on: `never | failure | error`.
        listing: Only collect, and list the node ids.
    """

    wanted: list[str] | None = None
    arguments: Sequence[str] = ()
    pause_on: str = "failure"
    listing: bool = False


class Run:
    """The state of one run, its processes, pauses and results, updated by its events.

    Args:
        tag_key: For tags of secrets, which are equal where it is; None: a random one.

    Attributes:
        main: The main process, also when it is gone.
        engines: Where the events of each process come from, also when it is gone.
        pauses: What is parked now, by id, oldest first: the pause as its process sent it + `seq`.
        stepping: Pauses whose thread is on its way to its next stop, by id.
        resumed: Ids of pauses that are over, or stepping.
        cut_off: Those of them whose process ended or was lost, with its name.
        closed_sessions: REPL sessions that ended with their pause.
        end: The `end` that clients see, once the run is over.
        never_hit: Why breakpoints were not hit, by id; None: not known (yet).
        workers: The processes that were ever connected, by name.
        redactor: As that of its processes, but for what they noticed on the way.
        watched: What became of the breakpoints, by worker; none of those that crashed.
        unwatched: The processes that ended their watch before their tests: a client stopped them.
        called: Dotted paths of the functions of which a call was recorded.
        stopped_at: Ids of the breakpoints that paused something.
        is_stopping: A client has it ended.
        cut: How, when Ctrl-C alone did not.
        held: Worker → its tests that xdist's controller relayed; they wait for its end.
    """

    def __init__(
        self,
        id: str,
        order: RunOrder | None = None,
        settings: Settings | None = None,
        tag_key: bytes | None = None,
    ) -> None:
        self.id = id
        self.order = order or RunOrder()
        self._settings = settings = settings or Settings()
        self.results = Results()
        self.child: Child | None = None
        self.targets: dict[str, Target] = {}
        self.engines: dict[str, dict[str, Any]] = {}
        self.pauses: dict[str, dict[str, Any]] = {}
        self.stepping: dict[str, dict[str, Any]] = {}
        self.resumed: set[str] = set()
        self.cut_off: dict[str, str] = {}
        self.closed_sessions: set[str] = set()
        self.warnings: list[str] = []
        self.end: dict[str, Any] | None = None
        self.never_hit: dict[str, str] | None = None
        self.workers: dict[str, Target] = {}
        self.watched: dict[str, protocol.Watched] = {}
        self.unwatched: set[str] = set()
        self._finished: set[str] = set()
        self._failed: int | None = None
        self.held: dict[str, list[protocol.NodeRelayed]] = {}
        self.called: set[str | None] = set()
        self.stopped_at: set[str | None] = set()
        self.is_stopping = False
        self.cut: Cut | None = None
        self.has_departed = False
        self.main: Target | None = None
        self._tag_key = tag_key or secrets.token_bytes(32)
        self.redactor = redactor_of(settings, self._tag_key)
        self._evidence = Evidence(False, None, departed=False, returncode=None)
        self._started, self.began_ns = time.monotonic(), time.time_ns()
        self._ended: float | None = None

    # --- asking -----------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the verdict is known and nothing more will come."""
        return self.end is not None

    @property
    def is_connected(self) -> bool:
        """Whether any process is connected."""
        return bool(self.targets)

    @property
    def has_verdict(self) -> bool:
        """Whether pytest reported its exit code and left in order."""
        return self.has_departed and self._evidence.exit_code is not None

    @property
    def state(self) -> str:
        """`starting | collecting | running | paused | stopping | finished | crashed`."""
        if self.end is not None:
            return "crashed" if self.end["kind"] == "crashed" else "finished"
        if self.is_stopping:
            return "stopping"
        if self.pauses:
            return "paused"
        if self.main is None:
            return "starting"
        return "collecting" if self.results.total is None else "running"

    @property
    def exit_code(self) -> int | None:
        """pytest's own, or that of a process that never got to pytest's end; None while it runs."""
        if self.end is None:
            return None
        code = self._evidence.exit_code
        return self._evidence.returncode if code is None else code

    @property
    def duration_s(self) -> float:
        """Wall time from the start of the process to the verdict, or until now."""
        return round((self._ended or time.monotonic()) - self._started, 3)

    @property
    def over_for_s(self) -> float:
        """How long ago the verdict was; 0: there is none."""
        return 0.0 if self._ended is None else time.monotonic() - self._ended

    def configure(self) -> protocol.Configure:
        """The first command for each of its processes; tags of secrets are the same in all."""
        return protocol.Configure(
            self.order.pause_on,
            self._settings.lease_s,
            self.order.wanted,
            self.order.listing,
            list(self._settings.record_calls),
            self._tag_key.hex(),
            self._settings.no_redact,
            os.path.realpath(self.main.hello.rootdir) if self.main else None,
        )

    # --- what happens -----------------------------------------------------------------------

    def connected(self, target: Target) -> None:
        """A process of this run said hello."""
        self.targets[target.worker] = target
        self.workers[target.worker] = target
        self.engines[target.worker] = target.hello.engine
        if target.worker == MAIN:
            self.main = target
            self._evidence = replace(self._evidence, connected=True)

    def disconnected(self, target: Target) -> list[str]:
        """Forget a process whose connection ended; the ids of the pauses that went with it."""
        if self.targets.get(target.worker) is target:
            del self.targets[target.worker]
        gone = [id for id, pause in self.pauses.items() if pause["worker"] == target.worker]
        for id in gone:
            if not self.is_stopping:
                self._warn(f"{id}: {target.worker} ended, or lost its connection, while paused")
            self._forget_pause(id)
            self.cut_off[id] = target.worker
        stepping = [id for id, each in self.stepping.items() if each["worker"] == target.worker]
        for id in stepping:
            self._end_step(id)
        return gone

    def apply(self, target: Target, event: protocol.Event) -> Logged | None:
        """Take in an event of one of the processes."""
        if not isinstance(event, protocol.Replied):  # a process that replies may be stuck
            target.heard_at = time.monotonic()
        match event:
            case protocol.Stopped():
                self._stop(event.pause)
                values = {"pause_id": event.pause["id"], "nodeid": event.pause["nodeid"]}
                return "stop", values | {"thread": event.pause["thread"]["id"]}
            case protocol.StepEnded():
                self._end_step(event.pause_id)
            case protocol.Resumed():
                self._forget_pause(event.pause_id, steps=event.action == "step")
                values = {"action": event.action, "by": event.by}
                return "resumed", {"pause_id": event.pause_id, **values}
            case protocol.Replied(pause_id=str(id)) if id in self.pauses:
                self.pauses[id]["lease_expires_at"] = event.lease_expires_at
            case protocol.RedactionChosen():
                for message in learn(self.redactor, event):
                    self._warn(message)
            case protocol.Watched():
                self.watched[target.worker] = event
                if target.worker not in self._finished:
                    self.unwatched.add(target.worker)
            case protocol.EngineChosen():
                self.engines[target.worker] = event.engine
            case protocol.Warned():
                return self._warn(event.message)
            case protocol.WorkerLost():
                return self._warn(f"xdist worker {event.worker}: {event.error}")
            case protocol.WorkerReady() if event.worker not in self.workers:
                target.send(protocol.Relay(event.worker))
                return self._warn(f"xdist worker {event.worker}: {_ALONE}")
            case protocol.NodeStarted() if target.is_remote:  # clocks differ
                event = replace(event, ts=time.time())
        self._note_end(target, event)
        return self.results.apply(target.worker, event)

    def take_held(self, worker: str, *, at_once: bool = False) -> list[Logged]:
        """Take what was relayed for a worker; not while it is connected, unless `at_once`.

        What it reported itself counts, and as long as it is connected that may be unread.
        """
        if worker in self.targets and not at_once:
            return []
        held = self.held.pop(worker, ())
        return [logged for event in held for logged in self.results.relayed(event)]

    def logged(self, type: str, values: dict[str, Any], seq: int) -> None:
        """The log gave an event of this run its number."""
        if type == "stop" and (pause := self.pauses.get(values["pause_id"])) is not None:
            pause["seq"] = seq

    def changed(self, pause: dict[str, Any], what: str) -> None:
        """A client changed how the test of a pause goes on."""
        self.results.change(pause["nodeid"], what)
        self.workers[pause["worker"]].send(protocol.Changed(what, pause["nodeid"]))

    def released(self, pause_id: str) -> None:
        """A process agreed to let a thread go; its `Resumed` is on its way."""
        self._forget_pause(pause_id)

    def process_gone(self) -> None:
        """The main process has ended; its connection may still hold unread events."""
        assert self.child is not None
        self._evidence = replace(self._evidence, returncode=self.child.returncode)
        if self.is_over:
            self._forget_position()

    def took(self, seconds: float) -> None:
        """Note how long a recorded run took."""
        self._started, self._ended = 0.0, seconds

    def settle(self, last: FilePosition | None = None) -> bool:
        """Everything that will come has come: find the verdict. False: it was known already.

        `last`: what was under way at the end, if that is known.
        """
        if self.is_over:
            return False
        if self.main is not None and self.main.hello.position_file is not None:
            last = read_position(self.main.hello.position_file)
            if self._evidence.returncode is not None:
                self._forget_position()
        child, results = self.child, self.results
        missing = results.counted(self._failed or 0)
        self._evidence = replace(
            self._evidence,
            last=last,
            # Before anything is cut off: what a process that could not speak to us wrote.
            errors=self.redactor.redact_text(child.err.text()) if child else "",
            output=self.redactor.redact_text(child.out.text()) if child else "",
            stopped=self.is_stopping,
            cut_off=self.main is not None and self.main.is_cut_off,
            cut=self.cut,
            ran=results.done,
            failed=results.failed,
            searched=results.searched,
        )
        self.end = classify(self._evidence)
        if missing:
            self.end.setdefault(
                "message",
                f"pytest counted {missing} failures whose reports could not be made or were lost; "
                "its own output has them",
            )
        self._ended = self._ended or time.monotonic()
        for id in list(self.pauses):
            self._forget_pause(id)
        for id in list(self.stepping):
            self._end_step(id)
        return True

    def _forget_position(self) -> None:
        if self.main is not None and self.main.hello.position_file is not None:
            Path(self.main.hello.position_file).unlink(missing_ok=True)

    def _note_end(self, target: Target, event: protocol.Event) -> None:
        if isinstance(event, protocol.Finished):
            self._finished.add(target.worker)
        if target.worker != MAIN:
            return
        match event:
            case protocol.Finished():
                self._evidence = replace(self._evidence, exit_code=event.exit_code)
                self._failed = event.failed
            case protocol.Interrupted():
                self._evidence = replace(self._evidence, interrupted=event.message)
            case protocol.InternalErrorRaised():
                self._evidence = replace(self._evidence, internal_error=event.longrepr)
            case protocol.Departed():
                self._evidence = replace(self._evidence, departed=True)
                self.has_departed = True

    def _stop(self, pause: dict[str, Any]) -> None:
        """A new pause, or one whose thread has made a step."""
        id = pause["id"]
        self.stepping.pop(id, None)
        self.resumed.discard(id)
        self.pauses[id] = pause
        self.stopped_at.add(pause.get("breakpoint_id"))

    def _end_step(self, id: str) -> None:
        pause = self.stepping.pop(id, None)
        if pause is not None:
            self.closed_sessions.update(pause["repl_sessions"])

    def _forget_pause(self, id: str, *, steps: bool = False) -> None:
        pause = self.pauses.pop(id, None)
        if pause is None:
            return
        self.resumed.add(id)
        if steps:
            self.stepping[id] = pause
        else:
            self.closed_sessions.update(pause["repl_sessions"])

    def _warn(self, message: str) -> Logged:
        if message not in self.warnings and len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(message)
        return "warning", {"message": message}


def redactor_of(settings: Settings, key: bytes) -> Redactor:
    """As the processes of a run have it at their start; `key` is the run's, for tags."""
    return Redactor(
        settings.redact_names,
        settings.redact_patterns,
        shown_names=settings.show_names,
        key=key,
        enabled=not settings.no_redact,
    )


def learn(redactor: Redactor, chosen: protocol.RedactionChosen) -> list[str]:
    """Hide what a process of the run hides as well; what to warn of."""
    if chosen.off:
        redactor.enabled = False
    redactor.extend(chosen.names, shown=chosen.shown)
    warnings = []
    for number, pattern in enumerate(chosen.patterns, 1):
        try:
            redactor.extend(patterns=[pattern])
        except ValueError:  # another Python may know other patterns; it may hold a secret
            warnings.append(
                f"the server's Python can't use pattern {number} of {len(chosen.patterns)}: "
                "what it means is not hidden in the last words of a process that crashed"
            )
    return warnings
