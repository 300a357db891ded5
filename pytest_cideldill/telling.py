"""The report of a pause, as clients get it (contract, section 2): plain data, made at the stop.

Runs on the thread that stops; no user code runs here.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Sequence
from types import FrameType
from typing import Any

from pytest_cideldill import clock
from pytest_cideldill.capture.frames import location
from pytest_cideldill.capture.frames import short_locals
from pytest_cideldill.capture.frames import top_user_frame
from pytest_cideldill.capture.frames import user_side
from pytest_cideldill.capture.frames import user_stack
from pytest_cideldill.capture.lens import Lens
from pytest_cideldill.capture.namespace import forget_locals
from pytest_cideldill.capture.tasks import logical_stack
from pytest_cideldill.capture.tasks import task_of
from pytest_cideldill.gate import Pause
from pytest_cideldill.gate import Seen
from pytest_cideldill.probes.position import Position
from pytest_cideldill.running import thread_names
from pytest_cideldill.sources.interpose import is_trampoline
from pytest_cideldill.values import dataclass

DELETED = "<deleted>"
"""Stands for the value of a variable that is gone."""


def stack_at(frame: FrameType, lens: Lens) -> list[FrameType]:
    """The stack of a stop as clients see it, innermost first."""
    return user_side(logical_stack(frame, lens.project), lens.project, is_trampoline)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is: names its pauses."""

    run_id: str
    worker: str

    @property
    def prefix(self) -> str:
        """`r1.gw0` or `r1.main`."""
        return f"{self.run_id}.{self.worker}"


@dataclass(frozen=True, slots=True)
class Teller:
    """Makes reports.

    Attributes:
        identity: Names this process.
        position: Tells the test.
        lens: Shows what the process holds.
    """

    identity: Identity
    position: Position
    lens: Lens

    def report(
        self,
        pause_id: str,
        phase: str,
        reason: str,
        frames: Sequence[FrameType],
        lines: Sequence[int] | None,
    ) -> dict[str, Any]:
        """The pause of the contract."""
        top = top_user_frame(list(frames), self.lens.project)
        frame = frames[top]
        line = lines[top] if lines else frame.f_lineno
        ident = get_ident()
        shown = short_locals(frame, self.lens)
        forget_locals(frame)
        report = {
            "id": pause_id,
            "paused_at": clock.wall(),
            "call_data": None,
            "repl_sessions": [],
            "pause_reason": reason,
            "phase": phase,
            "when": self.position.when,
            "breakpoint_id": None,
            "nodeid": self.position.nodeid,
            "run_id": self.identity.run_id,
            "worker": self.identity.worker,
            "thread": {"id": ident, "name": _thread_name(ident)} | self._task(frames),
            "location": location(frame, line, self.lens),
            "locals": shown,
        }
        if self.position.attempt is not None:
            report["attempt"] = self.position.attempt
        return report

    def _task(self, frames: Sequence[FrameType]) -> dict[str, str]:
        name = task_of(frames)
        return {} if name is None else {"task": self.lens.text(name)}

    def see(self, pause: Pause, before: Pause | None) -> None:
        """Tell the stack, and of the locals which are new, other or gone since the stop before."""
        if "autopsy" not in pause.report:  # that tells its own
            told = user_stack(pause.frames, pause.lines, self.lens, is_trampoline)
            pause.report["frames"] = told
        frame = pause.frames[top_user_frame(pause.frames, self.lens.project)]
        held = frame.f_locals
        shown: dict[str, str] = pause.report["locals"]
        now: Seen = {name: (id(held.get(name)), value) for name, value in shown.items()}
        del held
        forget_locals(frame)
        kept = {} if before is None else before.seen
        present = {id(each) for each in pause.frames}
        pause.seen = {key: each for key, each in kept.items() if key in present}
        if before is not None:
            old = pause.seen.get(id(frame), {})
            changed = {name: shown[name] for name, each in now.items() if old.get(name) != each}
            gone = {name: DELETED for name in old if name not in now}
            pause.report["changed"] = changed | gone
        pause.seen[id(frame)] = now


def _thread_name(ident: int) -> str:
    # Not current_thread(): it would make a raw thread known to `threading`.
    return thread_names().get(ident, str(ident))
