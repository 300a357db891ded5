"""Why a question's process gives no answer: the refusal that is made of what it left."""

from __future__ import annotations

import re
from contextlib import suppress

from cideldill_mcp.breakpoints.nearest import nearest
from cideldill_mcp.questions.asking.registry import Question, SideRun
from cideldill_mcp.questions.recordings.recorded import Recorded
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

_PLACE = re.compile(r'^E +File ".*", line ([0-9]+)$', re.MULTILINE)

MAX_OUTPUT = 400
"""Characters of the last output of a process, in a refusal."""


def unanswered(
    question: Question, request: TraceRequest, run: SideRun, recorded: Recorded
) -> Refusal:
    """The refusal of a question whose test has not begun, or whose process refused it."""
    if recorded.refusal is not None:
        code, text = recorded.refusal
        # All that such a process takes and can refuse is the function.
        named = {"parameter": "function", "expected": "a function that can be traced"}
        with suppress(ValueError):
            known = ErrorCode(code)
            return Refusal(known, text, **named if known is ErrorCode.INVALID_PARAMETER else {})
        return Refusal(ErrorCode.INTERNAL_ERROR, f"{code}: {text}")
    if recorded.missing and not recorded.uncollected:
        return _not_found(recorded)
    if run.cut is not None:
        return _cut(question, run)
    if recorded.uncollected:
        refusal = _uncollected(*recorded.uncollected[0])
    else:
        refusal = _failed(request, run, recorded, question.python)
    hide = question.redactor.redact_text
    more = {name: hide(text) for name, text in refusal.extra.items()}
    return Refusal(refusal.code, hide(refusal.message), **more)


def _not_found(recorded: Recorded) -> Refusal:
    name = recorded.missing[0]
    near = nearest([name], recorded.beside, recorded.rootdir or None).get(name, [])
    hint = f"did you mean {' or '.join(near)}?" if near else "pytest --collect-only -q lists them"
    more = {"nearest": near} if near else {}
    return Refusal(ErrorCode.TEST_NOT_FOUND, f"no test {name!r}; {hint}", nodeid=name, **more)


def _cut(question: Question, run: SideRun) -> Refusal:
    how = "was stopped" if run.cut == "stopped" else f"has taken its {question.timeout_s:g} s"
    where = (
        "the test had not begun"
        if run.file
        else "other questions had all processes that may work at a time"
    )
    way_out = "" if run.cut == "stopped" else "; give it more time (timeout_s)"
    return Refusal(ErrorCode.NOT_LIVE, f"{question.id} {how}, and {where}{way_out}")


def _uncollected(file: str, text: str) -> Refusal:
    return Refusal(
        ErrorCode.NOT_LIVE,
        f"{file} can't be collected: {last_line(text)}",
        output=text[-MAX_OUTPUT:],
    )


def _failed(request: TraceRequest, run: SideRun, recorded: Recorded, python: str) -> Refusal:
    """The process ended before the test began."""
    said = run.err.strip() or run.out.strip()
    code = run.returncode
    how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
    asked = request.nodeids[0] if request.nodeids else "a test"
    message = f"the process ended ({how}) before {asked} began: {last_line(said)}"
    if not recorded.rootdir:
        message = (
            f"{python} has not recorded anything ({how}): is pytest-cideldill installed for it? "
            f"{last_line(said)}"
        )
    return Refusal(ErrorCode.NOT_LIVE, message, output=said[-MAX_OUTPUT:])


def last_line(text: str) -> str:
    """The last line about an error, else the last one: pytest prints its rootdir below errors."""
    lines = [line.removeprefix("E  ").strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line]
    last = (errors or lines or ["it printed nothing"])[-1]
    if "SyntaxError" in last or "IndentationError" in last or "TabError" in last:
        places = _PLACE.findall(text)
        last += f" (line {places[-1]})" if places else ""
    return last
