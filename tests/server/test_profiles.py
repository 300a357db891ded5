"""Which tools a server offers: contract, section 1, rule 10, and the names of sections 2 to 5."""

from __future__ import annotations

import pytest

from cideldill_mcp.tools import profile
from pytest_cideldill.settings import PROFILES

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
"""The tools of issue 2. Later issues add; they take none away."""


def names(of: str) -> list[str]:
    return [tool.name for tool in profile.tools(of)]


def test_the_full_profile_has_every_tool_once() -> None:
    """The default."""
    assert set(names("full")) >= PRESENT
    assert len(names("full")) == len(set(names("full")))


def test_the_plan_profile_is_for_breakpoints() -> None:
    """Sections 2 and 3, `test_run`, `debug_state`."""
    assert set(names("plan")) == {
        name
        for name in names("full")
        if name.startswith(("breakpoint_", "tracepoint_"))
        or name in ("exception_get_context", "test_run", "debug_state")
    }


def test_the_triage_profile_is_for_failing_tests() -> None:
    """Section 5 and the few tools that go on from a stop."""
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
