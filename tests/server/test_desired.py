"""The breakpoints that clients asked for: ids, changes, where they are bound."""

from __future__ import annotations

from dataclasses import replace

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.kinds import PENDING
from pytest_cideldill.protocol import Bound


def test_ids_are_unique_for_the_server_s_life() -> None:
    """A removed breakpoint's id does not come back."""
    desired = Desired()
    first = desired.add_function("a", None, None)
    desired.remove(first.id)
    second = desired.add_function("a", None, None)
    assert (first.id, second.id) == ("fn-1", "fn-2")
    assert desired.get("fn-1") is None
    assert [each.id for each in desired] == ["fn-2"]
    assert len(desired) == 1


def test_a_new_breakpoint_yields_to_the_default() -> None:
    """`behavior`=`yield`."""
    added = Desired().add_function("a", None, None)
    spec = added.spec
    assert (spec.behavior, spec.after_behavior, spec.condition) == ("yield", "yield", None)


def test_the_same_name_again_keeps_the_id_and_changes_only_what_is_given() -> None:
    desired = Desired()
    first = desired.add_function("a", "stop", "x > 1")
    first.spec = replace(first.spec, after_behavior="exception")
    for behavior, condition, expected in (
        (None, None, ("stop", "x > 1")),
        ("go", None, ("go", "x > 1")),
        (None, "x > 2", ("go", "x > 2")),
        (None, "", ("go", None)),
    ):
        again = desired.add_function("a", behavior, condition)
        assert again is first
        assert (again.spec.behavior, again.condition) == expected
        assert (again.id, again.spec.after_behavior) == ("fn-1", "exception")
    assert desired.add_function("b", None, None).id == "fn-2"


def test_where_it_is_bound_is_the_union_of_all_processes() -> None:
    """Sorted; verified as soon as any process has bound it."""
    desired = Desired()
    added = desired.add_function("total", None, None)
    assert (added.functions, added.verified, added.message) == ([], False, PENDING)
    desired.note("gw0", Bound("fn-1", [], verified=False, message="total is a generator function"))
    assert (added.verified, added.message) == (False, "total is a generator function")
    desired.note("gw1", Bound("fn-1", ["shop.total"], verified=True))
    desired.note("gw0", Bound("fn-1", ["a.total", "shop.total"], verified=True))
    assert (added.functions, added.verified, added.message) == (
        ["a.total", "shop.total"], True, None,
    )  # fmt: skip


def test_a_process_may_report_a_breakpoint_that_is_gone() -> None:
    """Its removal crossed the news on the way."""
    desired = Desired()
    desired.note("main", Bound("fn-9", ["x"], verified=True))
    desired.remove("fn-9")
    assert len(desired) == 0


def test_a_new_run_binds_everything_anew() -> None:
    """Breakpoints stay for later runs, what they are bound to does not."""
    desired = Desired()
    added = desired.add_function("total", "stop", None)
    desired.note("main", Bound("fn-1", ["shop.total"], verified=True))
    desired.begin_run()
    assert (added.functions, added.verified, added.spec.behavior) == ([], False, "stop")


def test_it_may_change_while_it_is_looked_at() -> None:
    """Breakpoints come and go while each process is being told."""
    desired = Desired()
    for name in "abc":
        desired.add_function(name, None, None)
    for each in desired.functions:
        desired.remove(each.id)
        desired.add_function(each.spec.function_name * 2, None, None)
    assert [each.spec.function_name for each in desired.functions] == ["aa", "bb", "cc"]
