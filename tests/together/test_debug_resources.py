"""`debugger://…` of real runs: what processes tell at a pause, while they run, when they can't.

Scenarios of their use are in `test_debugger_state.py`; tests without a real process are in
`tests/server/test_debugresources.py` and `test_sourcefiles.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError

from tests.together.frontend import wait_until
from tests.together.workbench import Bench

SOON_S = 0.5
"""019, SC-006."""

MANY = 200

HANGS = f"""
    import ctypes
    import os
    import threading
    import time

    def here():
        pass

    def spin():
        while not os.path.exists("enough"):
            time.sleep(0.01)

    def test_it():
        os.mkfifo("gate")
        go = threading.Event()
        threads = [threading.Thread(target=go.wait, name=f"t{{n}}") for n in range({MANY - 1})]
        for each in threads:
            each.start()
        here()
        spin()
        gate = os.open("gate", os.O_RDWR)
        # Unlike CDLL it keeps the interpreter.
        ctypes.PyDLL(None).read(gate, ctypes.create_string_buffer(1), 1)
        go.set()
        for each in threads:
            each.join()
"""


def soon(read: Callable[[], Any]) -> Any:
    """What is read, in time."""
    began = time.monotonic()
    reported = read()
    assert time.monotonic() - began < SOON_S
    return reported


@pytest.mark.full
def test_reads_are_quick_however_much_there_is_and_whatever_the_tests_do(bench: Bench) -> None:
    """019, SC-006: 100 breakpoints, 200 threads; paused, running, stuck in C, over."""
    path = bench.write(many="".join(f"class E{n}(Exception):\n    pass\n" for n in range(98)))
    for n in range(98):
        bench.agent.call("breakpoint_set_exception", exception_type=f"many.E{n}")
    bench.breakpoint("test_it.here")
    line = {"file": path.name, "line": 2, "log_message": "never"}
    stop = bench.stop_of(HANGS, tracepoints=[line])

    def threads() -> dict[str, Any]:
        reported = soon(lambda: bench.agent.read("debugger://threads"))
        assert isinstance(reported, dict)
        return reported

    reported = soon(lambda: bench.agent.read("debugger://breakpoints"))
    assert len(reported["breakpoints"]) == 100
    assert soon(lambda: bench.agent.read("debugger://session"))["pauseId"] == stop["pause_id"]
    assert soon(lambda: bench.agent.source("many.py")) == path.read_text(encoding="utf-8")
    paused = threads()
    assert (len(paused["threads"]), paused["stale"]) == (MANY, False)
    assert [each["name"] for each in paused["threads"] if each["isCurrent"]] == ["MainThread"]
    assert paused["threads"][0]["location"]["function"] == "here"
    bench.agent.call("debug_continue")
    wait_until(lambda: threads()["threads"][0]["location"]["function"] == "spin", "it spins")
    running = threads()
    assert (running["stale"], running["threads"][0]["state"]) == (False, "running")
    (bench.root / "enough").touch()
    wait_until(lambda: threads()["stale"], "it is stuck")
    stuck = threads()
    assert len(stuck["threads"]) == MANY
    assert "does not answer" in stuck["message"]
    assert soon(lambda: bench.agent.read("debugger://session"))["state"] == "running"
    assert soon(lambda: bench.agent.source("many.py"))
    (bench.root / "gate").write_bytes(b"x")
    bench.until("finished")
    over = threads()
    assert (over["stale"], len(over["threads"])) == (True, MANY)


@pytest.mark.full
def test_each_worker_of_xdist_is_distinguished(bench: Bench) -> None:
    """Its process, its state, its threads; both are paused, so that none of them ends."""
    bench.write(test_it="".join(f"def test_{n}(): assert 0\n" for n in range(4)))
    bench.run(workers=2, wait=False)
    bench.until_paused(2)
    session = bench.agent.read("debugger://session")
    processes = {each["worker"]: each for each in session["processes"]}
    assert sorted(processes) == ["gw0", "gw1", "main"]
    assert len({each["processId"] for each in processes.values()}) == 3
    for each in processes.values():
        proc = Path(f"/proc/{each['processId']}")
        assert (proc / "cwd").resolve() == Path(each["workingDirectory"]) == bench.root
        command = (proc / "cmdline").read_bytes().decode().split("\0")
        assert command[1:-1] == each["commandLineArgs"]
        assert (proc / "exe").samefile(each["executablePath"])
    assert {name: each["state"] for name, each in processes.items()} == {
        "gw0": "paused", "gw1": "paused", "main": "running"
    }  # fmt: skip
    assert session["processId"] == processes["main"]["processId"]
    (newest,) = (each for each in processes.values() if each["pauseId"] == session["pauseId"])
    for key in ("currentLocation", "pauseReason", "activeThreadId"):
        assert session[key] == newest[key] is not None

    threads: list[dict[str, Any]] = []

    def are_all_reported() -> bool:
        threads[:] = bench.agent.read("debugger://threads")["threads"]
        return {each["worker"] for each in threads} == processes.keys()

    wait_until(are_all_reported, "no process is too busy to tell its threads")
    (current,) = (each for each in threads if each["isCurrent"])
    assert (current["worker"], current["id"]) == (newest["worker"], session["activeThreadId"])


def refusal(bench: Bench, file: str) -> str:
    """The sentence with which a source file is refused."""
    with pytest.raises(MCPError) as caught:
        bench.agent.source(file)
    assert caught.value.error.code == -32602
    return caught.value.error.message


@pytest.mark.full
def test_sources_are_those_of_the_project_and_of_loaded_code(bench: Bench) -> None:
    """019, edge case: names with spaces and other characters; nothing else can be reached."""
    text = "def f(x):\n    return json.loads(x)\n\ntoken = 'hunter2xyz'\n"
    path = bench.write(**{".env": "A=1\n", "two words/naïve#1.py": f"import json\n{text}"})
    outside = bench.root.parent / "outside.txt"
    outside.write_text("outside", encoding="utf-8")
    (bench.root / "link.py").symlink_to(outside)
    bench.stop_of(
        """
        import runpy

        def test_it():
            runpy.run_path("two words/naïve#1.py")["f"]("{")
        """
    )
    name = path.relative_to(bench.root).as_posix()
    reported = bench.agent.source(quote(name))
    assert reported.split("\n")[:3] == ["import json", "def f(x):", "    return json.loads(x)"]
    assert "hunter2xyz" not in reported
    assert bench.agent.source(name) == bench.agent.source(quote(str(path))) == reported
    for file in (json.__file__, pytest.__file__):
        assert bench.agent.source(file) == Path(file).read_text(encoding="utf-8")
    decoder = json.decoder.__file__
    for file in ("link.py", "../outside.txt", "%2e%2e%2foutside.txt", "/etc/passwd", ".env"):
        assert "nor of code that the tests have loaded" in refusal(bench, file)
    for file in ("none.py", "%252e%252e%252foutside.txt"):
        assert "is not found" in refusal(bench, file)
    bench.agent.call("debug_continue")
    bench.until("finished")
    # In the stack of the failure that was told.
    assert "class JSONDecoder" in bench.agent.source(decoder)
    assert bench.agent.source(json.__file__)
