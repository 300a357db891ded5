"""Source files as they may stand in a project: huge, in odd encodings; many questions at once."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, ToolError
from tests.together.frontend import front_end
from tests.together.workbench import Bench

full = pytest.mark.full

TEST = """
    def test_total():
        assert True
"""

BLOCK = "def f{0}(a):\n    b = a\n    c = b\n\n    return c\n"
"""Five lines; its fourth has no code."""


def blocks(lines: int) -> str:
    return "".join(BLOCK.format(number) for number in range(lines // 5))


def huge(path: Path, size: int) -> Path:
    """A file that takes no room on the disk."""
    path.touch()
    os.truncate(path, size)
    return path


def answer(future: Future[dict[str, Any]]) -> dict[str, Any]:
    """The reply of a call, errors included; in time."""
    try:
        return future.result(DEADLINE_S)
    except ToolError as error:
        return error.body


@full
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the memory of a process")
def test_a_huge_file_is_refused_by_its_size_and_is_never_read(make_project: MakeProject) -> None:
    """By each tool that reads sources, and when a run starts for a file that has grown."""
    project = make_project(grown="total = 1\n", test_it=TEST)
    huge(project / "huge.py", 2_000_000_000)
    line: dict[str, Any] = {"file": "huge.py", "line": 1}
    with front_end(project) as server:
        server.initialize()
        id = server.call("breakpoint_set", file="grown.py", line=1)["id"]
        traced: dict[str, Any] = {"tracepoints": [line]}
        tools = {"breakpoint_set": line, "tracepoint_set": line, "test_run": traced}
        for tool, arguments in tools.items():
            result = server.request("tools/call", {"name": tool, "arguments": arguments})
            refused = json.loads(result["content"][0]["text"])
            assert refused["error"] == "invalid_source", refused
            assert "huge.py can't be compiled: it has 2,000,000,000 bytes" in refused["message"]
        functions = server.call("breakpoint_list_functions")
        assert "huge.py (it is larger than 1,000,000 bytes)" in functions["message"]
        huge(project / "grown.py", 2_000_000_000)
        server.call("test_run", pause_on="never")
        (listed,) = server.call("breakpoint_list")["breakpoints"]
        assert listed["id"] == id
        assert "2,000,000,000 bytes" in listed["message"]
        status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
        (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        assert int(peak) < 500_000  # kB
        server.leave()


@pytest.mark.parametrize("size", [4_000_001, 12_000_000])
def test_a_file_that_takes_too_long_to_compile_is_refused_by_its_size(
    bench: Bench, size: int
) -> None:
    """At once, with the way out."""
    huge(bench.root / "large.py", size)
    refused = bench.agent.refused("breakpoint_set", file="large.py", line=1)
    assert refused["error"] == "invalid_source"
    assert "into a smaller file" in refused["message"]


ENCODINGS = {
    "rot13": "none of texts",
    "hex": "none of texts",
    "zip": "none of texts",
    "base64": "none of texts",
    "undefined": "undefined encoding",
    "utf-16": "utf-16",
    "klingon": "unknown encoding",
    "punycode": "too long to decode",
    "idna": "too long to decode",
}


@pytest.mark.full
def test_an_encoding_that_is_none_of_sources_is_reported(bench: Bench) -> None:
    """Codecs for other things than texts, unknown ones, and slow ones; by each tool."""
    for encoding, reason in ENCODINGS.items():
        bench.write(**{"odd.py": f"# -*- coding: {encoding} -*-\ntotal = 1\n"})
        for tool in ("breakpoint_set", "tracepoint_set"):
            refused = bench.agent.refused(tool, file="odd.py", line=2)
            assert refused["error"] == "invalid_source", refused
            assert "odd.py" in refused["message"]
            assert reason in refused["message"]
        reported = bench.agent.call("breakpoint_list_functions")
        assert "odd.py" in reported["message"]
        assert reported["skipped"] == 1


@full
def test_a_file_in_a_slow_encoding_stops_nobody(bench: Bench) -> None:
    """A minute of the event loop, were it decoded as it says."""
    text = "# -*- coding: punycode -*-\nx = 1\n"
    bench.write(**{"slow.py": f"{text}# -{'a' * 800_000}"}, test_it=TEST)
    bench.run()
    reading = bench.agent.portal.start_task_soon(
        bench.agent.client.read_resource, "debugger://source/slow.py"
    )
    (content,) = reading.result(DEADLINE_S).contents
    assert content.text.startswith(text)  # type: ignore[union-attr]
    assert "slow.py" in bench.agent.call("breakpoint_list_functions")["message"]


@full
def test_a_thousand_breakpoints_at_once_are_each_set_as_if_alone(bench: Bench) -> None:
    """In a file of 10,000 lines, with mistakes among them, and in two other files."""
    bench.write(**{"big.py": blocks(10_000), "bad.py": "x = (\n", "small.py": "a = 1\nb = 2\n"})
    asked: list[dict[str, Any]] = [
        {"file": "big.py", "line": 10 * number + (4 if number % 10 == 3 else 2)}
        for number in range(997)
    ]
    asked += [{"file": "bad.py", "line": 1}, {"file": "small.py", "line": 2}]
    asked += [{"file": "big.py", "line": 3, "condition": "b ="}]
    calls = [bench.agent.start("breakpoint_set", **each) for each in reversed(asked)]
    replies = [answer(each) for each in reversed(calls)]
    for each, reply in zip(asked[:997], replies, strict=False):
        if each["line"] % 10 == 4:
            assert (reply["error"], reply["nearestValidLine"]) == ("invalid_line", each["line"] + 1)
        else:
            assert reply["location"]["line"] == each["line"]
            assert reply["location"]["function"] == f"f{each['line'] // 5}"
    bad, small, condition = replies[997:]
    assert (bad["error"], condition["error"]) == ("invalid_source", "invalid_condition")
    assert small["location"] == {"file": "small.py", "line": 2, "function": "<module>"}
    assert bench.agent.call("breakpoint_list")["total_count"] == 898
