"""The prompt `triage-failing-test`: the known facts of one test, and the calls to make next.

Runs on the event loop. Tools are used by name only.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Container, Iterator
from itertools import islice
from typing import Any

from cideldill_mcp.replies.prose import joined, section, shown_exception, shown_frame
from cideldill_mcp.replies.render import dumps
from cideldill_mcp.runs.autopsies import siblings
from cideldill_mcp.runs.history import MAX_NAMES, Case, changes, find
from cideldill_mcp.runs.registry import Runs
from pytest_cideldill.protocol import PhaseReported
from pytest_cideldill.protocol.reducer import FAILED
from pytest_cideldill.sourcecode.quiet import parse_expression

MAX_CHARS = 4_000
MAX_NAME = 200
"""Characters: longer names and expressions are left out of calls, node ids lose parameters."""

MAX_FRAMES = 5
MAX_VALUES = 8
MAX_SHOWN = 3
MAX_OUTPUT = 4
"""Lines of each stream, the last ones."""

Call = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and the purpose of the call."""


async def failing_test(runs: Runs, asked: str, offered: Container[str]) -> str:
    """The text of the prompt.

    Args:
        asked: A node id or another name that `history.find` takes; empty: the last failure.
        offered: The names of the tools that the client has.

    Raises:
        Refusal: `no_run`, `test_not_found`.
    """
    case = find(runs, asked)
    head = list(_head(case))
    parts = {
        "Stack trace, innermost first": list(islice(_stack(case), MAX_FRAMES)),
        "Locals": list(islice(_locals(case), MAX_VALUES)),
        "Fixtures": list(islice(_fixtures(case), MAX_VALUES)),
        "Output, the last first": list(_output(case.report)),
    }
    changed = await changes(case, runs.recipe.rootdir)
    calls = [
        f"{tool} {json.dumps(arguments, ensure_ascii=False)}: {why}"
        for tool, arguments, why in _calls(case, offered)
        if tool in offered
    ]

    def text() -> str:
        shown = [line for title, lines in parts.items() if lines for line in section(title, lines)]
        facts = joined(*head, "", *shown, *section("What changed since it passed", changed))
        whole = "\n".join([facts, "", *section("What to call next", calls)]).rstrip()
        readable: str = json.loads(dumps(whole))
        return readable

    for lines in (*reversed(parts.values()), changed, head):  # the least useful first
        while lines and len(text()) > MAX_CHARS:
            lines.pop()
    return text()


# --- known facts --------------------------------------------------------------------------------


def _head(case: Case) -> Iterator[str]:
    yield (
        "Find out why a test fails, with the tools of this server: prove the cause by changing a "
        "call of a run, then mend it. Known facts:"
    )
    yield f"- Test: {case.test.nodeid}"
    yield f"- Outcome: {_outcome(case)}"
    if case.pause is not None:
        place = case.pause["location"]
        where = shown_frame(place, place["function"], place["source"])
        why = f"{case.pause['pause_reason']}, {case.pause['phase']}"
        yield f"- Paused now: {case.pause['id']} ({why}) at {where}"
    if case.failed is not None:
        yield from _failure(case, *case.failed)


def _outcome(case: Case) -> str:
    run, test = case.run, case.test
    end = run.end or {}
    if test.outcome is None and end.get("lastTest") == test.nodeid:
        return f"{end['kind']} in {run.id}: {end.get('message')}"
    outcome = test.outcome or ("running" if test.started_at is not None else "not known")
    again = f", attempt {len(test.reruns) + 1}" if test.reruns else ""
    return f"{outcome} in {run.id}, which is {run.state}{again}"


def _failure(case: Case, run: Any, report: PhaseReported) -> Iterator[str]:
    before = "" if run is case.run and case.test.outcome in FAILED else f", in {run.id}"
    yield f"- Exception ({report.phase}{before}): {_exception(report)}"
    if changed := run.results.changes.get(case.test.nodeid):
        yield f"- A client had changed: {'; '.join(changed)}"
    if assertion := case.autopsy.get("assertion"):
        yield f"- Assertion: {_assertion(assertion)}"
    if parameters := case.autopsy.get("parameters"):
        yield f"- Parameters: {', '.join(f'{name}={value}' for name, value in parameters.items())}"
        for outcome, names in siblings(run.results, case.test.nodeid).items():
            if others := [name for name in names if not case.test.nodeid.endswith(name)]:
                yield f"- Other parameters that {outcome}: {', '.join(others[:MAX_NAMES])}"
    group = run.results.group_of(report)
    alike = (test.nodeid for test in run.results.tests.values() if group and test.group == group)
    if others := [nodeid for nodeid in dict.fromkeys(alike) if nodeid != case.test.nodeid]:
        yield f"- {len(others)} more with the same cause: {', '.join(others[:MAX_NAMES])}"


def _exception(report: PhaseReported) -> str:
    if report.exception is not None:
        return shown_exception(report.exception)
    return (report.longrepr or "").strip().rpartition("\n")[2]


def _assertion(assertion: dict[str, Any]) -> str:
    if "op" not in assertion:
        return str(assertion.get("explanation"))
    op, comparison = assertion["op"], f"{assertion['left']} {assertion['op']} {assertion['right']}"
    left, right = assertion.get("leftExpression"), assertion.get("rightExpression")
    return f"{comparison}, of {left} {op} {right}" if left and right else comparison


def _stack(case: Case) -> Iterator[str]:
    for frame in case.autopsy.get("frames", ()):
        yield shown_frame(frame["location"], frame["function"], frame.get("source"))


def _locals(case: Case) -> Iterator[str]:
    """The locals of the pause, else of the frame of user code that failed."""
    if case.pause is not None:
        yield from (f"{name} = {value}" for name, value in case.pause["locals"].items())
    else:
        yield from (f"{variable['name']} = {variable['value']}" for variable in _variables(case))


def _variables(case: Case) -> list[dict[str, Any]]:
    """Arguments and variables of the frame of user code that failed."""
    frame = case.frame or {}
    variables = frame.get("variables") or {"locals": []}
    return [*(frame.get("arguments") or []), *variables["locals"]]


def _fixtures(case: Case) -> Iterator[str]:
    for fixture in case.autopsy.get("fixtures", ()):
        yield f"{fixture['name']} ({fixture['scope']}) = {fixture['value']}"


def _output(report: PhaseReported | None) -> Iterator[str]:
    for stream in ("log", "stderr", "stdout"):
        text = "" if report is None else getattr(report, stream).rstrip()
        for line in reversed(text.splitlines()[-MAX_OUTPUT:]):
            yield f"{stream}: {line}"


# --- calls to make ------------------------------------------------------------------------------


def _calls(case: Case, offered: Container[str]) -> Iterator[Call]:
    """The calls to make: ask, look, stop earlier, prove, confirm."""
    nodeid = case.test.nodeid
    if len(nodeid) <= MAX_NAME:
        yield "test_why", {"nodeid": nodeid}, "where it comes from, and the likeliest functions"
        why = "what it called, arguments and results; with function, each line of one call"
        yield "test_trace", {"nodeid": nodeid}, why
    yield from _look(case)
    again = {"nodeids": [_called(case.test.nodeid)], "replace": True}
    function = _compared(case.autopsy.get("assertion") or {}) or _raising(case)
    stops_at_calls = function is not None and "breakpoint_add" in offered
    line = _line(case)
    if stops_at_calls:
        yield "breakpoint_add", {"function_name": function}, "stop the next run before this call"
    elif line:
        yield "breakpoint_set", line, "stop the next run at the line that failed"
    ends = "" if case.run.is_over else f"; ends {case.run.id}"
    yield "test_run", again, f"in a fresh process; pauses there, or where it fails{ends}"
    at = {"pause_id": "…"}
    if stops_at_calls:
        proof = at | {"action": "skip", "fake_result": "…", "wait": True}
        yield "breakpoint_continue", proof, "at that pause: a verdict that flips proves the cause"
        yield "breakpoint_remove", {"function_name": function}, "it would stop later runs, too"
    elif line and "breakpoint_set" in offered:
        yield "debug_step", at | {"mode": "in"}, "at that pause: into the call on the line"
    if line:
        traced = again | {"tracepoints": [line | {"log_message": _template(case)}]}
        yield "test_run", traced, "or see values on the way, without a pause"
    yield "test_run", {"last_failed": True, "replace": True}, "after an edit"


def _look(case: Case) -> Iterator[Call]:
    if case.pause is None:
        if case.autopsy and len(case.test.nodeid) <= MAX_NAME:
            about = {"nodeid": case.test.nodeid}
            yield "exception_get_context", about, "all frames with their locals, fixtures, output"
        return
    at = {"pause_id": case.pause["id"]}
    left = (case.autopsy.get("assertion") or {}).get("leftExpression") or ""
    shown = left if 0 < len(left) <= MAX_NAME else "locals()"
    yield "breakpoint_repl_eval", at | {"expression": shown}, "in the frame that waits"
    if case.pause["phase"] != "post_mortem":
        yield "breakpoint_continue", at | {"wait": True}, "let it go on until it fails"


def _template(case: Case) -> str:
    """The message of a tracepoint with the first variables of the frame that failed."""
    names = [variable["name"] for variable in _variables(case) if variable["name"].isidentifier()]
    message = ", ".join(f"{name}={{{name}}}" for name in names[:MAX_SHOWN])
    return message if 0 < len(message) <= MAX_NAME else "here"


def _compared(assertion: dict[str, Any]) -> str | None:
    """The function whose result was compared, by its bare name."""
    for side in ("leftExpression", "rightExpression"):
        try:
            tree = parse_expression(assertion.get(side) or "")
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if not hasattr(builtins, name):
                    return name if len(name) <= MAX_NAME else None
                case ast.Call(func=ast.Attribute(attr=name)):
                    return name if len(name) <= MAX_NAME else None
    return None


def _raising(case: Case) -> str | None:
    """The function of user code that raised, unless it is the test itself."""
    if case.frame is None:
        return None
    file, function = case.frame["location"]["file"], str(case.frame["function"])
    is_named = all(part.isidentifier() for part in function.split("."))
    is_test = case.test.nodeid.partition("[")[0].replace("::", ".").endswith(f".{function}")
    name = f"{file}::{function}"
    return name if is_named and not is_test and len(name) <= MAX_NAME else None


def _line(case: Case) -> dict[str, Any]:
    """The place in user code where the test failed; empty if it is unknown."""
    place = {} if case.frame is None else case.frame["location"]
    has_name = 0 < len(place.get("file") or "") <= MAX_NAME
    return {"file": place["file"], "line": place["line"]} if has_name else {}


def _called(nodeid: str) -> str:
    """The node id of a test for `test_run`."""
    function = nodeid.partition("[")[0]
    return next((name for name in (nodeid, function) if len(name) <= MAX_NAME), ".")
