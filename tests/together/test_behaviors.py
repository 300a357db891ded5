"""Behaviors before and after calls, and replacements, in all combinations, live."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

BANK = """
    class Refused(Exception):
        pass

    def fee(amount):
        if amount < 0:
            raise Refused(amount)
        return amount * 2

    def free(amount):
        return 0

    def other(sum):
        return 0

    def steps(count):
        yield from range(count)
        if count > 2:
            raise Refused(count)
        return "done"

    async def later(amount):
        return fee(amount)

    async def ticks(count):
        for number in range(count):
            yield number
"""

TEST = """
    import pathlib
    from bank import Refused, fee

    def test_fees():
        got = []
        for amount in (3, -3):
            try:
                got.append(fee(amount))
            except Exception as error:
                got.append(f"{type(error).__name__}{error.args}")
        pathlib.Path("got").write_text(repr(got))
"""

DEFAULTS = ("stop", "go", "exception", "stop_exception")
BY_DEFAULT: dict[str, set[str]] = {
    "stop": {"before"},
    "go": set(),
    "exception": {"exception"},
    "stop_exception": {"before", "exception"},
}
BY_BEFORE: dict[str, set[str]] = {"stop": {"before"}, "go": set()}
BY_AFTER: dict[str, set[str]] = {
    "stop": {"after"},
    "go": set(),
    "exception": {"exception"},
    "stop_exception": {"after", "exception"},
}


@pytest.fixture
def bank(bench: Bench) -> Bench:
    """A module with a function that returns and raises."""
    bench.write(bank=BANK)
    return bench


def phases(bank: Bench, text: str = TEST, **options: Any) -> list[str]:
    """The phases of all pauses of a run, each continued."""
    found, reply = [], bank.test(text, **options)
    while reply["state"] == "paused":
        stop = only_stop(reply)
        found.append(stop["phase"])
        reply = bank.go_on(stop)
    return found


def got(bank: Bench) -> str:
    return (bank.root / "got").read_text(encoding="utf-8")


def expected(default: str, before: str, after: str) -> list[str]:
    """Of a call that returns and one that raises, by the two tables here."""
    chosen = BY_DEFAULT[default] & {"before"} if before == "yield" else BY_BEFORE[before]
    chosen = chosen | (BY_DEFAULT[default] & {"exception"} if after == "yield" else BY_AFTER[after])
    first = [each for each in ("before", "after") if each in chosen]
    return first + [each for each in ("before", "exception") if each in chosen]


@pytest.mark.full
@pytest.mark.sample("stop", "stop_exception")
@pytest.mark.parametrize("default", DEFAULTS)
def test_every_combination_pauses_as_the_tables_say(bank: Bench, default: str) -> None:
    """The default, and what yields to it or not."""
    pairs = list(product(("yield", *BY_BEFORE), ("yield", *BY_AFTER)))
    functions = [f"fee_{number}" for number in range(len(pairs))]
    bank.write(fees="\n".join(f"def {name}(amount): return amount / 1" for name in functions))
    bank.agent.call("breakpoint_set_default_behavior", behavior=default)
    for name, (before, after) in zip(functions, pairs, strict=True):
        bank.breakpoint(name, behavior=before)
        bank.agent.call("breakpoint_set_after_behavior", function_name=name, behavior=after)
    text = """
        import fees
        def test_fees():
            for number in range(%d):
                fee = getattr(fees, f"fee_{number}")
                fee(1)
                try:
                    fee("x")
                except TypeError:
                    pass
    """
    wanted = [expected(default, before, after) for before, after in pairs]
    assert phases(bank, text % len(pairs)) == [phase for each in wanted for phase in each]


@pytest.mark.full
@pytest.mark.parametrize(
    ("default", "before", "after"),
    [
        ("stop", "yield", "yield"),
        ("stop_exception", "yield", "stop"),
        ("exception", "go", "yield"),
        ("go", "go", "stop_exception"),
    ],
)
def test_some_combinations_pause_as_the_tables_say(
    bank: Bench, default: str, before: str, after: str
) -> None:
    """A part of the above, for every day."""
    bank.agent.call("breakpoint_set_default_behavior", behavior=default)
    bank.breakpoint("bank.fee", behavior=before)
    bank.agent.call("breakpoint_set_after_behavior", function_name="bank.fee", behavior=after)
    assert phases(bank) == expected(default, before, after)


@pytest.mark.full
def test_a_result_is_seen_and_replaced(bank: Bench) -> None:
    """Phase `after`: continue, skip with another result, raise."""
    bank.breakpoint("bank.fee", behavior="go")
    bank.agent.call("breakpoint_set_after_behavior", function_name="bank.fee", behavior="stop")
    stop = bank.stop_of(TEST.replace("(3, -3)", "(1, 2, 3)"))
    assert (stop["phase"], stop["reason"]) == ("after", "breakpoint")
    assert stop["call_data"]["pretty_result"] == "2"
    assert bank.eval(stop, "__return__ + amount") == "3"
    stop = only_stop(bank.go_on(stop))
    stop = only_stop(bank.go_on(stop, action="skip", fake_result={"$eval": "amount * 100"}))
    reply = bank.go_on(stop, action="raise", exception_type="bank.Refused", exception_message="no")
    assert reply["exit_code"] == 0
    assert got(bank) == "[2, 200, \"Refused('no',)\"]"


@pytest.mark.full
def test_an_exception_is_seen_swallowed_and_replaced(bank: Bench) -> None:
    """Phase `exception`: continue raises it again, skip swallows it, raise chains another."""
    bank.agent.call("breakpoint_set_default_behavior", behavior="exception")
    bank.breakpoint("bank.fee")
    stop = bank.stop_of(TEST.replace("(3, -3)", "(-1, -2, -3)"))
    assert (stop["phase"], stop["reason"]) == ("exception", "exception")
    assert stop["call_data"]["exception"] == {"type": "bank.Refused", "message": "-1"}
    assert stop["location"]["function"] == "fee"
    assert stop["location"]["source"] == "raise Refused(amount)"
    assert bank.eval(stop, "(amount, __exception__.args)") == "(-1, (-1,))"
    stop = only_stop(bank.go_on(stop))
    stop = only_stop(bank.go_on(stop, action="skip", fake_result=7))
    bank.go_on(stop, action="raise", exception_type="KeyError", exception_message="k")
    assert got(bank) == "['Refused(-1,)', 7, \"KeyError('k',)\"]"


@pytest.mark.full
def test_the_after_decision_uses_the_behavior_at_completion(bank: Bench) -> None:
    """Changed while the call is paused before it begins."""
    bank.breakpoint("bank.fee")
    stop = bank.stop_of(TEST)
    bank.agent.call("breakpoint_set_after_behavior", function_name="bank.fee", behavior="stop")
    assert only_stop(bank.go_on(stop))["phase"] == "after"


@pytest.mark.full
def test_a_standing_replacement_applies_to_every_call(bank: Bench) -> None:
    """With a pause and without; the test gets what the other function gives."""
    bank.breakpoint("bank.fee")
    stop = bank.stop_of(TEST)
    bank.agent.call(
        "breakpoint_set_replacement", function_name="bank.fee", replacement_function="bank.free"
    )
    listed = bank.agent.call("breakpoint_list_breakpoints")
    assert listed["replacements"] == {"bank.fee": "bank.free"}
    bank.agent.call("breakpoint_set_behavior", function_name="bank.fee", behavior="go")
    assert bank.go_on(stop)["exit_code"] == 0
    assert got(bank) == "[0, 0]"
    calls = bank.agent.call("breakpoint_get_call_records", function_name="bank.fee")["calls"]
    assert [call.get("replaced_by") for call in calls[-2:]] == ["bank.free", "bank.free"]


@pytest.mark.full
def test_one_call_is_replaced(bank: Bench) -> None:
    """`replacement_function` of breakpoint_continue wins over `action`."""
    bank.breakpoint("bank.fee", condition="amount > 0")
    stop = bank.stop_of(TEST)
    reply = bank.go_on(stop, action="raise", replacement_function="free")
    assert reply["action"] == "replace"
    assert got(bank) == "[0, 'Refused(-3,)']"


@pytest.mark.full
def test_what_can_t_replace_is_refused(bank: Bench) -> None:
    """Unknown names, other signatures, functions without one, no breakpoint, no process."""

    def refused(name: str, function: str = "bank.fee") -> dict[str, Any]:
        return bank.agent.refused(
            "breakpoint_set_replacement", function_name=function, replacement_function=name
        )

    bank.breakpoint("bank.fee")
    assert refused("bank.nowhere")["error"] == "function_not_found"
    stop = bank.stop_of(TEST)
    assert refused("bank.nowhere")["error"] == "function_not_found"
    mismatch = refused("bank.other")
    assert (mismatch["error"], mismatch["signature"]) == ("signature_mismatch", "(amount)")
    assert mismatch["replacement_signature"] == "(sum)"
    assert refused("math.sqrt")["reason"] == "no_signature"
    assert refused("bank.free", "free")["error"] == "breakpoint_not_found"
    assert bank.agent.call("breakpoint_list_breakpoints")["replacements"] == {}
    bank.go_on(stop)


MADE = """
    import asyncio
    import pathlib
    import pytest
    from bank import Refused, later, steps, ticks

    def test_generators():
        assert list(steps(2)) == [0, 1]
        with pytest.raises(Refused):
            list(steps(3))
        steps(1).close()

    def test_coroutines():
        assert asyncio.run(later(3)) == 6

    def test_async_generators():
        async def collect():
            return [number async for number in ticks(3)]
        assert asyncio.run(collect()) == [0, 1, 2]
"""


@pytest.mark.full
def test_generators_and_coroutines_complete_when_they_are_exhausted(bank: Bench) -> None:
    """Not at their creation; the test sees what it would see without us."""
    for name in ("steps", "later", "ticks"):
        bank.breakpoint(name, behavior="go")
        bank.agent.call(
            "breakpoint_set_after_behavior", function_name=name, behavior="stop_exception"
        )
    seen, reply = [], bank.test(MADE)
    while reply["state"] == "paused":
        stop = only_stop(reply)
        data = stop["call_data"]
        reported = data.get("pretty_result") or data["exception"]["type"]
        seen.append((data["method_name"], stop["phase"], reported))
        reply = bank.go_on(stop)
    assert reply["exit_code"] == 0
    assert seen == [
        ("steps", "after", "'done'"),
        ("steps", "exception", "bank.Refused"),
        ("later", "after", "6"),
        ("ticks", "after", "None"),
    ]
