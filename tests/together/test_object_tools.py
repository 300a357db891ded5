"""Functions and objects are what the test calls and passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.together import ledger
from tests.together.driver import connected, only_stop, server
from tests.together.workbench import Bench

pytestmark = pytest.mark.full


def cid_of(bench: Bench, stop: dict[str, Any], expression: str) -> str:
    """The content id of a value at a pause."""
    reply = bench.agent.call(
        "breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression
    )
    cid = reply["result_cid"]
    assert isinstance(cid, str)
    return cid


def inspect(bench: Bench, cid: str, **options: Any) -> dict[str, Any]:
    return bench.agent.call("breakpoint_inspect_object", cid=cid, **options)


def test_every_listed_function_can_be_stopped_by_its_name(bench: Bench) -> None:
    """The listed signature is what the test receives instead of a result."""
    calls = ("price(1)", "cheap(1)", "total(Basket([1]))", "other(1)")
    ledger.write(bench, *calls)
    listed = bench.agent.call("breakpoint_list_functions", pattern="shop.*")
    assert set(listed["metadata"]) == set(listed["signatures"]) == set(listed["functions"])
    assert {each["file"] for each in listed["metadata"].values()} == {"shop.py"}
    names = [f"shop.{call.partition('(')[0]}" for call in calls]
    assert set(names) < set(listed["functions"])
    reply: dict[str, Any] = {}
    for name in names:
        assert bench.breakpoint(name)["functions"] == [name]
    reply = bench.run(["test_it.py"])
    for name in names:
        stop = only_stop(reply)
        assert stop["call_data"]["signature"] == listed["signatures"][name]
        reply = bench.go_on(stop, action="skip", fake_result=listed["signatures"][name])
    assert ledger.received(bench) == [listed["signatures"][name] for name in names]
    assert ledger.received(bench)[0] == "(amount, each=3, *, off=0)"


def test_an_object_is_shown_as_the_test_passed_it(bench: Bench) -> None:
    """A copy of another one takes its place in the next call."""
    bench.breakpoint("total")
    stop = only_stop(ledger.start(bench, "total(Basket([1, 2]))", "total(Basket([5]))"))
    cid = cid_of(bench, stop, "basket")
    reported = inspect(bench, cid)
    assert (reported["cid"], reported["type"]) == (cid, "shop.Basket")
    assert "Basket" in reported["repr"]
    assert reported["attributes"]["prices"]["repr"] == "[1, 2]"
    assert inspect(bench, cid, path=".prices[1]")["repr"] == "2"
    unknown = cid[:-1] + ("0" if cid[-1] != "0" else "1")
    refused = bench.agent.refused("breakpoint_inspect_object", cid=unknown)
    assert (refused["error"], refused["cid"]) == ("cid_not_found", unknown)
    stop = only_stop(bench.go_on(stop))
    bench.go_on(stop, modified_args=[{"$cid": cid}])
    assert ledger.received(bench) == [3, 3]


def test_what_no_pickle_holds_is_reported_and_left_untouched(bench: Bench) -> None:
    """A generator; looking at it takes nothing from it, and no copy is made."""
    bench.breakpoint("total")
    stop = only_stop(ledger.start(bench, "total(Basket(each for each in (1, 2)))"))
    cid = cid_of(bench, stop, "basket")
    reported = inspect(bench, cid)
    assert (reported["type"], "error" in reported) == ("shop.Basket", False)
    assert reported["attributes"]["prices"]["type"] == "generator"
    refused = bench.agent.refused(
        "breakpoint_continue", pause_id=stop["pause_id"], modified_args=[{"$cid": cid}]
    )
    assert refused["error"] == "cid_not_found"
    bench.go_on(stop)
    assert ledger.received(bench) == [3]


def test_a_damaged_object_is_shown_as_such(tmp_path: Path) -> None:
    """It is there, and its bytes are others."""
    root, private = tmp_path / "project", tmp_path / "private"
    for folder in (root, private):
        folder.mkdir()
    (root / "pytest.ini").touch()
    with connected(server(root, env={"TMPDIR": str(private)})) as agent:
        bench = Bench(agent, root)
        bench.breakpoint("total")
        stop = only_stop(ledger.start(bench, "total(Basket([1, 2]))"))
        cid = cid_of(bench, stop, "basket")
        (store,) = private.glob("*/*.objects")
        held = store.read_bytes()
        at = held.index(bytes.fromhex(cid))
        place = held.index(b"\x80\x04", at)  # its pickle, which is no longer what was digested
        store.write_bytes(held[:place] + b"\x80\x05" + held[place + 2 :])
        reported = inspect(bench, cid)
        assert (reported["cid"], reported["type"], reported["attributes"]) == (cid, "unknown", {})
        assert reported["error"] == "deserialization_failed"
        assert reported["repr"].startswith("<deserialization failed: ")
        refused = agent.refused(
            "breakpoint_continue", pause_id=stop["pause_id"], modified_args=[{"$cid": cid}]
        )
        assert refused["error"] == "cid_not_found"
        bench.go_on(stop)
        assert ledger.received(bench) == [3]
