"""Nothing of ours is left in the interpreter when a run is over, whatever was under way."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.frontend import wait_until
from tests.together.workbench import Bench

pytestmark = pytest.mark.full

LOOKING = """
    import atexit
    import gc
    import json
    import os
    import sys
    import threading
    import types

    def codes():
        kinds = {types.FunctionType: "__code__", types.GeneratorType: "gi_code"}
        known = [each for each in gc.get_objects() if type(each) in kinds]
        left = [getattr(each, kinds[type(each)]) for each in known]
        left += [frame.f_code for frame in sys._current_frames().values()]
        seen = {}
        while left:
            code = left.pop()
            if id(code) not in seen:
                seen[id(code)] = code
                left += [each for each in code.co_consts if type(each) is types.CodeType]
        return list(seen.values())

    def tracers():
        found = [sys.gettrace(), threading.gettrace(), sys.getprofile(), threading.getprofile()]
        for frame in sys._current_frames().values():
            while frame is not None:
                found.append(frame.f_trace)
                frame = frame.f_back
        return [repr(each) for each in found if each is not None]

    def look(file):
        claimed, armed, events, callbacks = [], [], [], []
        for tool in (2, 4, 5) if sys.version_info >= (3, 12) else ():
            monitoring = sys.monitoring
            owner = monitoring.get_tool(tool)
            if owner:
                claimed.append(owner)
            else:
                monitoring.use_tool_id(tool, "look")
            armed += [each.co_name for each in codes() if monitoring.get_local_events(tool, each)]
            if monitoring.get_events(tool):
                events.append(tool)
            if not owner:
                for each in range(17):
                    callbacks += filter(None, [monitoring.register_callback(tool, 1 << each, None)])
                monitoring.free_tool_id(tool)
        found = {"claimed": claimed, "armed": sorted(armed), "events": events}
        found |= {"callbacks": list(map(repr, callbacks)), "tracers": tracers()}
        with open(f"{file}.part", "w") as report:
            json.dump(found, report)
        os.replace(f"{file}.part", file)

    atexit.register(look, "left.json")
"""

TILL = """
    import threading

    entered = threading.Event()

    def total(prices):
        amount = 0
        for price in prices:
            amount += price
        return amount

    def ticks():
        number = 0
        while True:
            yield number
            number += 1

    def hang():
        entered.set()
        threading.Event().wait()
        return 1
"""

TEST = """
    import pathlib
    import threading
    import till
    from conftest import look

    suspended = till.ticks()

    def test_it():
        assert till.total([1, 2, 3]) == 6
        next(suspended), next(suspended)
        try:
            {}["nope"]
        except KeyError:
            pass

    def test_look():
        threading.Thread(target=till.hang, daemon=True).start()
        till.entered.wait()
        while not pathlib.Path("go").exists():
            pass
        look("during.json")
"""


def found(bench: Bench, name: str) -> dict[str, Any]:
    file = bench.root / name
    wait_until(file.exists, f"{name} is there")  # the process ends after its run
    reported: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return reported


def test_no_code_is_armed_and_no_callback_registered_after_a_run(bench: Bench) -> None:
    """Lines, also of a suspended generator; exceptions; recorded calls; a step that never ends."""
    bench.write(**{"conftest.py": LOOKING, "till.py": TILL})
    bench.breakpoint("till.total", behavior="go")
    bench.agent.call("breakpoint_set_exception", exception_type="KeyError")
    bench.agent.call("tracepoint_set", file="till.py", line=9, log_message="{price}")
    bench.agent.call("tracepoint_set", file="till.py", line=16, log_message="{number}")
    bench.agent.call("breakpoint_set", file="till.py", line=10)
    bench.agent.call("breakpoint_set", file="till.py", line=19)
    stop = bench.stop_of(TEST)
    assert stop["location"]["line"] == 10
    step = bench.agent.call("debug_step", pause_id=stop["pause_id"])
    assert step["location"]["function"] == "test_it"
    raised = only_stop(bench.go_on(stop))
    assert raised["phase"] == "raise"
    hanging = only_stop(bench.go_on(raised))
    assert hanging["location"]["function"] == "hang"
    assert bench.agent.call("debug_step", pause_id=hanging["pause_id"])["location"]["line"] == 20
    step = bench.agent.call("debug_step", pause_id=hanging["pause_id"], timeout_s=0.1)
    assert step["reason"] == "running"
    (bench.root / "go").touch()
    bench.until("finished")
    assert bench.agent.call("debug_state")["outcomes"] == {"passed": 2}
    during = found(bench, "during.json")
    if sys.version_info >= (3, 12):
        assert during["claimed"] == ["pytest-cideldill"] * 2
        assert {"total", "ticks", "hang"} <= set(during["armed"])
        assert during["events"]
    else:
        assert during["tracers"]
    assert found(bench, "left.json") == {key: [] for key in during}
