"""The sets of tools that a server offers, and the names in them (docs/tools.md)."""

from __future__ import annotations

import re

import pytest

from cideldill_mcp.prompts.guide import instructions
from cideldill_mcp.tools import profile
from pytest_cideldill.config.options import PROFILES
from pytest_cideldill.protocol import Stopped
from tests.server.processes import in_loop, pause_of
from tests.server.test_prompts import text_of
from tests.server.test_resources import call, connected

PRESENT = {
    "breakpoint_add",
    "breakpoint_continue",
    "breakpoint_list_breakpoints",
    "breakpoint_list_paused",
    "breakpoint_remove",
    "breakpoint_repl_eval",
    "debug_state",
    "test_list",
    "test_results",
    "test_run",
    "test_stop",
}
"""Tools that clients rely on: more may come, none may go."""


def names(of: str) -> list[str]:
    return [tool.name for tool in profile.tools(of)]


def test_the_full_profile_has_every_tool_once() -> None:
    """The default."""
    assert set(names("full")) >= PRESENT
    assert len(names("full")) == len(set(names("full")))


def test_the_plan_profile_is_for_breakpoints() -> None:
    assert set(names("plan")) == {
        name
        for name in names("full")
        if name.startswith(("breakpoint_", "tracepoint_"))
        or name in ("exception_get_context", "test_run", "debug_state")
    }


def test_the_triage_profile_is_for_failing_tests() -> None:
    """The tools for tests, and the few that go on from a stop."""
    others = {
        "exception_get_context",
        "breakpoint_wait",
        "breakpoint_continue",
        "breakpoint_repl_eval",
        "debug_state",
    }
    assert set(names("triage")) == {
        name for name in names("full") if name.startswith("test_") or name in others
    }


@pytest.mark.parametrize("of", PROFILES)
def test_every_profile_that_can_be_chosen_is_a_part_of_the_full_one(of: str) -> None:
    """In the same order, so that a client sees the first thing to use first."""
    assert names(of)
    assert names(of) == [name for name in names("full") if name in names(of)]
    assert names("full")[0].startswith("test_")


# --- what agents read of them -------------------------------------------------------------------

EVERY = frozenset(names("full"))


def tools_in(text: str) -> set[str]:
    return set(re.findall(r"\w+", text)) & EVERY


@pytest.mark.parametrize("of", PROFILES)
def test_descriptions_name_only_tools_that_are_offered(of: str) -> None:
    """A tool that an agent reads of and does not have costs it a call."""
    for tool in profile.tools(of):
        texts = (tool.about, *(param.about for param in tool.params))
        assert tools_in(" ".join(texts)) <= set(names(of)), tool.name


@pytest.mark.parametrize("of", PROFILES)
def test_the_instructions_lead_through_five_steps_with_what_is_offered(of: str) -> None:
    """At most 1,800 characters, for clients cut what is longer."""

    @in_loop
    async def run() -> None:
        async with connected(of) as (_, client):
            text = client.instructions or ""
        assert len(text) <= 1_800
        assert re.findall(r"^(\d)\. ", text, re.MULTILINE) == ["1", "2", "3", "4", "5"]
        assert "\nPitfalls:\n- " in text
        assert {"test_run", "breakpoint_repl_eval"} <= tools_in(text) <= set(names(of))
        assert set(re.findall(r"`(\w+)`", text)) == tools_in(text)

    run()


@pytest.mark.parametrize("of", PROFILES)
def test_parameters_that_the_instructions_name_exist(of: str) -> None:
    """`log_message` is one of a tracepoint in `test_run`."""
    words = set(re.findall(r"\b[a-z]+_[a-z_]+\b", instructions(names(of)))) - EVERY
    params = {param.name for tool in profile.tools(of) for param in tool.params}
    assert words <= params | {"max_chars", "next_after", "log_message"}


def test_next_steps_are_those_that_a_client_can_take() -> None:
    """A profile without breakpoints does not propose them."""

    @in_loop
    async def run() -> None:
        async with connected("triage") as (front, client):
            await front.start()
            (process,) = await front.live("main")
            pause = pause_of("main", 1, phase="post_mortem")
            await process.send(Stopped(pause))
            await front.until(lambda: bool(front.runs.get("r1").pauses))
            steps = (await call(client, "debug_state"))["next"]
            whole = (await front.call("debug_state"))["next"]
            session = await text_of(client, "debug-session-start")
        assert tools_in(" ".join(steps)) <= set(names("triage"))
        assert [step for step in whole if step not in steps] == [
            step for step in whole if step.startswith("breakpoint_add ")
        ]
        assert all((f"- {step}" in session) == (step in steps) for step in whole)

    run()
