"""`breakpoint_get_call_records` after real runs with `--cideldill-record-calls`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import ToolError, connected, server
from tests.together.opened import opened
from tests.together.workbench import Bench, workbench

TOOL = "breakpoint_get_call_records"
ROOM = 200_000
"""Characters of a reply in which everything here has room."""

SHOP = """
    class EmptyCart(ValueError):
        pass

    class Cart:
        def __init__(self, *prices):
            self.prices = prices

        def total(self, tax=0):
            if not self.prices:
                raise EmptyCart("nothing in it")
            return add(self.prices, tax=tax)

    def add(prices, *, tax):
        return sum(prices) + tax

    def price(amount):
        return amount * 3

    def untouched():
        pass
"""
TESTS = """
    import pytest
    from shop import Cart, EmptyCart, price

    def test_total():
        assert Cart(1, 2).total(tax=3) == 6

    def test_empty():
        with pytest.raises(EmptyCart):
            Cart().total()

    def test_prices():
        for amount in range(150):
            price(amount)
"""


@pytest.fixture(scope="module", params=["live", pytest.param("record", marks=pytest.mark.full)])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """After one run of `TESTS`, with everything in `shop` recorded; or its record, opened."""
    folder = tmp_path_factory.mktemp("records")
    root, record = folder / "project", folder / "rec"
    options = ("--cideldill-record-calls=shop.*", f"--cideldill-record={record}")
    with workbench(root, *options) as bench:
        bench.write(shop=SHOP, test_shop=TESTS)
        assert bench.run()["exit_code"] == 0
        if request.param == "live":
            yield bench
            return
    with opened(root, record) as bench:
        yield bench


def records(bench: Bench, /, **options: Any) -> dict[str, Any]:
    return bench.agent.call(TOOL, **{"max_chars": ROOM, **options})


# --- replies of the tool ------------------------------------------------------------------------


@pytest.mark.full
def test_get_call_records_empty(make_project: MakeProject) -> None:
    """An empty list when no calls are recorded, before a run and after one."""
    project = make_project(test_it="def test_it(): pass\n")
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        before = agent.call(TOOL)
        assert agent.call("test_run")["exit_code"] == 0
        after = agent.call(TOOL)
    for reply in (before, after):
        assert (reply["calls"], reply["total_count"], reply["truncated"]) == ([], 0, False)


def test_get_call_records_all(shop: Bench) -> None:
    """All of them, in the order in which they started, with all their keys."""
    calls = records(shop, nodeid="test_shop.py::test_total")["calls"]
    assert [call["qualified_name"] for call in calls] == [
        "shop.Cart.__init__",
        "shop.Cart.total",
        "shop.add",
    ]
    _, total, add = calls
    assert (add["method_name"], add["status"], add["pretty_result"]) == ("add", "success", "6")
    assert (add["pretty_args"], add["pretty_kwargs"]) == (["(1, 2)"], {"tax": "3"})
    assert (add["parent_id"], add["exception"]) == (total["call_id"], None)
    assert (add["nodeid"], add["run_id"], add["worker"]) == (
        "test_shop.py::test_total",
        "r1",
        "main",
    )
    assert add["call_site"] == {"file": "shop.py", "line": 12}
    assert total["call_site"] == {"file": "test_shop.py", "line": 6}
    assert total["started_at"] <= add["started_at"] <= add["completed_at"]
    assert add["completed_at"] <= total["completed_at"]
    assert isinstance(add["thread"], int)
    assert [len(cid) for cid in (*add["cids"]["args"], add["cids"]["result"])] == [128, 128]
    assert set(add["cids"]["kwargs"]) == {"tax"}
    assert add["cids"]["result"] == total["cids"]["result"]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("total", 2),
        ("shop.Cart.total", 2),
        ("shop:Cart.total", 2),
        ("shop.py::Cart.total", 2),
        ("./shop.py::Cart::total", 2),
        ("elsewhere/shop.py::Cart.total", 0),
        ("shop.Cart.*", 4),
        ("price", 150),
        ("untouched", 0),
        ("nowhere.total", 0),
    ],
)
def test_get_call_records_filtered(shop: Bench, name: str, number: int) -> None:
    """By `function_name`, in every form (docs/names.md)."""
    reply = records(shop, function_name=name)
    assert reply["total_count"] == number
    names = {call["method_name"] for call in reply["calls"]}
    assert names <= {"total", "__init__", "price"}


def test_a_list_of_functions_counts_their_calls(shop: Bench) -> None:
    """`metadata` of `breakpoint_list_functions`."""
    reported = shop.agent.call("breakpoint_list_functions", pattern="shop.*")["metadata"]
    counts = {name: each["calls"] for name, each in reported.items() if name.startswith("shop.")}
    assert counts == {
        "shop.Cart.__init__": 2,
        "shop.Cart.total": 2,
        "shop.add": 1,
        "shop.price": 150,
        "shop.untouched": 0,
    }
    path = shop.root / "shop.py"
    assert records(shop, function_name=f"{path}::price")["total_count"] == 150


def test_get_call_records_with_limit(shop: Bench) -> None:
    """The newest of them, oldest first."""
    calls = records(shop, function_name="price", limit=3)["calls"]
    assert [call["pretty_args"] for call in calls] == [["147"], ["148"], ["149"]]


def test_get_call_records_with_exception(shop: Bench) -> None:
    """Exceptions are told by type and message, and can be asked for."""
    reply = records(shop, status="exception")
    (call,) = reply["calls"]
    assert (call["qualified_name"], call["status"]) == ("shop.Cart.total", "exception")
    assert call["exception"] == {"type": "shop.EmptyCart", "message": "nothing in it"}
    assert (call["pretty_result"], call["cids"]["result"]) == (None, None)
    assert reply["total_count"] == 1


def test_get_call_records_default_limit_100(shop: Bench) -> None:
    assert len(records(shop)["calls"]) == 100


def test_get_call_records_total_count(shop: Bench) -> None:
    """Before the limit and before the cut to size; `debug_state` counts the same."""
    for options in ({}, {"limit": 1}, {"limit": 1_000}, {"max_chars": 1_000}):
        assert records(shop, **options)["total_count"] == 155
    assert shop.agent.call("debug_state")["counts"]["records"] == 155


def test_get_call_records_truncated_flag(shop: Bench) -> None:
    """True when older ones were left out, by the limit or by the size."""
    assert records(shop, function_name="price", limit=149)["truncated"]
    assert not records(shop, function_name="price", limit=150, max_chars=ROOM)["truncated"]
    assert records(shop, function_name="price", limit=150, max_chars=8_000)["truncated"]
    assert not records(shop, function_name="untouched")["truncated"]


def test_get_call_records_limit_zero_is_error(shop: Bench) -> None:
    refused = shop.agent.refused(TOOL, limit=0)
    assert (refused["error"], refused["parameter"]) == ("invalid_limit", "limit")


# --- ours ---------------------------------------------------------------------------------------


def test_one_pages_back_through_all_records(shop: Bench) -> None:
    """`before`; a page has the default size."""
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        reply = records(shop, function_name="price", max_chars=20_000, **cursor)
        assert len(json.dumps(reply, ensure_ascii=False, separators=(",", ":"))) <= 20_000
        seen = [call["pretty_args"][0] for call in reply["calls"]] + seen
        if not reply["truncated"]:
            break
        cursor = {"before": reply["next_before"]}
    assert seen == [str(amount) for amount in range(150)]


@pytest.mark.full
def test_a_call_that_is_paused_is_running_and_ends_in_place(
    make_project: MakeProject,
) -> None:
    """`status`; a record stands where its call started."""
    project = make_project(shop=SHOP, test_shop=TESTS)
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        agent.call("breakpoint_add", function_name="shop.add")
        reply = agent.call("test_run", nodeids=["test_shop.py::test_total"])
        (stop,) = reply["stops"]
        now = agent.call(TOOL, max_chars=ROOM)
        reported = {call["method_name"]: call for call in now["calls"]}
        assert (reported["__init__"]["status"], reported["total"]["status"]) == (
            "success",
            "running",
        )
        assert (reported["total"]["completed_at"], reported["total"]["pretty_result"]) == (
            None,
            None,
        )
        reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        assert reply["exit_code"] == 0
        calls = agent.call(TOOL, max_chars=ROOM)["calls"]
    assert [(call["method_name"], call["status"]) for call in calls] == [
        ("__init__", "success"),
        ("total", "success"),
        ("add", "success"),
    ]
    assert calls[1]["call_id"] == reported["total"]["call_id"]


@pytest.mark.full
def test_a_function_breakpoint_that_goes_on_records_and_records_outlive_runs(
    make_project: MakeProject,
) -> None:
    """`breakpoint_add` with `behavior: go` records; complete across runs."""
    project = make_project(shop=SHOP, test_shop=TESTS)
    with connected(server(project)) as agent:
        agent.call("breakpoint_add", function_name="add", behavior="go")
        for _ in range(2):
            reply = agent.call("test_run", nodeids=["test_shop.py::test_total"])
            assert reply["exit_code"] == 0
        reply = agent.call(TOOL, function_name="shop.add")
    assert [(call["run_id"], call["pretty_result"]) for call in reply["calls"]] == [
        ("r1", "6"),
        ("r2", "6"),
    ]


@pytest.mark.full
def test_as_many_arguments_are_shown_as_the_ini_file_says(make_project: MakeProject) -> None:
    """Items per collection; recorded, and at a pause."""
    project = make_project(
        **{"pytest.ini": "[pytest]\ncideldill_max_items = 2\n"},
        test_it="""
        def f(*args, **named): return args
        def g(*args, **named): raise ValueError(*args)
        def test_it():
            f(1, 2, 3, a=1, b=2, c=3)
            try: g(1, 2, 3, a=1, b=2, c=3)
            except ValueError: pass
        """,
    )
    with connected(server(project, "--cideldill-record-calls=test_it.f")) as agent:
        agent.call("breakpoint_add", function_name="test_it.g")
        (stop,) = agent.call("test_run")["stops"]
        agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        calls = agent.call(TOOL)["calls"]
    assert [call["method_name"] for call in calls] == ["f", "g"]
    for call in (stop["call_data"], *calls):
        assert (call["pretty_args"], call["pretty_kwargs"]) == (["1", "2"], {"a": "1", "b": "2"})
    for call in calls:
        assert [len(call["cids"][kind]) for kind in ("args", "kwargs")] == [2, 2]
    assert calls[1]["exception"]["message"] == "(1, 2, … +1 items)"


@pytest.mark.full
def test_a_call_that_never_ends_stays_running(make_project: MakeProject) -> None:
    """Its process is gone; nobody will tell its end."""
    project = make_project(
        shop="import os\ndef work(): leave()\ndef leave(): os._exit(3)\n",
        test_shop="from shop import work\ndef test_it(): work()\n",
    )
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        agent.call("breakpoint_add", function_name="shop.leave")
        (stop,) = agent.call("test_run")["stops"]
        with contextlib.suppress(ToolError):  # the process may be gone before it has answered
            agent.call("breakpoint_continue", pause_id=stop["pause_id"])
        assert agent.call("breakpoint_wait")["state"] == "crashed"
        calls = agent.call(TOOL, function_name="work")["calls"]
    assert [call["status"] for call in calls] == ["running"]


@pytest.mark.full
def test_secrets_are_in_no_record(make_project: MakeProject) -> None:
    """Redaction comes before anything is sent."""
    project = make_project(
        shop="def login(user, password): return {'token': password + user}\n",
        test_shop="from shop import login\n"
        "def test_it(): assert login('ann', password='hunter2-hunter2')\n",
    )
    with connected(server(project, "--cideldill-record-calls=shop.*")) as agent:
        assert agent.call("test_run")["exit_code"] == 0
        reply = agent.call(TOOL)
    assert "hunter2" not in json.dumps(reply)
    (call,) = reply["calls"]
    assert "redacted" in json.dumps([call["pretty_args"], call["pretty_kwargs"]])
    assert "redacted" in call["pretty_result"]
