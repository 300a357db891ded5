"""Objects by content id in real runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import front_end, wait_until
from tests.together.workbench import Bench

CART = """
    class Item:
        def __init__(self, name, price):
            self.name = name
            self.price = price

    class Cart:
        def __init__(self, items):
            self.items = items

    def total(cart, rate=1):
        return sum(item.price for item in cart.items) * rate
"""

TEST = """
    from cart import Cart, Item, total

    def test_total():
        assert total(Cart([Item("a", 1), Item("b", 2)]), rate=2) == 6
        deep = Cart(Cart(Cart(Cart([Item("deep", 7)]))))
        total(Cart([Item("c", 3)]))
"""


@pytest.fixture
def cart(bench: Bench) -> Bench:
    """A module with objects in objects."""
    bench.write(cart=CART)
    return bench


def inspect(bench: Bench, cid: str, **options: Any) -> dict[str, Any]:
    return bench.agent.call("breakpoint_inspect_object", cid=cid, **options)


@pytest.mark.full
def test_arguments_and_results_are_kept_as_they_were(cart: Bench) -> None:
    """Without a pause: recorded calls only; after the run, from the snapshot."""
    cart.breakpoint("cart.total", behavior="go")
    assert cart.test(TEST)["exit_code"] == 0
    calls = cart.agent.call("breakpoint_get_call_records", function_name="cart.total")["calls"]
    cids = calls[0]["cids"]
    (argument, rate) = cids["args"]
    assert cids["kwargs"] == {}
    reported = inspect(cart, argument)
    assert (reported["cid"], reported["type"]) == (argument, "cart.Cart")
    items = reported["attributes"]["items"]
    assert (items["type"], items["length"]) == ("list", 2)
    part = inspect(cart, argument, path=".items[1].price")
    assert (part["type"], part["repr"]) == ("int", "2")
    assert inspect(cart, cids["result"])["repr"] == "6"
    assert inspect(cart, rate)["repr"] == "2"
    assert inspect(cart, argument, depth=0)["attributes"] == {}
    equal = calls[1]["cids"]["result"]
    assert inspect(cart, equal)["repr"] == "3"


WORKERS = """
    import os
    import pathlib
    import time
    import pytest
    from cart import Cart, Item, total

    @pytest.mark.parametrize("n", range(12))
    def test_total(n):
        assert total(Cart([Item("a", n)])) == n
        pathlib.Path(os.environ["PYTEST_XDIST_WORKER"]).touch()

    def test_killed():
        total(Cart([Item("last", 0)]))
        while len(list(pathlib.Path().glob("gw*"))) < 2:
            pass
        time.sleep(0.3)  # what it told has left, and has been written before
        os.kill(os.getpid(), 9)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="looks for files from outside")
def test_the_objects_of_workers_are_in_one_file_after_the_run(make_project: MakeProject) -> None:
    """One that is killed among them: what a record names is there; nothing is left at the end."""
    project = make_project(cart=CART, test_it=WORKERS)
    with front_end(project) as server:
        server.initialize()
        server.call("breakpoint_add", function_name="cart.total", behavior="go")
        server.call("test_run", workers=2, pause_on="never")
        (folder,) = server.private()

        def files() -> list[str]:
            return sorted(path.name for path in folder.glob("*.objects*"))

        wait_until(lambda: files() == ["r1.objects"], "the objects are in one file")
        calls = server.call("breakpoint_get_call_records", max_chars=200_000)["calls"]
        assert {call["worker"] for call in calls} >= {"gw0", "gw1"}
        assert "test_it.py::test_killed" in {call["nodeid"] for call in calls}
        for call in calls:
            reported = server.call("breakpoint_inspect_object", cid=call["cids"]["args"][0])
            assert reported["type"] == "cart.Cart"
        server.leave()


@pytest.mark.full
def test_a_value_of_the_repl_has_a_cid_and_can_be_passed_on(cart: Bench) -> None:
    """`result_cid`, and `$cid` in modified arguments."""
    cart.breakpoint("cart.total")
    stop = cart.stop_of(TEST)
    reply = cart.agent.call(
        "breakpoint_repl_eval",
        pause_id=stop["pause_id"],
        expression="type(cart)([type(cart.items[0])('x', 3)])",
    )
    cid = reply["result_cid"]
    assert inspect(cart, cid, path=".items[0].name")["repr"] == "'x'"
    reply = cart.go_on(stop, modified_args=[{"$cid": cid}, 2])
    assert reply["stops"][0]["call_data"]["method_name"] == "total"
    statement = cart.agent.call(
        "breakpoint_repl_eval", pause_id=reply["stops"][0]["pause_id"], expression="x = 1"
    )
    assert statement["result_cid"] is None
    assert cart.go_on(reply["stops"][0])["exit_code"] == 0


@pytest.mark.full
def test_a_pause_looks_deeper_than_the_snapshot(cart: Bench) -> None:
    """On a paused thread of the process that made the object; else the reply says so."""
    cart.breakpoint("cart.total")
    stop = cart.stop_of(TEST)
    cid = cart.agent.call(
        "breakpoint_repl_eval",
        pause_id=stop["pause_id"],
        expression="[[[[[['deep']]]]]]",
    )["result_cid"]
    path = "[0][0][0][0][0][0]"
    assert inspect(cart, cid, path=path)["repr"] == "'deep'"
    refused = cart.agent.refused("breakpoint_inspect_object", cid=cid, path="[0][7]")
    assert refused["error"] == "invalid_path"
    cart.agent.call("test_stop", mode="kill")
    refused = cart.agent.refused("breakpoint_inspect_object", cid=cid, path=path)
    assert refused["error"] == "invalid_path"
    assert "only the snapshot is left" in refused["message"]
    assert "only the snapshot" in inspect(cart, cid, depth=8)["message"]


@pytest.mark.full
def test_unknown_objects_and_malformed_paths_are_refused(cart: Bench) -> None:
    """`cid_not_found`, `invalid_path`."""
    refused = cart.agent.refused("breakpoint_inspect_object", cid="abc")
    assert (refused["error"], refused["cid"]) == ("cid_not_found", "abc")
    cart.breakpoint("cart.total", behavior="go")
    cart.test(TEST)
    (call, *_) = cart.agent.call("breakpoint_get_call_records", function_name="cart.total")["calls"]
    cid = call["cids"]["args"][0]
    refused = cart.agent.refused("breakpoint_inspect_object", cid=cid, path="items[")
    assert refused["error"] == "invalid_path"
