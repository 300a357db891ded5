"""`debug_step` in real runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.workbench import Bench

TILL = """
    def total(prices, rate):
        amount = 0
        for price in prices:
            amount += price * rate
        return amount

    def checked(price):
        if price < 0:
            raise ValueError(price)
        return price
"""

TEST = """
    from till import checked, total

    def test_total():
        rate = 2
        amount = total([1, 2], rate)
        del rate
        try:
            checked(-amount)
        except ValueError as error:
            amount = 0
        assert amount == 0
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    """A module with a loop and a function that raises."""
    bench.write(**{"till.py": TILL})
    return bench


def stop_at(bench: Bench, line: int, text: str) -> dict[str, Any]:
    """The stop of a test with a breakpoint at one of its lines."""
    bench.write(test_it=text)
    bench.agent.call("breakpoint_set", file="test_it.py", line=line)
    return bench.stop_of(text)


class Stepper:
    """Steps from one pause on."""

    def __init__(self, bench: Bench, stop: dict[str, Any]) -> None:
        self._bench = bench
        self.id = stop["pause_id"]

    def step(self, mode: str = "over", **options: Any) -> dict[str, Any]:
        """The reply of `debug_step`."""
        return self._bench.agent.call("debug_step", pause_id=self.id, mode=mode, **options)

    def place(self, mode: str = "over", **options: Any) -> tuple[str, int]:
        """Function and line where a step ends."""
        reply = self.step(mode, **options)
        assert (reply["reason"], reply["pause_id"]) == ("step", self.id)
        return reply["location"]["function"], reply["location"]["line"]


@pytest.mark.full
def test_steps_report_the_place_and_what_changed_and_the_pause_stays(till: Bench) -> None:
    """In, over, out, count, until_line; the session of the REPL goes on."""
    agent = till.agent
    stop = stop_at(till, 5, TEST)
    steps = Stepper(till, stop)
    till.eval(stop, "mine = 40")
    reply = steps.step()
    assert (reply["reason"], reply["state"]) == ("step", "paused")
    assert reply["pause_id"] == stop["pause_id"]
    assert (reply["location"]["line"], reply["changed"]) == (6, {"rate": "2"})
    (paused,) = agent.call("breakpoint_list_paused")["paused"]
    assert paused["id"] == stop["pause_id"]
    assert (paused["pause_reason"], paused["phase"]) == ("step", "line")
    assert paused["location"] == reply["location"]
    assert paused["repl_sessions"]
    assert till.eval(stop, "mine + rate") == "42"
    entered = steps.step("in")
    assert (entered["location"]["file"], entered["location"]["line"]) == ("till.py", 3)
    assert entered["changed"] == {"prices": "[1, 2]", "rate": "2"}
    assert steps.step(count=3)["changed"] == {"amount": "2", "price": "1"}
    assert steps.place(until_line=6) == ("total", 6)
    out = steps.step("out")
    assert (out["location"]["line"], out["changed"]) == (7, {"amount": "6"})
    assert steps.step()["changed"] == {"rate": "<deleted>"}
    assert steps.place() == ("test_total", 9)
    assert steps.place() == ("test_total", 10)
    assert steps.place() == ("test_total", 11)
    till.eval(stop, "amount = 0")
    assert steps.place() == ("test_total", 12)
    over = steps.step()
    assert (over["reason"], "location" in over) == ("test_finished", False)
    assert till.until("finished")["outcomes"] == {"passed": 1}
    closed = agent.refused("breakpoint_repl_eval", pause_id=stop["pause_id"], expression="1")
    assert (closed["error"], closed["reason"]) == ("pause_not_found", "already_resumed")
    run = agent.call("debug_state")["run_id"]
    events = agent.call("timeline_get", run_id=run, types=["stop", "resumed"])["events"]
    actions = {each.get("action") for each in events if each["type"] == "resumed"}
    assert actions == {"step"}
    assert [each["type"] for each in events] == ["stop", "resumed"] * (len(events) // 2)


@pytest.mark.full
def test_steps_from_a_call_and_a_breakpoint_on_the_way(till: Bench) -> None:
    """`before`: in is the callee's first line, over the caller's next; breakpoints stop a step."""
    agent = till.agent
    till.breakpoint("till.total")
    stop = till.stop_of(TEST)
    assert stop["phase"] == "before"
    steps = Stepper(till, stop)
    till.eval(stop, "rate = 5")
    entered = steps.step("in")
    assert (entered["location"]["line"], entered["phase"]) == (3, "line")
    assert entered["changed"]["rate"] == "5"
    agent.call("breakpoint_set", file="till.py", line=5, condition="price == 2")
    hit = steps.step("out")
    assert (hit["reason"], hit["pause_id"]) == ("breakpoint", stop["pause_id"])
    assert hit["breakpoint_id"].startswith("bp-")
    assert steps.place("out") == ("test_total", 7)
    refused = agent.refused("debug_step", pause_id=stop["pause_id"], until_line=500)
    assert (refused["error"], refused["nearestValidLine"]) == ("invalid_line", 12)
    till.breakpoint("till.checked")
    before = steps.step(count=5)
    assert (before["reason"], before["phase"]) == ("breakpoint", "before")
    assert before["call_data"]["pretty_args"] == ["-15"]
    agent.call("breakpoint_set_exception", exception_type="ValueError")
    raised = steps.step()
    assert (raised["reason"], raised["phase"]) == ("exception", "raise")
    assert raised["location"]["function"] == "checked"
    assert steps.place() == ("test_total", 10)
    assert till.go_on(stop)["exit_code"] == 0


@pytest.mark.full
def test_a_step_into_a_failure_is_its_post_mortem(till: Bench) -> None:
    """The same pause; the way out of a step that makes no sense."""
    stop = stop_at(till, 12, TEST.replace("amount == 0", "amount == 1"))
    steps = Stepper(till, stop)
    reply = steps.step()
    assert (reply["reason"], reply["phase"], reply["pause_id"]) == (
        "exception",
        "post_mortem",
        stop["pause_id"],
    )
    assert "autopsy" in reply
    assert "pending" not in reply
    refused = till.agent.refused("debug_step", pause_id=stop["pause_id"])
    assert (refused["error"], refused["allowed"]) == ("invalid_action", ["continue"])
    assert "breakpoint_set" in refused["message"]
    assert till.go_on(stop)["outcomes"] == {"passed": 0, "failed": 1}


@pytest.mark.full
def test_a_long_step_is_reported_later(bench: Bench) -> None:
    """`running` in time; the stop is news to `breakpoint_wait`, once."""
    stop = stop_at(
        bench,
        5,
        """
        import threading
        go = threading.Event()
        def test_it():
            assert go.wait(20)
            go.clear()
        """,
    )
    steps = Stepper(bench, stop)
    bench.eval(stop, "import threading; threading.Timer(0.8, go.set).start()")
    reply = steps.step(timeout_s=0.1)
    assert (reply["reason"], reply["state"]) == ("running", "running")
    refused = bench.agent.refused("debug_step", pause_id=stop["pause_id"])
    assert (refused["error"], "breakpoint_wait" in refused["message"]) == ("pause_not_found", True)
    waited = bench.agent.call("breakpoint_wait")
    assert (waited["hit"], waited["pause_id"], waited["reason"]) == (True, stop["pause_id"], "step")
    assert waited["location"]["line"] == 6
    again = bench.agent.call("breakpoint_wait", timeout_ms=1000)
    assert (again["hit"], again["reason"]) == (False, "paused")
    assert bench.go_on(stop)["exit_code"] == 0


@pytest.mark.full
def test_nothing_of_the_program_is_kept_while_it_steps(bench: Bench) -> None:
    """Objects end when they end without us."""
    stop = stop_at(
        bench,
        9,
        """
        import weakref

        class Thing:
            pass

        def make():
            thing = Thing()
            return weakref.ref(thing)

        def test_it():
            reference = make()
            assert reference() is None
        """,
    )
    bench.eval(stop, "thing")
    steps = Stepper(bench, stop)
    assert steps.place("out") == ("test_it", 13)
    assert steps.step()["reason"] == "test_finished"
    assert bench.until("finished")["outcomes"] == {"passed": 1}


@pytest.mark.full
def test_tasks_generators_and_other_threads(bench: Bench) -> None:
    """A step over `await` and `yield` stays with its frame; others run on."""
    stop = stop_at(
        bench,
        18,
        """
        import asyncio
        import threading

        def items():
            yield 1
            yield 2

        async def slow(number):
            await asyncio.sleep(0.01)
            return number

        async def other():
            for _ in range(50):
                await asyncio.sleep(0.001)

        async def main():
            task = asyncio.ensure_future(other())
            one = await slow(1)
            for each in items():
                one += each
            await task
            return one

        def test_it():
            thread = threading.Thread(target=lambda: [next(items()) for _ in range(1000)])
            thread.start()
            assert asyncio.run(main()) == 4
            thread.join()
        """,
    )
    steps = Stepper(bench, stop)
    assert steps.place() == ("main", 19)
    assert steps.place() == ("main", 20)
    assert steps.place("in") == ("items", 6)
    assert steps.place("in") == ("main", 21)
    assert steps.place() == ("main", 20)
    assert steps.place("in") == ("items", 7)
    assert steps.place("out") == ("main", 21)
    assert steps.place(until_line=22) == ("main", 22)
    assert steps.place() == ("main", 23)
    assert steps.place() == ("test_it", 29)
    assert steps.step(count=9)["reason"] == "test_finished"
    assert bench.until("finished")["outcomes"]["passed"] == 1


@pytest.mark.full
def test_from_after_and_exception_and_in_threads(till: Bench) -> None:
    """Every phase in which a step makes sense; a thread that ends, ends its step."""
    agent = till.agent
    for name in ("total", "checked"):
        till.breakpoint(f"till.{name}", behavior="go")
        agent.call(
            "breakpoint_set_after_behavior",
            function_name=f"till.{name}",
            behavior="stop_exception",
        )
    stop = till.stop_of(TEST)
    steps = Stepper(till, stop)
    assert stop["phase"] == "after"
    assert steps.place("in") == ("test_total", 7)
    caught = steps.step(count=9)
    assert (caught["reason"], caught["phase"]) == ("exception", "exception")
    assert steps.place() == ("test_total", 10)
    till.go_on(stop)
    for name in ("total", "checked"):
        agent.call("breakpoint_remove", function_name=f"till.{name}")
    stop = stop_at(
        till,
        5,
        """
        import threading

        def work():
            done.append(1)

        done = []

        def test_it():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert done
        """,
    )
    assert stop["thread"]["name"] != "MainThread"
    assert Stepper(till, stop).step()["reason"] == "test_finished"
    assert till.until("finished")["outcomes"] == {"passed": 1}
