"""Which calls stop: names, precedence, behaviors, conditions, removal, release, fork."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.protocol import Begin, Bound, Configure, Refused, Stopped, Warned
from tests.process import tills
from tests.process.debuggee import ROOT, Debuggee, debuggee
from tests.process.tills import COUNT_UP, price_of, price_twice

pytestmark = pytest.mark.full  # many scans of all that a test process holds

TILLS = "tests.process.tills"


@pytest.fixture
def process() -> Iterator[Debuggee]:
    with debuggee() as made:
        yield made


# --- names and precedence -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "price_of",
        f"{TILLS}.price_of",
        f"{TILLS}:price_of",
        "tests/process/tills.py::price_of",
        f"{TILLS}.price_o?",
    ],
)
def test_every_form_of_name_binds(process: Debuggee, name: str) -> None:
    """The five forms of a name (docs/names.md)."""
    assert f"{TILLS}.price_of" in process.add(name)["functions"]
    process.stops(price_of, 1)


def test_exact_beats_bare_beats_glob_then_the_newest_wins(process: Debuggee) -> None:
    """Whichever was added last; the winner alone decides."""
    process.add("price_of", "stop", id="fn-1")
    process.add(f"{TILLS}.price_*", "go", id="fn-2")
    assert process.stops(price_of, 1)["breakpoint_id"] == "fn-1"
    process.add(f"{TILLS}.price_of", "go", id="fn-3")
    process.passes(price_of, 1)
    process.add(f"{TILLS}:price_of", "stop", id="fn-4")
    assert process.stops(price_of, 1)["breakpoint_id"] == "fn-4"
    process.remove("fn-4")
    process.passes(price_of, 1)
    process.remove("fn-3")
    assert process.stops(price_of, 1)["breakpoint_id"] == "fn-1"
    process.remove("fn-1")
    process.passes(price_of, 1)


def test_adding_again_changes_only_what_is_given_and_not_the_order(process: Debuggee) -> None:
    """The same name again keeps its id, and so its place among equals."""
    process.add(f"{TILLS}.price_of", "stop", id="fn-1")
    process.add(f"{TILLS}:price_of", "go", id="fn-2")
    process.add(f"{TILLS}.price_of", "stop", id="fn-1")
    process.passes(price_of, 1)
    process.add(f"{TILLS}:price_of", "stop", id="fn-2")
    assert process.stops(price_of, 1)["breakpoint_id"] == "fn-2"


def test_a_call_stops_once_however_often_breakpoints_change(process: Debuggee) -> None:
    """Binding scans all functions, our own copies of the intercepted ones included."""
    process.add(f"{TILLS}:price_of", id="fn-1")
    process.add(f"{TILLS}:counter.count_up", id="fn-2")
    process.manager.bind()
    for function in (price_of, COUNT_UP):
        running = process.call(function, 0)
        pause = process.stop()["id"]
        process.manager.bind()
        process.resume(pause)
        running.result()
        assert not process.has(Stopped)


def test_bare_names_and_globs_mean_the_project_only(process: Debuggee) -> None:
    """Every function of that name in the project; exact names mean any."""
    assert process.add("dedent")["functions"] == []
    assert process.add("textwrap.dede*", id="fn-2")["functions"] == []
    assert process.add("textwrap.dedent", id="fn-3")["functions"] == ["textwrap.dedent"]
    process.stops(textwrap.dedent, "x")


def test_removal_puts_the_very_code_object_back(process: Debuggee) -> None:
    """Whatever holds or compares code objects (coverage, profilers) sees no trace of us."""
    code, closure_code = price_of.__code__, COUNT_UP.__code__
    process.add("price_of", id="fn-1")
    process.add(f"{TILLS}.*", id="fn-2")
    assert code_of(price_of) is not code
    process.remove("fn-2")
    assert code_of(price_of) is not code
    process.remove("fn-1")
    assert code_of(price_of) is code is price_of.__code__
    assert code_of(COUNT_UP) is closure_code
    assert process.remove("fn-99") == {"removed": True}


def test_present_pauses_stay_when_their_breakpoint_is_removed(process: Debuggee) -> None:
    """What was decided at the call's start goes on."""
    process.add(f"{TILLS}:price_of")
    running = process.call(price_twice, 1)
    id = process.stop()["id"]
    process.remove()
    assert running.thread.is_alive()
    process.resume(id, "skip", fake_result=100)
    assert running.result() == 103


def test_a_function_that_appears_later_is_bound_later(process: Debuggee) -> None:
    """`Bound` tells; the same news is not told twice."""
    assert process.add("born_after_the_breakpoint") == {
        "functions": [], "verified": False, "message": None, "via": None,
    }  # fmt: skip
    process.next(Bound)
    namespace: dict[str, Any] = {"__name__": "late"}
    exec(compile("def born_after_the_breakpoint(): return 5", __file__, "exec"), namespace)
    process.manager.bind()
    found = ["late.born_after_the_breakpoint"]
    assert process.next(Bound) == Bound("fn-1", found, verified=True, via="code")
    process.stops(namespace["born_after_the_breakpoint"])
    process.manager.bind()
    assert not process.has(Bound)


def test_no_code_of_a_program_runs_while_functions_are_found(process: Debuggee) -> None:
    """Globals may be a dictionary whose methods are the program's."""
    asked = []

    class Globals(dict[str, Any]):
        def get(self, *names: Any) -> Any:
            asked.append(names)

        __getitem__ = get

    names = Globals(__name__="late", __file__=__file__)
    exec(compile("def of_these_globals(): return 5", __file__, "exec"), names)
    asked.clear()
    process.add("of_these_globals")
    process.next(Bound)
    assert asked == []
    process.stops(dict.pop(names, "of_these_globals"))


@pytest.mark.parametrize("is_first", [True, False])
def test_generated_code_is_meant_where_the_module_has_no_such_function(
    process: Debuggee, *, is_first: bool
) -> None:
    """What a library makes in the name of a function; what a program makes for a module."""
    others: dict[str, Any] = {"__name__": TILLS}
    generated = "def price_of(amount, each=3): return 0\ndef made(): return 1"
    if is_first:
        exec(generated, others)
    process.add(f"{TILLS}.price_of")
    if not is_first:
        exec(generated, others)
        process.manager.bind()
    assert process.passes(others["price_of"], 1) == 0
    process.stops(price_of, 1)
    process.add(f"{TILLS}.made", id="fn-2")
    process.stops(others["made"])
    exec("def price_of(amount): return 7", vars(tills))
    try:
        process.manager.bind()
        process.stops(tills.price_of, 1)
    finally:
        tills.price_of = price_of


@pytest.mark.parametrize(
    ("behavior", "stops"),
    [("stop", True), ("yield", True), ("stop_exception", True), ("go", False)],
)
def test_a_behavior_decides_whether_a_call_stops(
    process: Debuggee, behavior: str, stops: bool
) -> None:
    """`yield` defers to the default, initially `stop`."""
    process.add(f"{TILLS}:price_of", behavior)
    if stops:
        process.stops(price_of, 1)
    else:
        assert process.passes(price_of, 1) == 3


# --- conditions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "amount", "stops"),
    [
        ("amount > 3", 4, True),
        ("amount > 3", 3, False),
        ("each == 3 and not discount", 1, True),  # defaults are bound
        ("callable(functools.wraps) and amount", 0, False),  # globals are seen
        ("any(amount == each for each in [1, 2])", 2, True),  # nested scopes too
        ("[x for x in [1] if x == amount]", 1, True),
        ("  amount\n", 0, False),
        ("price_of(1) == 3", 1, True),  # hits no breakpoint itself
    ],
)
def test_a_condition_over_the_arguments_decides(
    process: Debuggee, condition: str, amount: int, stops: bool
) -> None:
    """An expression over the arguments."""
    process.add(f"{TILLS}:price_of", condition=condition)
    if stops:
        assert process.stops(price_of, amount)["pause_reason"] == "breakpoint"
    else:
        process.passes(price_of, amount)


def test_a_condition_that_raises_stops_once_and_says_so(process: Debuggee) -> None:
    """Then it counts as false; added anew it may stop again."""
    process.add(f"{TILLS}:price_of", condition="amount.nothing")
    running = process.call(price_of, 1)
    pause = process.stop()
    assert pause["pause_reason"] == "condition_error"
    process.resume(pause["id"])
    running.result()
    process.passes(price_of, 1)
    process.add(f"{TILLS}:price_of", condition="amount.still_nothing")
    assert process.stops(price_of, 1)["pause_reason"] == "condition_error"


def test_a_failing_condition_is_reported_once(process: Debuggee) -> None:
    """`Warned` names the breakpoint and the error."""
    process.add(f"{TILLS}:price_of", condition="1 / 0")
    process.call(price_of, 1)
    reported = process.next(Warned).message
    assert "fn-1" in reported
    assert "ZeroDivisionError" in reported


@pytest.mark.parametrize("condition", ["amount >", "x = 1", "\0", "(", "return 1"])
def test_a_malformed_condition_is_refused_and_nothing_is_set(
    process: Debuggee, condition: str
) -> None:
    """`invalid_condition`."""
    body = process.refused(process.add, f"{TILLS}:price_of", condition=condition)
    assert body["error"] == "invalid_condition"
    assert process.passes(price_of, 1) == 3


# --- the end, and other processes ---------------------------------------------------------------


def test_a_release_lets_all_go_and_watches_nothing_any_more(process: Debuggee) -> None:
    """Lost link, end of the run: the test finishes as without us."""
    code = price_of.__code__
    process.add(f"{TILLS}:price_of")
    running = [process.call(price_of, n) for n in range(3)]
    for _ in running:
        process.stop()
    process.manager.release("disconnect")
    assert [each.result() for each in running] == [0, 3, 6]
    assert price_of.__code__ is code
    assert process.passes(price_of, 1) == 3


def test_a_command_that_is_none_after_the_handshake_is_refused_by_name(process: Debuggee) -> None:
    for command, kind in ((Begin(), "begin"), (Configure("never", 1.0), "configure")):
        process.manager.apply(command)
        assert process.next(Refused).refused_kind == kind


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_pause() -> None:
    """Nobody could ever release it; the parent stops as before."""
    script = """
        import os
        from tests.process.debuggee import debuggee
        from tests.process.tills import price_of
        with debuggee() as process:
            code = price_of.__code__
            process.add(f"{price_of.__module__}:price_of")
            pid = os.fork()
            if pid == 0:
                if price_of(2) == 6 and price_of.__code__ is code:
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0
            process.stops(price_of, 2)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0
