"""Standing replacements by functions that are not loaded yet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

FILES = {
    "bank": """
        def fee(amount):
            return amount * 2

        def refund(amount):
            return -fee(amount)
    """,
    "fixes": """
        def free(amount): return 0
        def other(sum): return 0
        def twin(amount): return 1
        class Old:
            def twin(self): return 2
    """,
    "test_it": """
        import bank

        def test_late():
            assert bank.fee(5) == 10
            import fixes
            assert bank.fee(5) == 0

        def test_never():
            assert bank.fee(5) == 10
    """,
}


@pytest.fixture
def bank(bench: Bench) -> Bench:
    bench.write(**FILES)
    bench.breakpoint("bank.fee", behavior="go")
    return bench


def replace(bench: Bench, name: str, **how: Any) -> dict[str, Any]:
    return bench.agent.call(
        "breakpoint_set_replacement", function_name="bank.fee", replacement_function=name, **how
    )


def refused(bench: Bench, name: str) -> dict[str, Any]:
    return bench.agent.refused(
        "breakpoint_set_replacement", function_name="bank.fee", replacement_function=name
    )


@full
def test_one_of_the_sources_is_called_once_it_is_loaded(bank: Bench) -> None:
    """Set before the run; until then the original is called, and a warning says so."""
    reply = replace(bank, "fixes.free")
    assert (reply["replacement_function"], reply["verified"]) == ("fixes.free", False)
    assert "not checked yet" in reply["message"]
    run = bank.run(["test_it.py::test_late"])
    assert (run["exit_code"], run["outcomes"]["passed"]) == (0, 1)
    (warning,) = run["warnings"]
    assert "no function 'fixes.free' is loaded" in warning
    calls = bank.agent.call("breakpoint_get_call_records", function_name="bank.fee")["calls"]
    assert [call.get("replaced_by") for call in calls[-2:]] == [None, "fixes.free"]


@full
@pytest.mark.sample("fixes.free", "free")
@pytest.mark.parametrize("name", ["fixes.free", "free", "fixes:free", "fixes.py::free"])
def test_each_spelling_means_it_in_the_sources_and_in_a_pause(bank: Bench, name: str) -> None:
    """While a process is alive that has not loaded it, too."""
    bank.agent.call("breakpoint_set", file="test_it.py", line=5)
    stop = only_stop(bank.run(["test_it.py::test_late"]))
    assert replace(bank, name)["verified"] is False
    assert bank.go_on(stop)["exit_code"] == 0
    bank.agent.call("breakpoint_set", file="test_it.py", line=7)
    stop = only_stop(bank.run(["test_it.py::test_late"]))  # at line 5
    stop = only_stop(bank.go_on(stop))
    reply = replace(bank, name)
    assert (reply["verified"], "message" in reply) == (True, False)
    assert bank.go_on(stop)["exit_code"] == 0
    # The next run starts without it again.
    assert replace(bank, "")["verified"] is True


@full
def test_a_signature_that_differs_is_found_when_it_is_loaded(bank: Bench) -> None:
    """The call is not replaced then, and a warning has both signatures."""
    assert replace(bank, "fixes.other")["verified"] is False
    run = bank.run(["test_it.py::test_late"], pause_on="never")
    assert run["outcomes"]["failed"] == 1
    assert any(
        "fixes.other(sum) does not have the signature (amount)" in each for each in run["warnings"]
    )
    bank.agent.call("breakpoint_set", file="test_it.py", line=7)
    stop = only_stop(bank.run(["test_it.py::test_late"], pause_on="never"))
    assert refused(bank, "fixes.other")["error"] == "signature_mismatch"
    # What was refused changes nothing.
    listed = bank.agent.call("breakpoint_list_breakpoints")
    assert listed["replacements"] == {"bank.fee": "fixes.other"}
    replace(bank, "")
    assert bank.go_on(stop)["outcomes"]["failed"] == 1


@full
def test_what_is_nowhere_or_means_several_is_refused(bank: Bench) -> None:
    """Before a run, and by a process that is alive."""

    def check() -> None:
        for name, said in (
            ("fixes.fee", "no function 'fixes.fee' is loaded"),
            ("fixes.fre", "did you mean fixes.free"),
            ("twin", "means 2 functions: fixes.Old.twin (fixes.py:6), fixes.twin (fixes.py:4)"),
            ("fixes.*", "fixes.*"),
            ("no name", "no name"),
        ):
            body = refused(bank, name)
            assert body["error"] == "function_not_found", name
            assert said in body["message"]
        assert bank.agent.call("breakpoint_list_breakpoints")["replacements"] == {}

    check()
    assert refused(bank, "math.sqrt")["error"] == "function_not_found"
    bank.agent.call("breakpoint_set", file="test_it.py", line=10)
    stop = only_stop(bank.run(["test_it.py::test_never"]))
    check()
    assert bank.go_on(stop)["exit_code"] == 0
