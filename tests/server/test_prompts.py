"""Prompts over the protocol: where a session stands, one pause, and what is refused.

Prompts of real tests are in
`tests/together/test_resources.py`.
"""

from __future__ import annotations

import re
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.prompts import defined
from cideldill_mcp.replies import prose
from pytest_cideldill.protocol import Stopped
from tests.server.processes import Front, in_loop, pause_of
from tests.server.test_resources import ROOT, connected

SITE = {"file": "shop/cart.py", "line": 33}
CALL = {
    "method_name": "rate",
    "qualified_name": "shop.pricing.rate",
    "pretty_args": ["'BULK10'"],
    "pretty_kwargs": {"quantity": "5"},
    "signature": "(code, quantity=1)",
    "call_site": SITE,
}
PLACE = {"file": "shop/pricing.py", "line": 17, "function": "rate", "source": "    return 0"}
FRAMES = [
    {"location": PLACE, "function": "rate", "source": "    return 0"},
    {"location": SITE, "function": "Cart.total", "source": "x = rate()"},
    {"location": {"file": "test_cart.py", "line": 3}, "function": "test_it", "source": None},
]
EXCEPTION = {"type": "shop.cart.EmptyCart", "message": "nothing\nin it"}


async def text_of(client: Client, prompt: str, **arguments: str) -> str:
    """The text of a prompt, which is one message of the user."""
    reply = await client.get_prompt(prompt, arguments)
    (message,) = reply.messages
    assert message.role == "user"
    assert reply.description
    assert isinstance(message.content, types.TextContent)
    return message.content.text


async def paused(front: Front, **changes: Any) -> None:
    """A run with one pause, `r1.main.1`."""
    await front.start()
    (process,) = await front.live("main")
    pause = pause_of("main", 1, call_data=CALL, location=PLACE, locals={"code": "'BULK10'"})
    pause["frames"] = [PLACE, {**SITE, "function": "Cart.total", "source": "x = rate()"}]
    await process.send(Stopped(pause | changes))
    await front.until(lambda: any(run.pauses for run in front.runs))


@in_loop
async def test_all_are_listed_with_their_arguments() -> None:
    async with connected() as (_, client):
        listed = (await client.list_prompts()).prompts
        assert all(each.description for each in listed)
        reported = [
            (each.name, [(a.name, a.required) for a in each.arguments or ()]) for each in listed
        ]
    assert reported == [
        ("debug-session-start", []),
        ("inspect-paused-call", [("pause_id", True)]),
        ("triage-failing-test", [("nodeid", False)]),
    ]
    page = (ROOT / "docs" / "resources.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:–|`(\w+)`\??) \|", page, re.MULTILINE)
    assert rows == [(name, "".join(argument for argument, _ in given)) for name, given in reported]


@in_loop
async def test_a_session_that_has_nothing_yet_says_so() -> None:
    async with connected("triage") as (_, client):
        text = await text_of(client, "debug-session-start")
        assert "State: idle" in text
        for title in ("Paused tests", "Breakpoints (default behavior: stop)", "Recent calls"):
            assert title in text
        assert "- shop.rate(code), shop.py:1" in text
        assert "test_run" in text


@in_loop
async def test_a_session_is_reported_even_if_the_functions_are_not_known() -> None:
    async with connected() as (front, client):
        front.runs.recipe = Recipe(["no-such-python"], [])
        text = await text_of(client, "debug-session-start")
    assert "Functions: no-such-python could not be asked" in text
    assert "What can be done" in text


@in_loop
async def test_a_session_reports_breakpoints_and_pauses() -> None:
    async with connected() as (front, client):
        front.desired.add_function("shop.pricing.rate", "go", "code == 'BULK10'")
        await paused(front)
        lines = (await text_of(client, "debug-session-start")).splitlines()
        assert "- State: paused, run r1" in lines
        (known,) = (line for line in lines if line.startswith("- fn-1 "))
        assert "shop.pricing.rate: before go, after yield if code == 'BULK10'" in known
        (stop,) = (line for line in lines if line.startswith("- r1.main.1 "))
        assert "shop.pricing.rate('BULK10', quantity=5) at shop/pricing.py:17" in stop


@in_loop
async def test_a_session_stays_compact() -> None:
    """Long lists and long values are cut, and say how much there is."""
    async with connected() as (front, client):
        for number in range(300):
            front.desired.add_function(f"shop.f{number}", None, "x" * 1_000 + "\n== 1")
        text = await text_of(client, "debug-session-start")
        assert f"({defined.MAX_BREAKPOINTS} of 300)" in text
        assert len(text) < 8_000
        assert max(map(len, text.splitlines())) <= prose.MAX_LINE + 1


@in_loop
async def test_a_paused_call_is_reported_with_arguments_and_where_it_was_called() -> None:
    """Function, arguments, call site, stack trace."""
    async with connected() as (front, client):
        await paused(front)
        text = await text_of(client, "inspect-paused-call", pause_id=" r1.main.1 ")
    lines = text.splitlines()
    assert "- Test: test_main.py::test_x (call), run r1, main" in lines
    assert "- Why: breakpoint (fn-1), phase before" in lines
    assert "- Function: shop.pricing.rate(code, quantity=1)" in lines
    assert "- Arguments: 'BULK10', quantity=5" in lines
    assert "- Call site: shop/cart.py:33" in lines
    start = lines.index("Stack trace, innermost first:")
    assert lines[start + 1 : start + 3] == [
        "- shop/pricing.py:17 in rate: return 0",
        "- shop/cart.py:33 in Cart.total: x = rate()",
    ]
    assert "- code = 'BULK10'" in lines
    assert '"pause_id": "r1.main.1"' in text
    assert "fake_result" in text


@in_loop
async def test_a_failed_test_is_reported_with_its_exception_and_all_frames() -> None:
    """A pause without a call; the stack trace is that of its autopsy."""
    autopsy = {"exception": EXCEPTION, "frames": FRAMES}
    async with connected() as (front, client):
        await paused(
            front,
            call_data=None,
            breakpoint_id=None,
            pause_reason="test_failure",
            phase="post_mortem",
            autopsy=autopsy,
        )
        text = await text_of(client, "inspect-paused-call", pause_id="r1.main.1")
    lines = text.splitlines()
    assert "- Why: test_failure, phase post_mortem" in lines
    assert "- Function: rate" in lines
    assert "- Exception: shop.cart.EmptyCart: nothing …" in lines
    start = lines.index("Stack trace, innermost first:")
    assert lines[start + 1 : start + 4] == [
        "- shop/pricing.py:17 in rate: return 0",
        "- shop/cart.py:33 in Cart.total: x = rate()",
        "- test_cart.py:3 in test_it",
    ]
    assert "fake_result" not in text


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("after", "action skip (fake_result replaces the result) or raise:"),
        ("exception", "action skip (swallows it and returns fake_result) or raise"),
        ("line", "action raise:"),
        ("raise", "action raise (another one):"),
    ],
)
def test_what_may_be_changed_depends_on_the_phase(phase: str, words: str) -> None:

    @in_loop
    async def run() -> None:
        async with connected() as (front, client):
            await paused(front, phase=phase)
            text = await text_of(client, "inspect-paused-call", pause_id="r1.main.1")
            assert f"- the same with {words}" in text

    run()


@in_loop
async def test_what_no_client_can_read_is_made_readable() -> None:
    async with connected() as (front, client):
        await paused(front, locals={"name": "'name\udce9'"})
        text = await text_of(client, "inspect-paused-call", pause_id="r1.main.1")
    assert "- name = 'name\\udce9'" in text.splitlines()


@pytest.mark.parametrize(
    ("prompt", "arguments", "words"),
    [
        ("inspect-paused-call", {"pause_id": "r9.main.9"}, ["'r9.main.9'", "unknown", "r1.main.1"]),
        ("inspect-paused-call", {}, ["pause_id", "breakpoint_list_paused"]),
        ("inspect-paused-call", {"pause_id": " "}, ["pause_id"]),
        ("nothing", {}, ["'nothing'", "debug-session-start", "inspect-paused-call"]),
    ],
)
def test_what_is_not_there_is_refused_with_a_sentence(
    prompt: str, arguments: dict[str, str], words: list[str]
) -> None:
    """-32602."""

    @in_loop
    async def run() -> None:
        async with connected() as (front, client):
            await paused(front)
            with pytest.raises(MCPError) as caught:
                await client.get_prompt(prompt, arguments)
            assert caught.value.error.code == -32602
            assert all(word in caught.value.error.message for word in words)

    run()


@in_loop
async def test_a_pause_that_went_on_is_distinguished_from_one_that_never_was() -> None:
    async with connected() as (front, client):
        await paused(front)
        front.runs.get("r1").released("r1.main.1")
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("inspect-paused-call", {"pause_id": "r1.main.1"})
    assert "resumed already" in caught.value.error.message
    assert caught.value.error.data == {
        "error": "pause_not_found",
        "pause_id": "r1.main.1",
        "reason": "already_resumed",
    }


@in_loop
async def test_a_prompt_delivers_no_stop() -> None:
    """A client may show it to a person, or not at all."""
    async with connected() as (front, client):
        await paused(front)
        await text_of(client, "debug-session-start")
        await text_of(client, "inspect-paused-call", pause_id="r1.main.1")
        reply = await front.call("breakpoint_wait", timeout_ms=1)
        assert (reply["hit"], reply["pause_id"]) == (True, "r1.main.1")
