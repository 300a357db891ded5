"""`cideldill-mcp demo`: the SDK's client debugs a shop with a bug, and prints a transcript.

Owns the calls of tools, and the transcript of their replies. Its conclusions come from the replies
alone, and an unexpected reply ends it. It is a client of the server, in a process of its own.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import sys
import textwrap
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent

from cideldill_mcp.processes.private_directory import NoScratch, make_folder

CALL_S = 60.0
"""Seconds; the limit of one tool call."""

COLUMNS = 100

SUSPECT = "shop.pricing.rate"
ALL_RATES = "from shop import pricing; {code: str(pricing.rate(code)) for code in pricing._RATES}"
RIGHT_RATE = "str(1 - Decimal(expected) / sum(item.subtotal() for item in cart.items))"


class Surprise(Exception):
    """An unexpected reply; the message says which one and why."""


@dataclass(frozen=True, slots=True)
class DemoFailure:
    """The failed test, paused: its `coupon`, the wrong `rate` for it, and the `right` one."""

    nodeid: str
    coupon: str
    rate: str
    right: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The call whose result decides the verdict: `file` is relative to the shop."""

    call: str
    file: str
    line: int


def find_shop() -> Path:
    """The example of the checkout that this file is in, else the copy shipped beside it."""
    here = Path(__file__).resolve().parent
    in_checkout = here.parents[1] / "examples" / "shop"
    if here.parent.name == "mcp_server" and in_checkout.is_dir():
        return in_checkout
    return here / "demo_shop"


def debug(shop: Path) -> int:
    """Show a debugging session on a temporary copy of a shop.

    Returns:
        0 when the cause was proven and the fix confirmed, else 1.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # values may not fit the terminal's encoding
    try:
        folder = make_folder("cideldill-demo-")
    except NoScratch as error:
        say(f"The demo can't start: {error}")
        return 1
    code = 1
    try:
        leftovers = shutil.ignore_patterns("__pycache__", ".*")
        copy = shutil.copytree(shop, Path(folder, "shop"), ignore=leftovers)
        try:
            code = anyio.run(_session, copy)
        except* (MCPError, OSError) as group:  # the client's task groups wrap errors
            say(f"\nThere is no server to talk to: {_innermost(group)}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _session(shop: Path) -> int:
    arguments = ["-m", "pytest", "--cideldill-mcp"]
    say(f"$ python {' '.join(arguments)}")
    say("The MCP client of the SDK started this server in a copy of the example shop.")
    # The SDK's client passes only a few variables; these locate programs and temporary files.
    env = {name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR") if name in os.environ}
    server = StdioServerParameters(command=sys.executable, args=arguments, cwd=shop, env=env)
    async with Client(server) as client:
        try:
            await _triage(Agent(client), shop)
        except (Surprise, MCPError) as error:
            say(f"\nNot what the demo expected: {error}")
            return 1
        except (LookupError, SyntaxError, TypeError, ValueError) as error:
            say(f"\nThe demo does not understand this reply: {error!r}")
            return 1
    return 0


class Agent:
    """Calls one tool after the other and writes the transcript."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = itertools.count(1)

    def plans(self, why: str) -> None:
        """Begin the next step."""
        say(f"\n{next(self._numbers)}. {why}")

    async def asks(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool. Raises Surprise: the tool refused."""
        say(f"{tool} {json.dumps(arguments, ensure_ascii=False) if arguments else ''}", "call")
        result = await self._client.call_tool(tool, arguments, read_timeout_seconds=CALL_S)
        (content,) = result.content
        assert isinstance(content, TextContent)
        body: dict[str, Any] = json.loads(content.text)
        if result.is_error:
            raise Surprise(f"{tool} refused: {body['error']}: {body['message']}")
        return body


def say(text: str, label: str = "") -> None:
    """Print wrapped lines; with a label indented, the label once in front."""
    indent = " " * 10 if label else ""
    first = f"   {label:7}" if label else ""
    for line in text.rstrip(" ").split("\n"):
        wrapped = textwrap.wrap(
            line, COLUMNS, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
        )
        print("\n".join(wrapped), flush=True)
        first = indent


def check(holds: bool, otherwise: str) -> None:
    """Check an expectation about a reply. Raises Surprise: the reply does not fit."""
    if not holds:
        raise Surprise(otherwise)


async def _triage(agent: Agent, shop: Path) -> None:
    """From a failing test to a proven cause and a confirmed fix."""
    failure = await _fail(agent)
    proof = await _prove(agent, failure)
    await _fix(agent, shop, failure, proof)
    say(
        f"\nCause: {proof.file}:{proof.line}, {proof.call} gave {failure.rate}, not "
        f"{failure.right} (proven; fix confirmed)."
    )


async def _fail(agent: Agent) -> DemoFailure:
    agent.plans("Run all tests. The run pauses where one fails, fixtures alive.")
    reply = await agent.asks("test_run")
    check(reply["state"] == "paused", f"the run is {reply['state']}, no test paused as it failed")
    stop = reply["stops"][-1]
    autopsy, place = stop["autopsy"], stop["location"]
    parameters = autopsy["parameters"]
    say(f"{reply['state']} after {counted(reply)}: {stop['nodeid']}", "reply")
    exception = autopsy["exception"]
    say(f"{exception['type']}: {exception['message'].splitlines()[0]}", " ")
    source = autopsy["frames"][autopsy.get("userFrameIndex", 0)]["source"]
    say(f"{place['file']}:{place['line']} in {place['function']}: {source}", " ")
    say(f"parameters: {', '.join(f'{name}={value}' for name, value in parameters.items())}", " ")
    say(f"log: {autopsy['log'].strip()}", " ")

    coupon = literal_eval(parameters["coupon"])
    agent.plans("The total is a price times a rate. Which rates are there, on the paused thread?")
    rates = literal_eval(await _evaluate(agent, stop["pause_id"], ALL_RATES))
    agent.plans("Which rate would satisfy the test?")
    right = literal_eval(await _evaluate(agent, stop["pause_id"], RIGHT_RATE))
    check(rates[coupon] != right, f"the rate of {coupon} is {right} as it should be")
    return DemoFailure(stop["nodeid"], coupon, rates[coupon], right)


async def _evaluate(agent: Agent, pause_id: str, expression: str) -> str:
    reply = await agent.asks("breakpoint_repl_eval", pause_id=pause_id, expression=expression)
    output = str(reply["output"])
    say(output, "reply")
    check(not reply["is_error"], f"the evaluation raised {output}")
    return output


async def _prove(agent: Agent, failure: DemoFailure) -> Proof:
    agent.plans(f"Suspicion: {failure.rate} for {failure.coupon}. Stop at the call that gives it.")
    added = await agent.asks(
        "breakpoint_add", function_name=SUSPECT, condition=f"code == {failure.coupon!r}"
    )
    say(f"{added['id']} watches {', '.join(added['functions']) or 'nothing'}", "reply")
    check(added["verified"], f"{SUSPECT} was not found")

    agent.plans("Run the failed test afresh; the old run ends.")
    reply = await agent.asks("test_run", nodeids=[failure.nodeid], replace=True)
    check(reply["state"] == "paused", f"the run is {reply['state']}, it did not stop at the call")
    stop = reply["stops"][-1]
    call_data, place = stop["call_data"], stop["location"]
    call = f"{call_data['qualified_name']}({', '.join(call_data['pretty_args'])})"
    site = f"{call_data['call_site']['file']}:{call_data['call_site']['line']}"
    say(f"{reply['state']} {stop['phase']} {call}, {place['file']}:{place['line']}", "reply")
    say(f"called from {site}", " ")
    check(stop["breakpoint_id"] == added["id"], "it stopped for another reason")

    agent.plans("What if that call had given the right rate? Skip it; no file is edited.")
    reply = await agent.asks(
        "breakpoint_continue",
        pause_id=stop["pause_id"],
        action="skip",
        fake_result={"$eval": f"Decimal({failure.right!r})"},
        wait=True,
    )
    say(f"{reply['state']}, exit code {reply.get('exit_code')}: {counted(reply)}", "reply")
    for step in reply["next"]:
        say(step, " ")
    check(reply.get("exit_code") == 0, "the verdict did not flip: the cause is elsewhere")
    check(reply["outcomes"] == {"passed": 1, "failed": 0}, "more than the one test has a verdict")
    return Proof(call, place["file"], place["line"])


async def _fix(agent: Agent, shop: Path, failure: DemoFailure, proof: Proof) -> None:
    agent.plans(f"Proven. Fix {proof.file}.")
    path = shop / proof.file
    lines = path.read_text(encoding="utf-8").split("\n")
    wanted = f'"{failure.coupon}"', f'"{failure.rate}"'
    matching = [number for number, line in enumerate(lines) if all(word in line for word in wanted)]
    check(len(matching) == 1, f"{len(matching)} lines of {proof.file} hold {' and '.join(wanted)}")
    (number,) = matching
    say(f"{number + 1} - {lines[number].strip()}", "edit")
    lines[number] = lines[number].replace(failure.rate, failure.right)
    say(f"{number + 1} + {lines[number].strip()}", " ")
    path.write_text("\n".join(lines), encoding="utf-8")

    agent.plans("Confirm: without the breakpoint, in a fresh process that loads the edit.")
    removed = await agent.asks("breakpoint_remove", function_name=SUSPECT)
    say(str(removed["status"]), "reply")
    reply = await agent.asks("test_run", last_failed=True)
    say(f"{reply['state']}, exit code {reply.get('exit_code')}: {counted(reply)}", "reply")
    check(reply.get("exit_code") == 0 and reply["outcomes"]["passed"] > 0, "the fix did not help")


def counted(reply: dict[str, Any]) -> str:
    """`2 passed, 1 failed`."""
    return ", ".join(f"{count} {outcome}" for outcome, count in reply["outcomes"].items())
