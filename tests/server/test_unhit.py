"""One reason for a breakpoint that was not hit, of what the processes of a run know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.breakpoints.places import Place
from cideldill_mcp.processes.process import Target
from cideldill_mcp.runs.not_hit import never_hit, why_not_hit
from cideldill_mcp.runs.run import Run
from pytest_cideldill.protocol import (
    Collected,
    Departed,
    Finished,
    LinesPassed,
    NodeFinished,
    Stopped,
    Watched,
)
from tests.server.processes import hello_of, pause_of

CALLED = {"why": "never_called", "whole": True}
BESIDE = {"why": "line_not_reached", "whole": True, "line": 40}
FALSE = {"why": "condition_false", "whole": True, "times": 2, "held": 0}
HIT = {"why": None, "whole": True}
ABSENT = {"why": "no_code", "whole": True}
FOREIGN = {"why": "never_imported", "whole": True}
OFF = {"why": "disabled", "whole": False}


def breakpoint_at(line: int = 42, **options: Any) -> tuple[Desired, LineBreakpoint]:
    desired = Desired()
    place = Place("/shop.py", "shop.py", line, "total", ["total", 39, 0], "x")
    return desired, desired.add_line(place, replace(place.spec, **options))


def over(*facts: dict[str, Any] | Watched | None, id: str = "bp-1", tests: int = 1) -> Run:
    """A run whose one test passed, with what each worker told; None: it fell silent."""
    run = Run("r1")
    reported: dict[str, Any] = {f"gw{number}": fact for number, fact in enumerate(facts)}
    if len(facts) > 1:
        reported["main"] = Watched({})
    else:
        reported = {"main": facts[0]}
    for worker, fact in reported.items():
        target = Target(hello_of("r1", worker), lambda command: None)
        run.connected(target)
        run.apply(target, Collected(tests, []))
        if worker == "main":
            run.apply(target, NodeFinished("test_a.py::test_x", 0.1, {"passed": 1}))
            run.apply(target, Finished(0))
        if fact is not None:
            run.apply(target, Finished(0))
            run.apply(target, fact if isinstance(fact, Watched) else Watched({id: fact}))
            run.apply(target, Departed())
    run.settle()
    return run


NEAREST: tuple[tuple[list[Any], str | None], ...] = (
    ([CALLED], "never_called"),
    ([HIT], None),
    ([CALLED, HIT, FALSE], None),
    ([FOREIGN, CALLED], "never_called"),
    ([FOREIGN, ABSENT], "no_code"),
    ([OFF, OFF], "disabled"),
    ([CALLED, BESIDE, BESIDE | {"line": 43}], "line_not_reached (nearest executed line 43)"),
    ([FALSE, FALSE, BESIDE], "condition_false (4 times)"),
    ([CALLED, CALLED | {"whole": False}], "never_called (watched for a part of the run)"),
    ([CALLED, None], "other_worker (gw1 ended without a report; the others: never_called)"),
    ([CALLED, Watched({}, blind=True), None],
     "other_worker (gw1, gw2 ended without a report; the others: never_called)"),
    ([OFF, None], "disabled"),
    ([Watched({}, blind=True)], None),
    ([Watched({})], None),
)  # fmt: skip
"""What each worker told, and the reason."""


def test_the_process_that_came_nearest_has_the_reason() -> None:
    """One reason for a run; hit in one worker is hit; silence is no word."""
    for facts, expected in NEAREST:
        desired, known = breakpoint_at(condition="x > 1")
        run = over(*facts)
        assert why_not_hit(known, run) == expected, facts
        reasons = {} if expected is None else {"bp-1": expected}
        assert never_hit(desired, run) == reasons, facts


def test_thresholds_count_for_each_worker() -> None:
    """Passes that were enough together are another worker's."""
    one, two = FALSE | {"times": 1}, FALSE
    for options, facts, expected in (
        ({"hit_count": 3}, [two], "condition_false (2 times; hit_count is 3)"),
        ({"hit_count": 3}, [two, one],
         "other_worker (2 in gw0, 1 in gw1; hit_count is 3 for each worker)"),
        ({"hit_count": 4}, [two, one], "condition_false (3 times; hit_count is 4)"),
        ({"message": "x", "multiple": 3}, [two, one],
         "other_worker (2 in gw0, 1 in gw1; hit_count_multiple is 3 for each worker)"),
        ({"hit_count": 3, "condition": "y"}, [two, one], "condition_false (3 times)"),
        ({"hit_count": 3, "condition": "y"}, [two, one | {"held": 1}],
         "condition_false (3 times; hit_count is 3)"),
    ):  # fmt: skip
        _, known = breakpoint_at(**options)
        assert why_not_hit(known, over(*facts, id=known.id)) == expected


def test_what_a_silent_worker_reported_before_counts() -> None:
    """A pause, a message: hit is hit."""
    desired, known = breakpoint_at(message="x")
    run = over(CALLED, None, id="tp-1")
    assert str(why_not_hit(known, run)).startswith("other_worker")
    desired.note_passes("gw1", LinesPassed({"tp-1": {"passes": 3}}))
    assert str(why_not_hit(known, run)).startswith("other_worker")
    known.published = 1
    assert why_not_hit(known, run) is None
    _, known = breakpoint_at()
    run = over(CALLED, None)
    target = Target(hello_of("r1", "gw1"), lambda command: None)
    run.apply(target, Stopped(pause_of("gw1", 1, breakpoint_id="bp-1")))
    assert why_not_hit(known, run) is None


def test_a_reason_says_how_far_it_reaches() -> None:
    """A run cut short, or stopped by a client, has not seen all tests."""
    _, known = breakpoint_at()
    assert why_not_hit(known, over(CALLED, tests=3)) == "never_called (1 of 3 tests ran)"
    assert why_not_hit(known, over(OFF, tests=3)) == "disabled"
    run = Run("r1")
    target = Target(hello_of("r1", "main"), lambda command: None)
    run.connected(target)
    run.apply(target, Watched({"bp-1": CALLED}))
    run.apply(target, Finished(2))
    run.apply(target, Departed())
    run.settle()
    expected = "never_called (watched for a part of the run; no test ran)"
    assert why_not_hit(known, run) == expected


def test_nothing_is_known_of_a_run_that_crashed() -> None:
    """Null when unknown."""
    desired, _ = breakpoint_at()
    run = Run("r1")
    run.connected(Target(hello_of("r1", "main"), lambda command: None))
    run.settle()
    assert (run.state, never_hit(desired, run)) == ("crashed", None)
