"""Answers questions about this process: threads, stacks, the variables of a pause, its code.

Questions come on the I/O thread. What concerns a pause is answered by its parked thread, so that
its frames are read where they are; the rest the interpreter knows of other threads at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

from pytest_cideldill.context import Context
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.frames.failure import ExaminedFailure, FailureExtent, autopsy
from pytest_cideldill.frames.frames import describe_frame, is_shown
from pytest_cideldill.frames.tasks import are_cancelled, describe_tasks, names_of_tasks
from pytest_cideldill.frames.threads import describe_threads, stack_of
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.interpreter.loaded_names import file_of_module
from pytest_cideldill.interpreter.running import is_interrupted, running_frames
from pytest_cideldill.objects.content_ids import Identified
from pytest_cideldill.pauses.parking import Pause, frame_of
from pytest_cideldill.pauses.pauses import Pauses
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import (
    FindCode,
    Inspect,
    ReadContext,
    ReadStack,
    ReadThreads,
    ReadVariables,
)
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import type_name
from pytest_cideldill.rendering.tree import describe

Look = FindCode | Inspect | ReadContext | ReadStack | ReadVariables | ReadThreads
"""A command that asks."""


class Looking:
    """Answers questions about threads, stacks, the variables of a pause, and code."""

    def __init__(self, context: Context, pauses: Pauses) -> None:
        self._lens = context.lens
        self._position = context.position
        self._keeping = context.keeping
        self._pauses = pauses

    def answer(self, command: Look) -> None:
        """Have a question answered.

        Raises:
            Refusal: `pause_not_found`, `thread_not_found`, `no_exception`.
        """
        match command:
            case Inspect():
                self._pauses.ask_within_limits(
                    command.request,
                    self._pauses.holder_of(command.cid) or command.pause_id,
                    lambda pause, interruptor: self._keeping.inspect(
                        command, pause.held, interruptor
                    ),
                )
            case FindCode():
                loaded = is_loaded(command.file, self._lens.project)
                self._pauses.reply(command.request, {"loaded": loaded})
            case ReadThreads():
                self._pauses.reply(command.request, self._threads(stacks=command.stacks))
            case ReadContext():
                context = partial(self._context, command)
                self._pauses.ask(command.request, command.pause_id, context)
            case ReadVariables():
                variables = partial(self._variables, command)
                self._pauses.ask(command.request, command.pause_id, variables)
            case ReadStack(pause_id=str(pause_id)):
                stack = partial(self._paused_stack, command)
                self._pauses.ask(command.request, pause_id, stack)
            case _:
                self._pauses.reply(command.request, self._running_stack(command))

    def _threads(self, *, stacks: bool) -> dict[str, Any]:
        return {
            "threads": describe_threads(self._lens, self._pauses.parked, stacks=stacks),
            "tasks": describe_tasks(self._lens),
            "interrupted": is_interrupted() or are_cancelled(),
        }

    def _paused_stack(self, command: ReadStack, pause: Pause) -> dict[str, Any]:
        return self._stack(command, pause.frames, pause.lines, pause.report["thread"]["id"])

    def _running_stack(self, command: ReadStack) -> dict[str, Any]:
        thread_id = command.thread_id
        frames = None if thread_id is None else stack_of(thread_id, self._lens)
        if thread_id is None or frames is None:
            raise Refusal(
                ErrorCode.THREAD_NOT_FOUND,
                f"no thread {thread_id} in this process; threads_list shows them",
                thread_id=thread_id,
            )
        return self._stack(command, frames, None, thread_id)

    def _stack(
        self,
        command: ReadStack,
        frames: Sequence[FrameType],
        lines: Sequence[int] | None,
        thread_id: int,
    ) -> dict[str, Any]:
        end = command.start + command.most
        names = names_of_tasks(frames)
        described = [
            describe_frame(
                (frame, lines[index] if lines else frame.f_lineno),
                index,
                self._lens,
                with_locals=False,
            )
            | ({"task": self._lens.text(names[id(frame)])} if id(frame) in names else {})
            for index, frame in enumerate(frames[:end])
            if index >= command.start
        ]
        return {"thread_id": thread_id, "frames": described, "total_frames": len(frames)}

    def _context(self, command: ReadContext, pause: Pause) -> dict[str, Any]:
        """As of now: evaluations may have changed variables since the stop."""
        error, report = pause.names.get("__exception__"), pause.report
        if error is None:
            raise Refusal(
                ErrorCode.NO_EXCEPTION,
                f"{pause.id} is paused without an exception ({pause.phase}); stacktrace_get and "
                "variables_get look into it",
                pause_id=pause.id,
            )
        lines = pause.lines or [frame.f_lineno for frame in pause.frames]
        recorded: dict[str, Any] = report.get("autopsy") or self._position.around()
        failure = ExaminedFailure(
            error,
            recorded.get("exception") or (report["call_data"] or report)["exception"],
            list(zip(pause.frames, lines, strict=True)),
            is_first_chance=pause.phase == "raise",
            assertion=recorded.get("assertion"),
        )
        extent = FailureExtent(command.max_frames, command.variables_for, command.max_inner)
        made = autopsy(failure, self._lens, extent)
        of_the_test = {name: value for name, value in recorded.items() if name not in made}
        return {"threadId": report["thread"]["id"], **made, **of_the_test}

    def _variables(self, command: ReadVariables, pause: Pause) -> dict[str, Any]:
        frame = frame_of(pause, command.frame_index)
        if command.names is None:
            return {"names": names_in(frame, command.scope)}

        def identify(value: object, name: str) -> Identified:
            return self._keeping.objects.take(pause.held, value, name)

        variables, missing = variables_in(frame, command.scope, command.names, self._lens, identify)
        return {"variables": variables, "missing": missing}


def names_in(frame: FrameType, scope: str) -> list[dict[str, str]]:
    """`[{name, type}]`, in the order of their definition.

    Args:
        scope: `locals | globals | closure`; closure: what is the enclosing functions'.
    """
    values = _values(frame, scope)
    return [{"name": name, "type": type_name(value)} for name, value in values.items()]


def variables_in(
    frame: FrameType,
    scope: str,
    names: Sequence[str],
    lens: Lens,
    identify: Callable[[object, str], Identified],
) -> tuple[list[dict[str, Any]], list[str]]:
    """`[{name, type, value, cid, has_children}]` of some names, and the names that are none.

    `cid` names the object for `breakpoint_inspect_object`.

    Args:
        scope: As for `names_in`.
        identify: Gives an object its content id; runs no user code.
    """
    values = _values(frame, scope)
    described, missing = [], []
    for name in names:
        if name not in values:
            missing.append(name)
            continue
        value = values[name]
        shown = describe(value, name=name, depth=1, limits=lens.limits, redactor=lens.redactor)
        described.append(
            {
                "name": name,
                "type": shown["type"],
                "value": shown["repr"],
                "cid": identify(value, name).cid,
                "has_children": bool(shown["attributes"] or shown.get("truncated")),
            }
        )
    return described, missing


def _values(frame: FrameType, scope: str) -> Mapping[str, Any]:
    if scope == "globals":
        found: Mapping[str, Any] = frame.f_globals
    else:
        found = read_locals(frame)
        if scope == "closure":
            free = frame.f_code.co_freevars
            found = {name: value for name, value in found.items() if name in free}
    return {name: value for name, value in list(found.items()) if is_shown(name)}


def is_loaded(path: str, project: Project) -> bool:
    """Whether a module, or a call that is not over, is from the file with this real path."""
    return any(project.real(file) == path for file in set(_files()))


def _files() -> Iterator[str]:
    for module in tuple(sys.modules.values()):
        file = file_of_module(module)
        if file is not None:
            yield file
    for frame in running_frames():
        yield frame.f_code.co_filename
