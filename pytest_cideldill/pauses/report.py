"""The report of a pause, as clients get it: plain data, made at the stop.

Runs on the thread that stops; no user code runs here.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Final

from pytest_cideldill.context import Identity
from pytest_cideldill.frames.frames import (
    location,
    short_locals,
    top_user_frame,
    user_side,
    user_stack,
)
from pytest_cideldill.frames.tasks import logical_stack, task_of
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import note, passes
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.interpreter.running import thread_names
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_swap import is_trampoline
from pytest_cideldill.pauses.parking import Pause, Seen, Stop
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.rendering.display import Lens

DELETED = "<deleted>"
"""Stands for the value of a variable that is gone."""

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "call_data": (dict, type(None)),
    "breakpoint_id": (str, type(None)),
    "thread": (dict,),
    "location": (dict,),
    "locals": (dict,),
    "hit_count": (int, type(None)),
    "condition_error": (str,),
    "exception": (dict, type(None)),
    "autopsy": (dict,),
    "frames": (list,),
    "changed": (dict,),
    "attempt": (int,),
    "subtest": (str,),
}
"""What the keys of a report hold: clients rely on it."""

_PARTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "call_data": {
        "method_name": str,
        "qualified_name": str,
        "pretty_args": list,
        "pretty_kwargs": dict,
        "signature": str,
    },
    "thread": {"name": str},
    "location": {"file": str, "line": int, "source": str},
    "exception": {"message": str},
    "autopsy": {"exception": dict, "frames": list, "innerExceptions": list},
}
"""What they hold in turn."""

_AT_EXCEPTIONS: Final = frozenset({"exception", "post_mortem", "raise"})

_BITS: Final = 64
_ITEMS: Final[Mapping[str, type]] = {
    "frames": dict,
    "locals": str,
    "changed": str,
    "call_data.pretty_args": str,
    "call_data.pretty_kwargs": str,
}
"""What all their items or values are."""

_KNOWN: Final = (
    "id",
    "nodeid",
    "paused_at",
    "pause_reason",
    "phase",
    "repl_sessions",
    "run_id",
    "when",
    "worker",
)
"""Keys of a report that are known without a look at the program."""


def stack_at(frame: FrameType, lens: Lens) -> list[FrameType]:
    """The stack of a stop as clients see it, innermost first; at least the frame."""
    try:
        return user_side(logical_stack(frame, lens.project), lens.project, is_trampoline)
    except Exception as error:
        if passes(error):
            raise
        return [frame]


@dataclass(frozen=True, slots=True)
class StopReporter:
    """Makes reports. `lens`: shows what the process holds."""

    identity: Identity
    position: Position
    lens: Lens

    def bare(self, pause_id: str, stop: Stop) -> dict[str, Any]:
        """All keys of a reported pause, as far as they are known without a look at values."""
        frame = stop.frames[0]
        code, line = frame.f_code, stop.lines[0] if stop.lines else frame.f_lineno
        ident = get_ident()
        during = stop.during or self.position.during
        report = {
            "id": pause_id,
            "paused_at": clock.wall(),
            "call_data": None,
            "repl_sessions": [],
            "pause_reason": stop.reason,
            "phase": stop.phase,
            "when": during.when,
            "breakpoint_id": None,
            "nodeid": during.nodeid,
            "run_id": self.identity.run_id,
            "worker": self.identity.worker,
            "thread": {"id": ident, "name": str(ident)},
            "location": {
                "file": frame_file(frame),
                "line": line,
                "function": code.co_qualname,
                "module": None,
                "source": "",
            },
            "locals": {},
        }
        return report if during.attempt is None else report | {"attempt": during.attempt}

    def shown(self, phase: str, frames: Sequence[FrameType]) -> int:
        """The frame in which expressions are evaluated by default: the one that the stop shows.

        Of a call it is the call itself; of an exception the innermost of the user's, which may
        have come from deep inside a library.
        """
        if phase not in _AT_EXCEPTIONS:
            return 0
        return top_user_frame(list(frames), self.lens.project)

    def report(
        self,
        frames: Sequence[FrameType],
        lines: Sequence[int] | None,
        place: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The rest of the reported pause; `place`: instead of that of the frame, and its locals.

        A plugin's are no news.
        """
        top = top_user_frame(list(frames), self.lens.project)
        frame = frames[top]
        line = lines[top] if lines else frame.f_lineno
        task, ident = task_of(frames), get_ident()
        # Not current_thread(): it would make a raw thread known to `threading`.
        thread = {"id": ident, "name": thread_names().get(ident, str(ident))}
        if task is not None:
            thread["task"] = self.lens.text(task)
        if place is not None:
            shown, where = {}, {"function": None, "module": None, "source": ""} | place
        else:
            shown, where = short_locals(frame, self.lens), location(frame, line, self.lens)
        return {"thread": thread, "location": where, "locals": shown}

    def see(self, pause: Pause, before: Pause | None) -> dict[str, Any]:
        """The stack, and of the locals which are new, other or gone since the stop before."""
        part: dict[str, Any] = {}
        if "autopsy" not in pause.report:  # that has frames of its own
            part["frames"] = user_stack(pause.frames, pause.lines, self.lens, is_trampoline)
        frame = pause.frames[top_user_frame(pause.frames, self.lens.project)]
        held = read_locals(frame)
        shown: dict[str, str] = pause.report["locals"]
        now: Seen = {name: (id(held.get(name)), value) for name, value in shown.items()}
        kept = {} if before is None else before.seen
        present = {id(each) for each in pause.frames}
        pause.seen = {key: each for key, each in kept.items() if key in present}
        if before is not None:
            old = pause.seen.get(id(frame), {})
            changed = {name: shown[name] for name, each in now.items() if old.get(name) != each}
            gone = {name: DELETED for name in old if name not in now}
            part["changed"] = changed | gone
        pause.seen[id(frame)] = now
        return part


def take_out_misfits(report: dict[str, Any], bare: Mapping[str, Any]) -> None:
    """Take out what is not as clients expect it, so that the stop arrives."""
    for name, kinds in _KINDS.items():
        if name in report and (why := _misfit(name, report[name], kinds)):
            del report[name]
            note(report, f"the report could not be made: {why}")
    for name in bare.keys() - report.keys():
        report[name] = bare[name]
    report |= {name: bare[name] for name in _KNOWN}
    report["thread"] = {**report["thread"], "id": bare["thread"]["id"]}


def _misfit(name: str, value: Any, kinds: tuple[type, ...]) -> str:
    """What is wrong with the value of a key; empty: nothing."""
    if not any(_is(value, kind) for kind in kinds):
        return f"{name} was of type {type(value).__name__}"
    if value is None:
        return ""
    for key, kind in _PARTS.get(name, {}).items():
        if why := _misfit(f"{name}.{key}", dict.get(value, key), (kind,)):
            return why
    of_items = _ITEMS.get(name)
    items = dict.values(value) if issubclass(type(value), dict) else value
    if of_items is not None and not all(_is(item, of_items) for item in items):
        return f"{name} had items of other types than {of_items.__name__}"
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type; a number must be one that JSON holds everywhere."""
    if not issubclass(type(value), kind):
        return False
    return kind is not int or int.bit_length(value) < _BITS
