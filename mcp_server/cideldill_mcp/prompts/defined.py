"""The prompts: the state of a session, one pause, or a failing test, as a text for a model.

Runs on the event loop. Tools are used by name only. A stop in a prompt does not count as sent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from cideldill_mcp.prompts.triage import failing_test
from cideldill_mcp.replies import prose
from cideldill_mcp.replies.render import MAX_MAX_CHARS, dumps
from cideldill_mcp.runs.registry import Runs
from pytest_cideldill.errors import Refusal

SESSION = "debug-session-start"
PAUSE = "inspect-paused-call"
TEST = "triage-failing-test"

MAX_BREAKPOINTS = 20
MAX_PAUSES = 10
MAX_CALLS = 10
MAX_FUNCTIONS = 20

Read = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Returns the reply of a tool as text, by its name and arguments."""

_PROMPTS = (
    types.Prompt(
        name=SESSION,
        title="Start debugging",
        description="The state of the debugging session: breakpoints, paused tests, recent calls, "
        "functions, and possible next steps.",
    ),
    types.Prompt(
        name=PAUSE,
        title="Inspect a paused call",
        description="One pause: function, arguments, call site, stack trace, and how to go on.",
        arguments=[
            types.PromptArgument(
                name="pause_id", description="Of a pause, as r1.main.1", required=True
            )
        ],
    ),
    types.Prompt(
        name=TEST,
        title="Triage a failing test",
        description="One test: how it failed, changes since it passed, the calls to make next.",
        arguments=[
            types.PromptArgument(
                name="nodeid",
                description="Of the test, or a part of it that no other has. Default: the one that "
                "is paused or failed last",
                required=False,
            )
        ],
    ),
)


class Prompts:
    """The prompts of a server.

    Args:
        read: Calls any tool, offered to the client or not.
        offered: The names of the tools that the client has.
    """

    def __init__(self, read: Read, runs: Runs, offered: Container[str]) -> None:
        self._read = read
        self._runs = runs
        self._offered = offered

    def definitions(self) -> list[types.Prompt]:
        """The list for `prompts/list`."""
        return list(_PROMPTS)

    async def get(self, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
        """The text for `prompts/get`.

        Raises:
            MCPError: There is no such prompt, or an argument is missing.
            Refusal: `pause_not_found`, `no_run`, `test_not_found`.
        """
        if name == SESSION:
            return _result("A debugging session", await self._session())
        if name == PAUSE:
            pause_id = arguments.get("pause_id", "").strip()
            if not pause_id:
                raise _invalid(
                    f"the prompt {PAUSE} needs the argument pause_id; "
                    "breakpoint_list_paused shows the pauses"
                )
            return _result(f"The pause {pause_id}", self._pause(pause_id))
        if name == TEST:
            nodeid = arguments.get("nodeid", "").strip()
            text = await failing_test(self._runs, nodeid, self._offered)
            return _result(f"The test {nodeid}" if nodeid else "The test that failed last", text)
        names = ", ".join(prompt.name for prompt in _PROMPTS)
        raise _invalid(f"no prompt {name!r}; there are: {names}")

    async def _session(self) -> str:
        state = await self._body("debug_state")
        listed = await self._body("breakpoint_list")
        chosen = await self._body("breakpoint_list_breakpoints")
        default = await self._body("breakpoint_get_default_behavior")
        paused = await self._body("breakpoint_list_paused")
        records = await self._body("breakpoint_get_call_records", limit=MAX_CALLS)
        breakpoints = [_breakpoint(item, chosen) for item in listed["breakpoints"]]
        calls = [_call(item) for item in records["calls"]]
        pauses = [_pause(item) for item in paused["paused"]]
        return prose.joined(
            "Debug pytest tests with the tools of this server. Here is where the session stands.",
            *_where(state),
            "",
            *prose.section("Paused tests", pauses[:MAX_PAUSES], paused["total_count"]),
            *prose.section(
                f"Breakpoints (default behavior: {default['behavior']})",
                breakpoints[:MAX_BREAKPOINTS],
                listed["total_count"],
            ),
            *prose.section("Recent calls, the newest last", calls, records["total_count"]),
            *await self._functions(),
            *prose.section("What can be done", prose.possible(state["next"], self._offered)),
        )

    async def _functions(self) -> list[str]:
        try:
            listed = await self._body("breakpoint_list_functions", limit=MAX_FUNCTIONS)
        except Refusal as refusal:  # the rest of the text is useful without it
            return [f"Functions: {refusal.message}", ""]
        shown = [_function(name, listed) for name in listed["functions"]]
        return list(prose.section("Functions", shown, listed["total_count"]))

    async def _body(self, tool: str, **arguments: Any) -> dict[str, Any]:
        # The prompt counts what it leaves out by itself.
        whole = {**arguments, "max_chars": MAX_MAX_CHARS}
        body: dict[str, Any] = json.loads(await self._read(tool, whole))
        return body

    def _pause(self, pause_id: str) -> str:
        run, _ = self._runs.owner_of(pause_id)
        pause = json.loads(dumps(run.pauses[pause_id]))
        call, autopsy = pause.get("call_data"), pause.get("autopsy") or {}
        exception = autopsy.get("exception") or (call or {}).get("exception")
        go_on = f'breakpoint_continue {{"pause_id": "{pause_id}", "wait": true}}'
        return prose.joined(
            f"Inspect the pause {pause_id} with the tools of this server; find out what is wrong, "
            "and why. The test waits for you.",
            *_facts(pause, call, exception),
            "",
            *prose.section("Stack trace, innermost first", _stack(pause)),
            *prose.section(
                "Locals", (f"{name} = {value}" for name, value in pause["locals"].items())
            ),
            *prose.section(
                "What can be done",
                [
                    f'breakpoint_repl_eval {{"pause_id": "{pause_id}", "expression": "…"}}: '
                    "evaluate in the paused frame (frame_index: 1 is its caller)",
                    f"{go_on}: let it go on, and wait for the next stop or the verdict",
                    *_proof(pause["phase"]),
                ],
            ),
        )


_CHANGES = {
    "before": "modified_args, modified_kwargs, a replacement_function, or action skip (returns "
    "fake_result) or raise",
    "after": "action skip (fake_result replaces the result) or raise",
    "exception": "action skip (swallows it and returns fake_result) or raise (another one)",
    "raise": "action raise (another one)",
    "line": "action raise",
}
"""Phase → the changes that a client may make when the call goes on."""


def _proof(phase: str) -> Iterator[str]:
    if changes := _CHANGES.get(phase):
        yield f"the same with {changes}: prove a cause without an edit"


def _facts(
    pause: dict[str, Any], call: dict[str, Any] | None, exception: dict[str, Any] | None
) -> Iterator[str]:
    place = pause["location"]
    yield f"- Test: {pause['nodeid']} ({pause['when']}), run {pause['run_id']}, {pause['worker']}"
    cause = f" ({pause['breakpoint_id']})" if pause["breakpoint_id"] else ""
    yield f"- Why: {pause['pause_reason']}{cause}, phase {pause['phase']}"
    if call:
        yield f"- Function: {call['qualified_name']}{call.get('signature') or ''}"
        yield f"- Arguments: {prose.shown_arguments(call) or 'none'}"
        site = call.get("call_site")
        yield f"- Call site: {prose.shown_place(site) if site else 'unknown'}"
    else:
        yield f"- Function: {place['function']}"
    if call and "pretty_result" in call:
        yield f"- Result: {call['pretty_result']}"
    if exception:
        yield f"- Exception: {prose.shown_exception(exception)}"


def _stack(pause: dict[str, Any]) -> Iterator[str]:
    """The lines of a stack: the frames of the autopsy, else those in user code."""
    if "autopsy" in pause:
        for frame in pause["autopsy"]["frames"]:
            yield prose.shown_frame(frame["location"], frame["function"], frame.get("source"))
    for place in pause.get("frames", ()):
        yield prose.shown_frame(place, place["function"], place["source"])


def _where(state: dict[str, Any]) -> Iterator[str]:
    if state["rootdir"]:
        yield f"- Rootdir: {state['rootdir']}"
    outcomes = ", ".join(f"{count} {name}" for name, count in state["outcomes"].items())
    run = f", run {state['run_id']}" if "run_id" in state else ""
    yield f"- State: {state['state']}{run}{': ' if outcomes else ''}{outcomes}"


def _breakpoint(item: dict[str, Any], chosen: dict[str, Any]) -> str:
    name = item.get("function_name")
    if name is not None:
        after, instead = chosen["after_behaviors"].get(name), chosen["replacements"].get(name)
        place = f"{name}: before {item['behavior']}, after {after}"
        place += f", replaced by {instead}" if instead else ""
    else:
        place = f"{item['file']}:{item['line']}" if item["file"] else str(item.get("exceptionType"))
    message = f" logging {item['logMessage']!r}" if item.get("logMessage") else ""
    condition = f" if {item['condition']}" if item["condition"] else ""
    return f"{item['id']} ({item['type']}, {item['state']}) {place}{condition}{message}"


def _pause(pause: dict[str, Any]) -> str:
    call, place = pause["call_data"], pause["location"]
    what = f"{call['qualified_name']}({prose.shown_arguments(call)})" if call else place["function"]
    reason = f"{pause['pause_reason']}, {pause['phase']}"
    return f"{pause['id']} ({reason}) {what} at {prose.shown_place(place)}, in {pause['nodeid']}"


def _call(record: dict[str, Any]) -> str:
    if record["status"] == "exception" and record.get("exception"):
        end = f"raised {prose.shown_exception(record['exception'])}"
    elif record["status"] == "success":
        end = f"→ {record.get('pretty_result')}"
    else:
        end = str(record["status"])
    return f"{record['qualified_name']}({prose.shown_arguments(record)}) {end}"


def _function(name: str, listed: dict[str, Any]) -> str:
    place = listed["metadata"].get(name) or {}
    where = f", {place['file']}:{place['line']}" if place.get("file") else ""
    return f"{name}{listed['signatures'].get(name) or ''}{where}"


def _result(about: str, text: str) -> types.GetPromptResult:
    content = types.TextContent(type="text", text=text)
    message = types.PromptMessage(role="user", content=content)
    return types.GetPromptResult(description=about, messages=[message])


def _invalid(message: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=message)
