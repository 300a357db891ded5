"""Conditions of breakpoints: whether one holds at a pass or a call; on the thread that runs it.

A condition that raises counts once as an error, then as false.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

from pytest_cideldill.evaluation.compiled import (
    Expressions,
    Substitutes,
    our_statements,
    parse_truth,
)
from pytest_cideldill.evaluation.time_limit import TIMEOUT, Overtime
from pytest_cideldill.probes.behaviors import FunctionProbe
from pytest_cideldill.protocol import AddBreakpoint

_args_of = BaseException.__dict__["args"].__get__


class ConditionFailure:
    """A condition that raised. Its exception, if any, is being handled when this is made.

    Attributes:
        text: `Type: message`; it may hold secrets.
    """

    __slots__ = ("text",)

    def __init__(self, shown: str) -> None:
        kind = shown.removeprefix("<error: ").removesuffix(">")
        error = sys.exc_info()[1]
        args = _args_of(error) if error is not None and shown != TIMEOUT else ()
        self.text = f"{kind}: {args[0]}" if args and type(args[0]) is str else kind


Judge = Callable[[FrameType], bool | ConditionFailure]
"""Whether a condition holds in a frame; on the hot path."""


def judging(condition: str, code: CodeType, overtime: Overtime) -> Judge:
    """A condition for the frames of one code object. Raises ValueError: it can't be compiled."""
    failed = overtime.failed
    return Expressions(
        [parse_truth(condition)],
        code,
        overtime,
        ending=our_statements("return v0"),
        substitutes=Substitutes(lambda: ConditionFailure(failed()), ConditionFailure(TIMEOUT)),
    ).value


class Conditions:
    """The conditions of function breakpoints. `on_failure`: called with the first error of each."""

    def __init__(self, overtime: Overtime, on_failure: Callable[[str], None]) -> None:
        self._overtime = overtime
        self._on_failure = on_failure
        self._failed: set[str] = set()
        # Breakpoint → id of the code of a trampoline → that code, which so keeps its id.
        self._judges: dict[str, dict[int, tuple[CodeType, Judge]]] = {}

    def forget(self, id: str) -> None:
        """A breakpoint has a new condition, which may fail once too."""
        self._failed.discard(id)
        self._judges.pop(id, None)

    def reason(self, governing: FunctionProbe, frame: FrameType) -> str | None:
        """Why the call in a trampoline's frame pauses, None when its condition says no."""
        code = frame.f_code
        judges = self._judges.get(governing.id)
        known = None if judges is None else judges.get(id(code))
        judge = self._judge(governing.spec, code) if known is None else known[1]
        verdict = judge(frame)
        if type(verdict) is bool:
            return "breakpoint" if verdict else None
        return self._error(governing, verdict)

    def _judge(self, spec: AddBreakpoint, code: CodeType) -> Judge:
        assert spec.condition is not None
        judge = judging(spec.condition, code, self._overtime)
        self._judges.setdefault(spec.id, {})[id(code)] = code, judge
        return judge

    def _error(self, governing: FunctionProbe, failure: ConditionFailure) -> str | None:
        if governing.id in self._failed:
            return None
        self._failed.add(governing.id)
        kind = failure.text.partition(":")[0]
        self._on_failure(f"condition of {governing.id} ({governing.name.text}) raised {kind}")
        return "condition_error"
