"""Tracepoints on functions: a message when a call of theirs starts, returns or raises.

They are declared up front by file and qualified name. Runs on the calling threads. Expressions for
the end of a call run in a frame of a stub, which has the names of the call, and `result` or
`exception`.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Mapping
from itertools import count
from keyword import iskeyword
from types import CodeType, FrameType, FunctionType
from typing import Any

from pytest_cideldill.evaluation.messages import MAX_TEXT, RenderedMessage
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.code_files import file_now
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.probes.conditions import ConditionFailure, judging
from pytest_cideldill.probes.linehits import register_hits
from pytest_cideldill.protocol import AddTrace
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import RowSink
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.template import parse_template
from pytest_cideldill.tracing.interface import OnEnd, OnStart

NAMES = {"return": "result", "raise": "exception"}
"""The name of the result, or of the exception, in messages and conditions."""

_getframe = sys._getframe

# Names that have no value in the call are deleted, so that they are unbound here too.
_STUB = """
def stub({names}see, frame, unbound):
{deletions}    return see(frame())
"""


Ended = Callable[[FrameType, object, BaseException | None], None]


class FunctionTraces:
    """The tracepoints on functions of this process."""

    def __init__(self, lens: Lens, overtime: Overtime, position: Position, rows: RowSink) -> None:
        self._lens = lens
        self._overtime = overtime
        self._position = position
        self._rows = rows
        self._known: list[AddTrace] = []

    @property
    def are_any(self) -> bool:
        """Whether there is one."""
        return bool(self._known)

    def add(self, trace: AddTrace) -> None:
        """Add one; it is bound when its code is loaded."""
        self._known.append(trace)

    def of(self, code: CodeType) -> list[AddTrace]:
        """Those on the calls of some code."""
        qualname = code.co_qualname.replace(".<locals>", "")
        mine = [spec for spec in self._known if spec.qualname.replace(".<locals>", "") == qualname]
        real = self._lens.project.real
        return [spec for spec in mine if real(file_now(code.co_filename)) == real(spec.file)]

    def handlers(self, code: CodeType, traces: list[AddTrace]) -> tuple[OnStart, OnEnd]:
        """What an event source calls at the calls of some code."""
        starts = [self._logging(trace, code) for trace in traces if trace.at == "call"]
        ends = [self._ending(trace, code) for trace in traces if trace.at != "call"]

        def on_start(frame: FrameType, _values: Mapping[str, Any]) -> object:
            for log in starts:
                log(frame)
            return True if ends else None

        def on_end(
            _token: object, frame: FrameType, result: object, error: BaseException | None
        ) -> None:
            for log in ends:
                log(frame, result, error)

        return on_start, on_end

    def _ending(self, trace: AddTrace, code: CodeType) -> Ended:
        names = [*code.co_varnames, *code.co_cellvars, *code.co_freevars, NAMES[trace.at]]
        names = list(dict.fromkeys(name for name in names if _is_name(name)))
        stub, unbound = _stub(names), object()
        log = self._logging(trace, stub)
        wants_error = trace.at == "raise"
        secret = self._lens.result_name(code.co_name)
        notice = self._lens.notice

        def ended(frame: FrameType, result: object, error: BaseException | None) -> None:
            if (error is not None) is not wants_error:
                return
            if secret and not wants_error:
                notice(result, secret)
            known = {**read_locals(frame), NAMES[trace.at]: error if wants_error else result}
            values = [known.get(name, unbound) for name in names]
            FunctionType(stub, frame.f_globals)(*values, log, _getframe, unbound)

        return ended

    def _logging(self, trace: AddTrace, code: CodeType) -> Callable[[FrameType], None]:
        """A function that logs a message for a frame of some code, if the condition holds."""
        overtime, lens, position, rows = self._overtime, self._lens, self._position, self._rows
        render = RenderedMessage(parse_template(trace.message), code, lens, overtime).text
        judge = None
        if trace.condition is not None:
            judge = judging(trace.condition, code, overtime)
        logged, failed = register_hits(rows, lens, trace, trace.qualname)
        add, now = rows.add, clock.ticking()
        next_pass, next_error = count(1).__next__, count(1).__next__

        def log(frame: FrameType) -> None:
            number, verdict, format = next_pass(), True if judge is None else judge(frame), logged
            if verdict is True:
                text = render(frame)
            elif type(verdict) is ConditionFailure and next_error() == 1:
                format, text = failed, f"<condition error: {verdict.text}>"
            else:
                return
            if len(text) > MAX_TEXT or format == failed:
                text = lens.text(text, MAX_TEXT)
            add((format, now(), position.nodeid, get_ident(), number, text))

        return log


def _stub(names: list[str]) -> CodeType:
    """Code with these names, in whose frame expressions run."""
    text = _STUB.format(
        names="".join(f"{name}, " for name in names),
        deletions="".join(f"    if {name} is unbound: del {name}\n" for name in names),
    )
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    code: CodeType = namespace["stub"].__code__
    return code


def _is_name(name: str) -> bool:
    """Whether it can be a parameter of the stub: those of comprehensions and its own can't."""
    return name.isidentifier() and not iskeyword(name) and name not in ("see", "frame", "unbound")
