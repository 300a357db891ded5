"""Interpreters that print when they start: a `sitecustomize` with a line for stdout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.together.driver import locals_of
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

SHOP = """
    def total(numbers):
        result = 0
        for number in numbers:
            result += number
        return result
"""

TEST = """
    from shop import total
    def test_it(): assert total([1, 2]) == 3
"""


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench whose processes all print first; the client passes over the line of the server."""
    folder: Path = tmp_path_factory.mktemp("loud")
    (folder / "start").mkdir()
    text = "import atexit\nprint('hello')\natexit.register(print, 'bye', flush=True)\n"
    (folder / "start" / "sitecustomize.py").write_text(text, encoding="utf-8")
    with workbench(folder / "project", env={"PYTHONPATH": str(folder / "start")}) as bench:
        bench.write(shop=SHOP, test_it=TEST)
        yield bench


def test_all_that_asks_about_sources_is_answered(loud: Bench) -> None:
    call = loud.agent.call
    line = {"file": "shop.py", "line": 5}
    assert call("breakpoint_set", **line, condition="number == 2")["verified"] is False
    assert call("tracepoint_set", **line)["tracepoint"]["location"]["function"] == "total"
    assert loud.agent.refused("breakpoint_set", file="shop.py", line=1)["error"] == "invalid_line"
    assert call("breakpoint_list_functions")["functions"] == ["shop.total", "test_it.test_it"]
    assert loud.breakpoint("shop.total", behavior="go")["functions"] == ["shop.total"]
    assert call("test_list")["tests"] == ["test_it.py::test_it"]
    reply = loud.run(tracepoints=[line | {"log_message": "now {number}"}])
    (stop,) = reply["stops"]
    assert locals_of(stop)["number"] == "2"
    reply = loud.go_on(stop)
    assert (reply["state"], reply["exit_code"]) == ("finished", 0)
    assert "now 2" in [hit["message"] for hit in loud.events("hit")]
