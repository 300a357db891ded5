"""What a client runs on a parked thread: its REPL, and the expressions of a resume request.

Runs on that thread, quiet, and until another one interrupts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pytest_cideldill.context import Context
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.evaluation.interrupt import EvaluationInterrupted, Interruptor
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.frames.frames import notice_secrets, visible_traceback
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.pauses.parking import Pause, frame_of, namespace_of
from pytest_cideldill.protocol import Evaluate
from pytest_cideldill.rendering.display import Lens

MAX_CHANGED: Final = 10
MAX_NAME: Final = 100
"""Of what an evaluation assigned: how many are in a reply, and characters of each."""

MAX_PLACES: Final = 3
"""Frames of a traceback in a reply."""

_T = TypeVar("_T")


class Console:
    """Runs a client's code on a parked thread: REPL input, and expressions of requests.

    Args:
        context: Its guard marks the thread meanwhile: it hits nothing.
    """

    def __init__(self, context: Context) -> None:
        self._lens = context.lens
        self._guard = context.guard
        self._objects = context.keeping.objects

    def limited(self, interruptor: Interruptor, work: Callable[[], _T]) -> _T:
        """Run the expressions of a request.

        Raises:
            Refusal: As `work`; `eval_timeout` when it was interrupted.
        """
        with self._guard.evaluating():
            try:
                return interruptor.run(work)
            except (EvaluationInterrupted, Refusal):
                if not interruptor.sent:
                    raise
        raise Refusal(
            ErrorCode.EVAL_TIMEOUT,
            "an expression of the request took too long and was interrupted; the thread is still "
            "paused",
            stopped=True,
        )

    def answer(self, command: Evaluate, pause: Pause, interruptor: Interruptor) -> dict[str, Any]:
        """What the REPL says."""
        frame = frame_of(pause, command.frame_index)
        session_id, namespace = namespace_of(pause, command.session_id)
        pause.touched = True
        error = pause.names.get("__exception__") if pause.phase == "post_mortem" else None
        done = evaluate(
            command.expression,
            frame,
            namespace,
            guard=self._guard,
            interruptor=interruptor,
            error=error,
        )
        self._lens.look_again()
        notice_secrets(frame, self._lens, namespace)  # the output may show one without its name
        output = self._lens.text(done.output)
        if done.missing is not None:
            output += _frame_that_has(done.missing, pause, self._lens)
        cid = None
        if done.output and not done.is_error:
            cid = self._objects.take(pause.held, done.value).cid
        at = [] if done.error is None else _raised_at(done.error, self._lens)
        return {
            "session_id": session_id,
            "output": output,
            "stdout": self._lens.text(done.stdout),
            "is_error": done.is_error,
            **({"at": at} if at else {}),
            "timed_out": done.timed_out,
            "changed": [self._lens.text(each, MAX_NAME) for each in done.changed[:MAX_CHANGED]],
            "result_cid": cid,
        }


def _raised_at(error: BaseException, lens: Lens) -> list[dict[str, Any]]:
    """The innermost frames of the user's code in the traceback of an error, innermost last."""
    places = visible_traceback(error, lens.project)
    users = [(frame, line) for frame, line in places if lens.project.has(frame)]
    return [
        {**lens.place(frame, line), "function": frame.f_code.co_qualname}
        for frame, line in reversed(users[:MAX_PLACES])
    ]


def _frame_that_has(name: str, pause: Pause, lens: Lens) -> str:
    """Where a name that an evaluation does not see is a local; empty: nowhere."""
    for index, frame in enumerate(pause.frames):
        code = frame.f_code
        if name not in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            continue
        if name in read_locals(frame):
            place = lens.place(frame, pause.lines[index] if pause.lines else frame.f_lineno)
            where = f"{place['file']}:{place['line']} {code.co_qualname}"
            return f' (frame {index} has it: {where}; give "frame_index": {index})'
    return ""
