"""Objects with code of their own: untouched at a pause, and copied when a client asks for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import exception_of, only_stop
from tests.together.workbench import Bench, workbench

SHOP = """
    import threading

    class Rows:
        def __init__(self, *kept):
            self.kept, self.loads, self.threads = list(kept), 0, []

        def __getstate__(self):
            self.loads += 1
            self.threads.append(threading.current_thread().name)
            return {"kept": self.kept, "loads": 0, "threads": []}

    class Reader:
        def __init__(self, *parts):
            self.parts = list(parts)

        def read(self):
            return self.parts.pop(0) if self.parts else None

        def __reduce__(self):
            parts, self.parts = self.parts, []
            return (Reader, tuple(parts))

    class Endless(Rows):
        def __getstate__(self):
            while True:
                pass

    def counted(rows): return rows.loads

    def first(reader): return reader.read()

    def called(function): return function()
"""


@pytest.fixture
def shop(bench: Bench) -> Bench:
    """A module with classes that pickle themselves."""
    bench.write(shop=SHOP)
    return bench


def value(bench: Bench, stop: dict[str, Any], expression: str) -> str:
    """The content id of what an expression gives."""
    reply = bench.agent.call(
        "breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression
    )
    assert isinstance(reply["result_cid"], str), reply
    return reply["result_cid"]


def inspect(bench: Bench, cid: str, **options: Any) -> dict[str, Any]:
    return bench.agent.call("breakpoint_inspect_object", cid=cid, **options)


def arguments_of(bench: Bench, stop: dict[str, Any]) -> list[str]:
    """The content ids of the call that is paused."""
    calls = bench.agent.call("breakpoint_get_call_records")["calls"]
    (call,) = [call for call in calls if call["call_id"] == stop["call_data"]["call_id"]]
    cids = call["cids"]["args"]
    assert isinstance(cids, list)
    return cids


TWO = """
    from shop import *

    def test_rows():
        rows = Rows(1, 2)
        assert counted(rows) == 0
        assert rows.loads == 0

    def test_reader():
        reader = Reader("a", "b")
        assert first(reader) == "a"
        assert reader.read() == "b"
"""


@pytest.mark.full
def test_a_stop_before_a_call_takes_nothing_from_its_arguments(shop: Bench) -> None:
    for name in ("counted", "first"):
        shop.breakpoint(f"shop.{name}")
    reply = shop.test(TWO)
    for name in ("counted", "first"):
        stop = only_stop(reply)
        assert stop["call_data"]["method_name"] == name
        assert len(arguments_of(shop, stop)[0]) == 128
        reply = shop.go_on(stop)
    assert reply["outcomes"]["passed"] == 2, reply


@pytest.mark.full
def test_variables_and_results_of_the_repl_are_not_copied(shop: Bench) -> None:
    for name in ("counted", "first"):
        shop.breakpoint(f"shop.{name}")
    reply = shop.test(TWO)
    for name in ("rows", "reader"):
        stop = only_stop(reply)
        value(shop, stop, name)
        value(shop, stop, f"[{name}]")
        value(shop, stop, f"{{'deep': [[[[{name}]]]]}}")
        assert shop.eval(stop, f"y = {name}") == ""
        reported = shop.agent.call("variables_get", pause_id=stop["pause_id"], names=[name])
        assert reported["variables"][0]["value"].startswith(name.title())
        reply = shop.go_on(stop)
    assert reply["outcomes"]["passed"] == 2, reply


CALLS = """
    from shop import *

    def test_calls():
        rows = Rows([[[[["deep"]]]]])
        loads = [counted(rows), counted(rows), counted(Rows(3)), rows.loads]
        print(loads)
"""
DEEP = ".kept[0][0][0][0][0]"


@pytest.mark.full
def test_an_object_that_was_asked_for_is_copied_once_and_stays(shop: Bench) -> None:
    """The description is that of the moment; a path may be deeper than the snapshot."""
    shop.breakpoint("shop.counted")
    stop = shop.stop_of(CALLS)
    (cid,) = arguments_of(shop, stop)
    reported = inspect(shop, cid)
    assert (reported["cid"], reported["type"]) == (cid, "shop.Rows")
    assert reported["repr"] == "Rows(kept=[[[1 item]]], loads=0, threads=[])"
    assert reported["attributes"]["kept"]["length"] == 1
    assert shop.eval(stop, "rows.loads") == "1"
    assert inspect(shop, cid, path=DEEP)["repr"] == "['deep']"
    assert inspect(shop, cid)["repr"] == reported["repr"]
    now = value(shop, stop, "rows")  # it has counted the copy
    assert now != cid
    inspect(shop, now)
    assert shop.eval(stop, "rows.loads") == "2"
    stop = only_stop(shop.go_on(stop))
    # Only a copy is left of the object as it was then.
    assert inspect(shop, cid, path=DEEP)["repr"] == "['deep']"
    assert "message" not in inspect(shop, cid, depth=8)
    stop = only_stop(shop.go_on(stop))
    reply = shop.go_on(stop, modified_args=[{"$cid": cid}])
    assert reply["outcomes"]["passed"] == 1, reply


@pytest.mark.full
def test_an_object_that_was_not_asked_for_is_a_snapshot_when_the_thread_went_on(
    shop: Bench,
) -> None:
    shop.breakpoint("shop.counted")
    stop = shop.stop_of(CALLS)
    (cid,) = arguments_of(shop, stop)
    stop = only_stop(shop.go_on(stop))
    assert shop.eval(stop, "rows.loads") == "0"
    assert inspect(shop, cid, path=".kept")["type"] == "list"
    assert "only the snapshot is left" in inspect(shop, cid, depth=8)["message"]
    assert shop.agent.refused("breakpoint_inspect_object", cid=cid, path=DEEP)["error"] == (
        "invalid_path"
    )
    refused = shop.agent.refused(
        "breakpoint_continue", pause_id=stop["pause_id"], modified_args=[{"$cid": cid}]
    )
    assert refused["error"] == "cid_not_found"
    assert "breakpoint_inspect_object" in refused["message"]
    assert shop.eval(stop, "rows.loads") == "0"


@pytest.mark.full
def test_a_copy_takes_the_place_of_an_argument(shop: Bench) -> None:
    """`$cid` asks for it, without a look before."""
    shop.breakpoint("shop.first")
    stop = shop.stop_of(TWO)
    (cid,) = arguments_of(shop, stop)
    reply = shop.go_on(stop, modified_args=[{"$cid": cid}])
    assert exception_of(reply["stops"][0])["message"].startswith("assert None == 'b'")
    assert shop.eval(only_stop(reply), "reader.parts") == "[]"


@pytest.mark.full
def test_objects_that_look_alike_are_kept_apart(shop: Bench) -> None:
    shop.breakpoint("shop.first")
    stop = shop.stop_of(
        """
        from shop import *
        def test_first(): assert first(Reader([[[[1]]]])) == [[[[2]]]]
        """
    )
    two, one = (value(shop, stop, f"type(reader)([[[[{n}]]]])") for n in (2, 1))
    assert inspect(shop, two, depth=2)["attributes"] == inspect(shop, one, depth=2)["attributes"]
    assert two != one
    assert value(shop, stop, "reader") == arguments_of(shop, stop)[0]
    assert shop.go_on(stop, modified_args=[{"$cid": two}])["outcomes"]["passed"] == 1


@pytest.mark.full
def test_an_object_that_changed_is_shown_as_it_is_and_said_to_have_changed(shop: Bench) -> None:
    shop.breakpoint("shop.counted")
    stop = shop.stop_of(CALLS)
    (cid,) = arguments_of(shop, stop)
    before = inspect(shop, cid, depth=0)["repr"]
    other = value(shop, stop, "(other := type(rows)([[[[['old']]]]]))")
    shop.eval(stop, "other.kept[:] = [[[[[['new']]]]], 2]")
    reported = inspect(shop, other, path=DEEP)
    assert reported["repr"] == "['new']"
    assert "changed" in reported["message"]
    assert inspect(shop, other)["attributes"]["kept"]["length"] == 1
    refused = shop.agent.refused(
        "breakpoint_continue", pause_id=stop["pause_id"], modified_args=[{"$cid": other}]
    )
    assert refused["error"] == "cid_not_found"
    shop.eval(stop, "rows.kept.clear()")
    assert inspect(shop, cid, depth=0)["repr"] == before
    assert inspect(shop, cid, path=DEEP)["repr"] == "['deep']"


LIVES = """
    import gc, weakref
    from shop import *

    class Thing(Rows):
        gone = 0
        def __del__(self): Thing.gone += 1

    def at_line(rows):
        here = weakref.ref(rows)
        del rows
        return here

    def test_lives():
        gc.disable()
        try:
            made = [Thing(1)]
            seen = weakref.ref(made[0])
            counted(made.pop())
            assert seen() is None
            left = at_line(Thing(2))()
            assert left is None
            assert Thing.gone == 3
        finally:
            gc.enable()
"""


@pytest.mark.full
def test_nothing_lives_longer_for_having_been_looked_at(shop: Bench) -> None:
    """The program looks as soon as it goes on, without the garbage collector."""
    shop.breakpoint("shop.counted")
    stop = shop.stop_of(LIVES)
    shop.agent.call("variables_get", pause_id=stop["pause_id"], names=["rows"])
    inspect(shop, value(shop, stop, "[rows]"))
    inspect(shop, value(shop, stop, "type(rows)(3)"))  # one that nobody else has
    inspect(shop, arguments_of(shop, stop)[0])
    shop.agent.call("breakpoint_set", file="test_it.py", line=10)
    stop = only_stop(shop.go_on(stop))
    inspect(shop, value(shop, stop, "rows"))
    shop.agent.call("debug_step", pause_id=stop["pause_id"], count=2)
    reply = shop.go_on(stop)
    assert (reply["state"], reply["exit_code"]) == ("finished", 0), reply


THREADS = """
    import threading
    from shop import *

    def test_threads():
        rows = [Rows(number) for number in range(2)]
        threads = [
            threading.Thread(target=counted, args=(each,), name=f"thread-{each.kept}")
            for each in rows
        ]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert [each.threads for each in rows] == [["thread-[0]"], ["thread-[1]"]]
"""


@pytest.mark.full
def test_the_thread_that_holds_an_object_copies_it(shop: Bench) -> None:
    shop.breakpoint("shop.counted")
    shop.test(THREADS)
    paused = shop.until_paused(2)
    for pause in reversed(paused):
        (cid,) = arguments_of(shop, pause | {"pause_id": pause["id"]})
        assert inspect(shop, cid, path=".kept", depth=5)["type"] == "list"
    shop.agent.call("debug_continue")
    assert shop.until("finished")["outcomes"]["passed"] == 1


@pytest.mark.full
def test_pickling_without_an_end_is_interrupted(shop: Bench) -> None:
    shop.breakpoint("shop.counted")
    stop = shop.stop_of(
        """
        from shop import *
        def test_endless(): assert counted(Endless(1)) == 0
        """
    )
    (cid,) = arguments_of(shop, stop)
    assert inspect(shop, cid)["attributes"]["kept"]["repr"] == "[1]"
    assert shop.eval(stop, "1 + 1") == "2"
    assert shop.go_on(stop)["outcomes"]["passed"] == 1


@pytest.mark.full
def test_what_holds_a_secret_is_looked_into_and_never_copied(shop: Bench) -> None:
    shop.breakpoint("shop.counted")
    stop = shop.stop_of(CALLS)
    cid = value(shop, stop, "type(rows)({'password': 'hunter2-zq81', 'a': [[[[['b']]]]]})")
    reported = str(inspect(shop, cid, depth=8))
    assert "hunter2" not in reported
    assert "'b'" in reported
    refused = shop.agent.refused(
        "breakpoint_continue", pause_id=stop["pause_id"], modified_args=[{"$cid": cid}]
    )
    assert refused["error"] == "cid_not_found"


NO_STORE = """
    import os, pathlib

    def pytest_configure():
        (store,) = pathlib.Path(os.environ["TMPDIR"]).glob(f"*/r1.main.{os.getpid()}.objects")
        store.unlink()
        store.mkdir()
        os.closerange(200, 1 << 20)
"""


@pytest.mark.full
def test_a_store_that_can_not_be_opened_does_not_matter_at_a_pause(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    with workbench(tmp_path / "project", env={"TMPDIR": str(private)}) as bench:
        bench.write(shop=SHOP, conftest=NO_STORE)
        bench.breakpoint("shop.counted")
        stop = bench.stop_of(CALLS)
        for expression, shown in (("[[[[['deep']]]]]", "'deep'"), ("rows.kept", "[['deep']]")):
            reported = inspect(bench, value(bench, stop, expression), path="[0][0][0][0]")
            assert shown in reported["repr"]
        cid = value(bench, stop, "rows")
        assert inspect(bench, cid)["attributes"]["loads"]["repr"] == "0"
        reply = bench.go_on(stop, modified_args=[{"$cid": cid}])
        assert bench.agent.refused("breakpoint_inspect_object", cid=cid)["error"] == "cid_not_found"
        assert only_stop(reply)["phase"] == "before"
