"""Threads of the program with small stacks are hit, recorded, paused and looked into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.records import recorded
from tests.together.workbench import Bench, workbench

NESTED = "[" * 60 + "]" * 60

SHOP = f"""
    NESTED = {NESTED}

    class Item:
        def __init__(self, inner):
            self.inner = inner

    def nested(depth):
        item = None
        for _ in range(depth):
            item = Item(item)
        return item

    def listed(depth):
        items = []
        for _ in range(depth):
            items = [items]
        return items

    def total(item):
        count = 1
        return count

    def caught(item):
        try:
            raise KeyError(item)
        except KeyError:
            return 1

    def both(item):
        assert total(item) == 1
        assert caught(item) == 1
"""

TEST = """
    import os, threading
    import pytest
    from shop import both, listed, nested, total

    def within(size, function, argument):
        failed = []

        def run():
            try:
                function(argument)
            except BaseException as error:
                failed.append(error)

        before = threading.stack_size(size)
        thread = threading.Thread(target=run)
        thread.start()
        assert threading.stack_size(before) == size
        thread.join()
        assert not failed

    @pytest.mark.parametrize("kilobytes", [32, 64, 96, 128, 256])
    @pytest.mark.parametrize("depth", [1, 200])
    def test_both(kilobytes, depth):
        within(kilobytes * 1024, both, nested(depth))
        within(kilobytes * 1024, both, listed(depth))

    @pytest.mark.parametrize("kilobytes", [32, 64])
    def test_fork(kilobytes):
        before = threading.stack_size(kilobytes * 1024)
        for _ in range(3):
            total(nested(200))
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            for number in range(50):
                total([number])
            total(listed(200))
        assert threading.stack_size(before) == kilobytes * 1024

    def test_fails():
        total([NotImplemented])
        assert total(1) == 2
"""

HITS = (
    "--cideldill-trace=shop.py:22={type(item).__name__}",
    "--cideldill-record-calls=shop.*",
)


def project(root: Path, **files: str) -> Path:
    root.mkdir()
    (root / "pytest.ini").touch()
    Bench(None, root).write(**files)  # type: ignore[arg-type]
    return root


@pytest.mark.full
def test_calls_and_hits_are_recorded(tmp_path: Path) -> None:
    root = project(tmp_path / "project", shop=SHOP, test_it=TEST)
    found = recorded(root, *HITS)
    assert "1 failed, 12 passed" in found.out, (found.out, found.err[-3000:])
    assert "not complete" not in found.out
    totals = 10 * 2 + 2 * 3 * 52 + 2
    assert len(found.of("hit")) == totals
    calls = [each for each in found.of("call") if each["qualified_name"] == "shop.total"]
    assert len(calls) == totals
    assert {each["status"] for each in calls} == {"success"}


def looked_into(bench: Bench, stop: dict[str, Any]) -> None:
    assert bench.eval(stop, "type(item).__name__") in ("'Item'", "'list'")
    assert bench.eval(stop, f"len({'[' * 30}{']' * 30})") == "1"
    reported = bench.agent.call("variables_get", pause_id=stop["pause_id"], names=["item"])
    cid = reported["variables"][0]["cid"]
    looked = bench.agent.call("breakpoint_inspect_object", cid=cid)
    assert looked["type"] in ("shop.Item", "list")


@pytest.mark.full
@pytest.mark.sample("32", "128")
@pytest.mark.parametrize("kilobytes", [32, 64, 96, 128])
def test_calls_lines_and_raises_pause(tmp_path: Path, kilobytes: int) -> None:
    chosen = f"""
        from test_all import listed, nested, both, within

        def test_it():
            for argument in (nested(200), listed(200)):
                within({kilobytes} * 1024, both, argument)
    """
    with workbench(tmp_path / "project") as bench:
        bench.write(shop=SHOP, test_all=TEST, test_it=chosen)
        bench.breakpoint("shop.total")
        bench.agent.call("breakpoint_set", file="shop.py", line=22)
        bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
        reply, reasons = bench.run(["test_it.py"]), []
        while reply["state"] == "paused":
            stop = only_stop(reply)
            reasons.append(stop["reason"])
            looked_into(bench, stop)
            reply = bench.go_on(stop)
        assert reply["outcomes"] == {"passed": 1, "failed": 0}, reply
        assert len(reasons) == 6, reasons
        assert len(set(reasons)) >= 2
