"""What clients read of values and of exceptions: as `str`, `repr` and pytest would tell them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import workbench

TESTS = """
import os
import subprocess
from collections import OrderedDict
from unittest import mock

import pytest

class Own(Exception):
    def __init__(self, code):
        self.code = code

    def __str__(self):
        return f"own {self.code}"

@pytest.mark.parametrize("work", [
    lambda: os.rename("/no such file", "/no other file"),
    lambda: {}[""],
    lambda: b"abc\\xe9".decode("utf-8"),
    lambda: compile("x = (", "deep/below/it.py", "exec"),
    lambda: subprocess.run(["false"], check=True),
    lambda: (_ for _ in ()).throw(ExceptionGroup("some", [ValueError(1), KeyError("k")])),
], ids=["rename", "key", "decode", "syntax", "process", "group"])
def test_cause(work):
    try:
        work()
    except Exception as error:
        wanted = str(error)
        raise RuntimeError(wanted) from error

def test_own():
    try:
        raise Own(7)
    except Own as error:
        raise RuntimeError("it") from error

@pytest.fixture
def own():
    pass

def test_order(own, prepared):
    held = OrderedDict(a=97, b=98, c=99)
    left, right = OrderedDict(held), held
    held.move_to_end("a")
    calls = [mock.call.get("a", n=1)]
    assert left == right
"""
PLUGIN = """
import pytest

@pytest.fixture(autouse=True)
def _prepares_something():
    pass

@pytest.fixture
def prepared():
    pass

@pytest.fixture(autouse=True)
def _has_a_value():
    return 7
"""
LONG = "\n".join(
    [
        "def test_long():",
        "    one, two = 1, 2",
        "    assert one == two",
        *("# a comment" for _ in range(20_010)),
        "def test_late():",
        "    some = [1]",
        "    check = lambda: len(some) == 3",
        "    assert check()",
        "",
    ]
)


@pytest.mark.full
def test_texts_of_exceptions_and_values_are_those_that_python_shows(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "preparing.py").write_text(PLUGIN, encoding="utf-8")
    env = {"PYTHONPATH": str(tmp_path / "plugins")}
    options = ("-o", "cideldill_capture_ms=2000", "-p", "preparing")
    with workbench(tmp_path / "project", *options, env=env) as bench:
        bench.write(test_it=TESTS, test_long=LONG)
        assert bench.run(pause_on="never")["outcomes"]["failed"] == 10
        explain = bench.agent.call
        for name in ("rename", "key", "decode", "syntax", "process", "group"):
            reported = explain("exception_get_context", nodeid=f"test_it.py::test_cause[{name}]")
            assert reported["innerExceptions"][0]["message"] == reported["exception"]["message"]
        reported = explain("exception_get_context", nodeid="test_it.py::test_own")
        assert reported["innerExceptions"][0]["message"].startswith("7 (its text is made by its")

        reported = explain("exception_get_context", nodeid="test_it.py::test_order")
        fixtures = {each["name"] for each in reported["fixtures"]}
        assert fixtures == {"own", "prepared"}  # nothing that a plugin does for all tests
        held = reported["assertion"]
        assert held["left"] == "OrderedDict({'a': 97, 'b': 98, 'c': 99})"
        assert held["right"] == "OrderedDict({'b': 98, 'c': 99, 'a': 97})"
        local = {
            each["name"]: each["value"] for each in reported["frames"][0]["variables"]["locals"]
        }
        assert local["calls"] == "[call.get('a', n=1)]"

        reported = explain("exception_get_context", nodeid="test_long.py::test_long")["assertion"]
        assert (reported["left"], reported["op"], reported["right"]) == ("1", "==", "2")
        reported = explain("exception_get_context", nodeid="test_long.py::test_late")["assertion"]
        assert "assert False" in reported["explanation"]


MEMORY = """
import resource

SIZE = 300_000_000

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def total(data, text):
    return len(data) + len(text)

def test_total():
    data, text = b"x" * SIZE, "y" * SIZE
    before = peak()
    assert total(data, text) == 2 * SIZE
    assert peak() - before < SIZE / 2
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is told in kilobytes")
def test_large_blocks_of_memory_are_not_copied(tmp_path: Path) -> None:
    """By a stop, by what is asked there, by a look into the object."""
    with workbench(tmp_path) as bench:
        bench.write(test_it=MEMORY)
        bench.breakpoint("test_it.total")
        stop = only_stop(bench.run())
        for name in ("data", "text"):
            reported = bench.agent.call("variables_get", pause_id=stop["pause_id"], names=[name])
            cid = reported["variables"][0]["cid"]
            shown = bench.agent.call("breakpoint_inspect_object", cid=cid)
            assert shown["length"] == 300_000_000
        assert bench.eval(stop, "text").startswith("'yyy")
        assert bench.go_on(stop)["outcomes"] == {"passed": 1, "failed": 0}
