"""Why breakpoints on lines were not hit, as the process under test knows it.

The checks run in a process of their own: they claim tool ids and trace functions.
"""

from __future__ import annotations

from types import FrameType

from tests.process.linehits_lab import Lab, lab
from tests.process.sources_checks import code_of, expected_error, lines, report, run_as_script


def pay(amount: int) -> int:
    rest = amount - 1  # first
    if rest > 0:
        rest = pay(rest)  # again
    return rest  # last


def short(amount: int) -> int:
    left = 10 // amount  # divides
    return left + 1  # returns


PAY = code_of(pay)


def why(place: Lab, id: str) -> tuple[object, ...]:
    fact = place.lines.unhit()[id]
    return tuple(each for name, each in fact.items() if name != "whole")


def check_a_second_breakpoint_on_a_line_knows_nothing_of_what_ran_before_it() -> None:
    with lab() as place:
        place.want(PAY, "again", "bp-1")
        pay(1)
        place.want(PAY, "again", "bp-2")
        (first,) = lines(PAY, "again")
        assert why(place, "bp-1") == ("line_not_reached", first - 1)
        assert why(place, "bp-2") == ("never_called",)
        pay(1)
        assert why(place, "bp-2") == ("line_not_reached", first - 1)


def check_the_lines_of_other_breakpoints_ran_if_they_were_passed() -> None:
    """Also if those are gone by now; what they pass later does not count."""
    with lab() as place:
        code = code_of(short)
        place.want(code, "divides", "tp-1", message="x")
        place.want(code, "returns", "bp-2")
        assert why(place, "bp-2") == ("never_called",)
        with expected_error(ZeroDivisionError):
            short(0)
        (divides,) = lines(code, "divides")
        assert why(place, "bp-2") == ("line_not_reached", divides)
        place.lines.remove("tp-1")
        assert why(place, "bp-2") == ("line_not_reached", divides)


def check_what_ran_while_it_was_off_is_not_what_it_missed() -> None:
    with lab() as place:
        probe = place.want(PAY, "again", "bp-1")
        place.want(PAY, "last", "tp-2", message="x")
        place.enable(probe, False)
        pay(1)
        place.enable(probe, True)
        assert why(place, "bp-1") == ("never_called",)
        assert place.lines.unhit()["bp-1"]["whole"] is False
        assert place.lines.unhit()["tp-2"] == {"why": None, "whole": True}


def check_one_that_was_never_on_is_disabled_and_nothing_else() -> None:
    with lab() as place:
        probe = place.want(PAY, "first", "bp-1", enabled=False)
        pay(1)
        assert why(place, "bp-1") == ("disabled",)
        place.enable(probe, True)
        pay(1)
        assert why(place, "bp-1") == (None,)


def check_a_limit_that_was_reached_before_it_was_switched_on_again_is_a_hit() -> None:
    with lab() as place:
        probe = place.want(PAY, "first", message="x", max_notifications=1)
        pay(1)
        place.enable(probe, False)
        place.enable(probe, True)
        assert why(place, "tp-1") == (None,)


def check_a_condition_that_held_below_the_threshold_is_counted() -> None:
    with lab() as place:
        place.want(PAY, "first", "bp-1", condition="amount > 1", hit_count=3)
        place.want(PAY, "first", "tp-2", condition="amount > 1", message="x", multiple=3)
        place.want(PAY, "first", "bp-3", condition="amount > 1")
        place.want(PAY, "first", "bp-4", condition="amount > 2", hit_count=2)
        pay(2)
        assert why(place, "bp-1") == ("condition_false", 2, 1)
        assert why(place, "tp-2") == ("condition_false", 2, 1)
        assert why(place, "bp-3") == (None,)
        assert why(place, "bp-4") == ("condition_false", 2, 0)


def check_what_an_evaluation_runs_reaches_no_line() -> None:
    with lab() as place:

        def evaluate(_frame: FrameType) -> None:
            with place.guard.evaluating():
                pay(1)

        place.want(PAY, "again", "bp-1")
        place.want(code_of(short), "divides", "bp-2")
        place.on_stop = evaluate
        short(1)
        assert why(place, "bp-1") == ("never_called",)
        pay(1)
        assert why(place, "bp-1")[0] == "line_not_reached"


def test_unhit() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
