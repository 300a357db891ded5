"""Breakpoints listed, added and removed, behaviors, replacements.

What counts is what the test under debug received; see `ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.together import ledger
from tests.together.ledger import (
    AFTER,
    AFTER_AND_EXCEPTION,
    BEFORE,
    BEFORE_AND_EXCEPTION,
    EXCEPTION,
    PAIR,
    PLAIN,
    stepwise,
)
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full


def listing(bench: Bench) -> dict[str, Any]:
    """`breakpoint_list_breakpoints`, without that of the checkpoint."""
    reported = bench.agent.call("breakpoint_list_breakpoints")
    names = [name for name in reported["breakpoints"] if name != "shop.checkpoint"]
    kept = {
        key: {name: value for name, value in reported[key].items() if name != "shop.checkpoint"}
        for key in ("behaviors", "after_behaviors", "replacements")
    }
    return {"breakpoints": names, **kept}


def after(bench: Bench, behavior: str, name: str = "price") -> dict[str, Any]:
    return bench.agent.call("breakpoint_set_after_behavior", function_name=name, behavior=behavior)


def replace(bench: Bench, by: str, name: str = "price") -> dict[str, Any]:
    return bench.agent.call(
        "breakpoint_set_replacement", function_name=name, replacement_function=by
    )


def test_a_fresh_server_lists_nothing_and_leaves_the_test_alone(tmp_path: Path) -> None:
    """Then the first breakpoint stops before calls, by default."""
    with workbench(tmp_path / "project") as bench:
        assert listing(bench) == {
            "breakpoints": [],
            "behaviors": {},
            "after_behaviors": {},
            "replacements": {},
        }
        functions = bench.agent.call("breakpoint_list_functions")
        assert (functions["functions"], functions["signatures"]) == ([], {})
        assert bench.agent.call("breakpoint_list_paused")["paused"] == []
        assert bench.agent.call("breakpoint_get_default_behavior") == {"behavior": "stop"}
        assert ledger.start(bench, *PAIR)["state"] == "finished"
        assert ledger.received(bench) == PLAIN
        assert bench.agent.call("breakpoint_list_paused")["paused"] == []
        records = bench.agent.call("breakpoint_get_call_records")
        assert (records["calls"], records["total_count"]) == ([], 0)
        bench.breakpoint("price")
        assert ledger.marked(bench, *PAIR) == BEFORE


def test_what_is_listed_is_what_the_test_meets(bench: Bench) -> None:
    """Behaviors and replacements, in the list and in what calls give."""

    def set_two() -> None:
        bench.breakpoint("shop.price", behavior="go")
        after(bench, "exception", "shop.price")
        bench.breakpoint("shop.cheap")
        assert listing(bench) == {
            "breakpoints": ["shop.cheap", "shop.price"],
            "behaviors": {"shop.cheap": "yield", "shop.price": "go"},
            "after_behaviors": {"shop.cheap": "yield", "shop.price": "exception"},
            "replacements": {},
        }

    def replace_one() -> None:
        replace(bench, "shop.cheap", "shop.price")
        assert listing(bench)["replacements"] == {"shop.price": "shop.cheap"}

    assert stepwise(bench, set_two, replace_one, calls=(*PAIR, "cheap(4)")) == [
        [*EXCEPTION, 40],
        [20, -10, 40],  # what is called instead stops as any call of it does
    ]


def test_breakpoints_are_added_once_or_not_at_all(bench: Bench) -> None:
    ids: list[str] = []

    def refuse() -> None:
        missing = bench.agent.refused("breakpoint_add", behavior="stop")
        assert (missing["error"], missing["parameter"]) == ("missing_parameter", "function_name")
        invalid = bench.agent.refused("breakpoint_add", function_name="price", behavior="explode")
        assert invalid["error"] == "invalid_behavior"
        assert listing(bench)["breakpoints"] == []

    def add() -> None:
        added = bench.breakpoint("price")
        assert (added["status"], added["function_name"]) == ("ok", "price")
        assert added["functions"] == ["shop.price"]
        ids.append(added["id"])

    def add_with_behavior() -> None:
        ids.append(bench.breakpoint("price", behavior="go")["id"])
        assert listing(bench)["behaviors"] == {"price": "go"}

    def add_again() -> None:
        ids.extend(bench.breakpoint("price", behavior="stop")["id"] for _ in range(2))
        assert listing(bench)["breakpoints"] == ["price"]

    assert stepwise(bench, refuse, add, add_with_behavior, add_again) == [
        PLAIN,
        BEFORE,
        PLAIN,
        BEFORE,  # twice, it would be 600
    ]
    assert len(set(ids)) == 1


def test_what_is_removed_leaves_nothing_behind(bench: Bench) -> None:

    def set_everything() -> None:
        bench.breakpoint("price", behavior="go")
        after(bench, "stop")
        replace(bench, "shop.cheap")

    def remove_others() -> None:
        reply = bench.agent.call("breakpoint_remove", function_name="never.added")
        assert (reply["status"], reply["success"]) == ("ok", True)

    def remove() -> None:
        reply = bench.agent.call("breakpoint_remove", function_name="price")
        assert (reply["status"], reply["function_name"]) == ("ok", "price")
        assert listing(bench)["breakpoints"] == []

    def add_again() -> None:
        bench.breakpoint("price")
        reported = listing(bench)
        assert (reported["behaviors"], reported["after_behaviors"]) == (
            {"price": "yield"},
            {"price": "yield"},
        )
        assert reported["replacements"] == {}

    replaced = [["after", 2], ["after", -1]]
    assert stepwise(bench, set_everything, remove_others, remove, add_again) == [
        replaced,
        replaced,
        PLAIN,
        BEFORE,
    ]


def test_behaviors_before_calls(bench: Bench) -> None:
    """`yield` is as the default."""

    def setting(behavior: str, default: str = "stop") -> Callable[[], None]:
        def act() -> None:
            bench.agent.call("breakpoint_set_default_behavior", behavior=default)
            reply = bench.agent.call(
                "breakpoint_set_behavior", function_name="price", behavior=behavior
            )
            assert reply == {"status": "ok", "function_name": "price", "behavior": behavior}

        return act

    def refuse() -> None:
        for name, behavior, error in (
            ("price", "exception", "invalid_behavior"),
            ("price", "", "missing_parameter"),
            ("cheap", "stop", "breakpoint_not_found"),
            ("cheap", "exception", "invalid_behavior"),
        ):
            refused = bench.agent.refused(
                "breakpoint_set_behavior", function_name=name, behavior=behavior
            )
            assert refused["error"] == error

    bench.breakpoint("price")
    assert stepwise(
        bench,
        setting("stop", "go"),
        setting("go"),
        refuse,
        setting("yield"),
        setting("yield", "go"),
        calls=(*PAIR, "cheap(1)"),
    ) == [[*each, 1] for each in (BEFORE, PLAIN, PLAIN, BEFORE, PLAIN)]


def test_behaviors_after_calls(bench: Bench) -> None:
    """`yield` is as the default."""

    def setting(behavior: str, default: str = "go") -> Callable[[], None]:
        def act() -> None:
            bench.agent.call("breakpoint_set_default_behavior", behavior=default)
            reply = after(bench, behavior)
            assert reply == {"status": "ok", "function_name": "price", "behavior": behavior}

        return act

    def refuse() -> None:
        for name, behavior, error in (
            ("price", "explode", "invalid_behavior"),
            ("cheap", "stop", "breakpoint_not_found"),
            ("cheap", "explode", "invalid_behavior"),
        ):
            refused = bench.agent.refused(
                "breakpoint_set_after_behavior", function_name=name, behavior=behavior
            )
            assert refused["error"] == error

    bench.breakpoint("price", behavior="go")
    assert stepwise(
        bench,
        setting("stop"),
        setting("go", "exception"),
        setting("exception"),
        setting("stop_exception"),
        refuse,
        setting("yield"),
        setting("yield", "exception"),
        calls=(*PAIR, "cheap(1)"),
    ) == [
        [*each, 1]
        for each in (
            AFTER,
            PLAIN,
            EXCEPTION,
            AFTER_AND_EXCEPTION,
            AFTER_AND_EXCEPTION,
            PLAIN,
            EXCEPTION,
        )
    ]


def test_replacements(bench: Bench) -> None:

    def refused(by: str, name: str = "price") -> dict[str, Any]:
        return bench.agent.refused(
            "breakpoint_set_replacement", function_name=name, replacement_function=by
        )

    def refuse() -> None:
        mismatch = refused("shop.other")
        assert (mismatch["error"], mismatch["replacement_signature"]) == (
            "signature_mismatch",
            "(sum)",
        )
        unknown = refused("math.hypot")
        assert (unknown["error"], unknown["reason"]) == ("signature_mismatch", "no_signature")
        assert refused("shop.cheap", "other")["error"] == "breakpoint_not_found"

    def set_one() -> None:
        assert replace(bench, "shop.cheap")["replacement_function"] == "shop.cheap"

    def clear() -> None:
        assert replace(bench, "")["replacement_function"] == ""
        assert listing(bench)["replacements"] == {}

    bench.breakpoint("price", behavior="go")
    bench.agent.call("breakpoint_set_default_behavior", behavior="go")
    assert stepwise(bench, refuse, set_one, refuse, clear, calls=("price(2)", "other(7)")) == [
        [6, 7],
        [2, 7],
        [2, 7],
        [6, 7],
    ]


def test_defaults(bench: Bench) -> None:
    """Of a breakpoint that yields, from the moment they are set."""

    def setting(default: str) -> Callable[[], None]:
        def act() -> None:
            reply = bench.agent.call("breakpoint_set_default_behavior", behavior=default)
            assert reply == {"status": "ok", "behavior": default}
            assert bench.agent.call("breakpoint_get_default_behavior") == {"behavior": default}

        return act

    def refuse() -> None:
        for default in ("yield", "explode"):
            refused = bench.agent.refused("breakpoint_set_default_behavior", behavior=default)
            assert refused["error"] == "invalid_behavior"

    bench.breakpoint("price")
    assert stepwise(
        bench,
        setting("go"),
        setting("exception"),
        refuse,
        setting("stop_exception"),
        setting("stop"),
    ) == [PLAIN, EXCEPTION, EXCEPTION, BEFORE_AND_EXCEPTION, BEFORE]
