"""Function breakpoints in real runs: which calls pause, and how they can go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.shapes import write_shapes
from tests.together.workbench import Bench

full = pytest.mark.full


@pytest.fixture
def shapes(bench: Bench) -> Bench:
    """A package with functions of every kind."""
    return write_shapes(bench)


AREA = """
    import pytest
    from geo.shapes import Refused, area

    def test_area():
        print("area is", area(3, scale=2))
        assert False
"""


CHOICES: list[tuple[dict[str, Any], str]] = [
    ({}, "12"),
    ({"action": "continue"}, "12"),
    ({"action": "skip", "fake_result": 41}, "41"),
    ({"action": "skip"}, "None"),
    ({"action": "skip", "fake_result": {"a": [1, {"$eval": "width + scale"}]}}, "{'a': [1, 5]}"),
    ({"action": "skip", "fake_result": {"$literal": {"$eval": "1"}}}, "{'$eval': '1'}"),
    ({"modified_args": [10]}, "40"),
    ({"action": "modify", "modified_args": [10, 10]}, "200"),
    ({"modified_args": [{"$eval": "width * 2"}], "modified_kwargs": {"scale": 5}}, "60"),
    ({"modified_kwargs": {"scale": 0}}, "0"),
    ({"modified_kwargs": {"width": 1}}, "4"),
    ({"modified_kwargs": {"height": 1}}, "6"),
]


@pytest.mark.full
def test_a_call_goes_on_as_the_client_chose(shapes: Bench) -> None:
    """`breakpoint_continue` at a `before` pause."""
    shapes.breakpoint("area")
    reply = shapes.test(
        f"""
        import pathlib
        from geo.shapes import area
        def test_areas():
            areas = [repr(area(3, scale=2)) for _ in range({len(CHOICES)})]
            pathlib.Path("areas").write_text("\\n".join(areas))
        """
    )
    for choice, _ in CHOICES:
        reply = shapes.go_on(only_stop(reply), **choice)
    assert reply["exit_code"] == 0
    areas = (shapes.root / "areas").read_text(encoding="utf-8").splitlines()
    assert areas == [printed for _, printed in CHOICES]


@pytest.mark.full
def test_arguments_that_are_left_out_stay_as_they_are(shapes: Bench) -> None:
    """A `modified_args` that is shorter replaces the leading ones."""
    shapes.breakpoint("area")
    calls = ["area(3, 7)", "area(3, height=7)", "area(height=7, width=3)"]
    reply = shapes.test(
        f"""
        from geo.shapes import area
        def test_areas(): assert [{", ".join(calls)}] == [7, 21, 10]
        """
    )
    for choice in ([1], [], [1, 10]):
        stop = only_stop(reply)
        assert stop["call_data"]["pretty_args"] == ["3", "7"]
        reply = shapes.go_on(stop, modified_args=choice)
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 1)


@pytest.mark.full
def test_arguments_assigned_at_the_pause_change_the_call(shapes: Bench) -> None:
    """Frame 0 is the callee with its parameters bound, frame 1 its caller."""
    shapes.breakpoint("area")
    stop = shapes.stop_of(AREA)
    assert shapes.eval(stop, "(width, height, scale)") == "(3, 2, 2)"
    assert shapes.eval(stop, "area.__name__", frame_index=1) == "'area'"
    assert shapes.eval(stop, "width = 100") == ""
    shapes.go_on(stop)
    assert shapes.results()["test_area"]["stdout"] == "area is 400\n"


RAISING = """
    import pytest
    from geo.shapes import Refused, area

    @pytest.mark.parametrize("expected", [KeyError, Refused, LookupError, Refused, Exception])
    def test_raises(expected):
        with pytest.raises(expected) as caught:
            area(1)
        assert type(caught.value) is expected
        if expected is Refused: assert caught.value.reason == "because"
"""


@pytest.mark.full
def test_a_call_can_be_made_to_raise_what_the_project_knows(shapes: Bench) -> None:
    """A builtin, a dotted path, or a name visible in the frame."""
    shapes.breakpoint("area")
    reply = shapes.test(RAISING)
    for raised in (
        {"exception_type": "KeyError"},
        {"exception_type": "Refused", "exception_message": "because"},
        {"exception_type": "builtins.LookupError", "exception_message": "x"},
        {"exception_type": "geo.shapes.Refused", "exception_message": "because"},
        {},
    ):
        reply = shapes.go_on(only_stop(reply), action="raise", **raised)
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 5)


@pytest.mark.full
def test_what_cannot_be_done_is_refused_and_the_call_stays_paused(shapes: Bench) -> None:
    """Everything is validated before the thread is released."""
    shapes.breakpoint("area")
    stop = shapes.stop_of(AREA)
    refusals: dict[str, list[dict[str, Any]]] = {
        "invalid_exception_type": [
            {"action": "raise", "exception_type": name}
            for name in ("Nowhere", "int", "geo.shapes.area", "geo.shapes.Picky", "", "..")
        ],
        "invalid_arguments": [
            {"modified_args": [1, 2, 3]},
            {"modified_kwargs": {"depth": 1}},
            {"modified_args": [1], "modified_kwargs": {"width": 1}},
            {"modified_args": [{"$eval": "nowhere"}]},
            {"action": "skip", "fake_result": {"$eval": "1 +"}},
            {"action": "skip", "modified_args": [1]},
        ],
        "invalid_action": [{"action": "step"}, {"action": ""}],
        "function_not_found": [{"replacement_function": "nowhere"}],
        "cid_not_found": [{"action": "skip", "fake_result": {"$cid": "abc"}}],
    }
    for error, attempts in refusals.items():
        for attempt in attempts:
            refused = shapes.agent.refused(
                "breakpoint_continue", pause_id=stop["pause_id"], **attempt
            )
            assert (error, attempt) == (refused["error"], attempt)
            assert error != "invalid_action" or "skip" in refused["allowed"]
    assert shapes.agent.call("debug_state")["paused"] == [stop["pause_id"]]
    shapes.go_on(stop)
    assert shapes.results()["test_area"]["stdout"] == "area is 12\n"


MANY_CALLS = """
    from geo.shapes import area
    def test_many():
        assert [area(n) for n in range(5)] == [0, 2, 4, 6, 8]
"""


@full
def test_a_condition_chooses_the_calls_that_pause(shapes: Bench) -> None:
    """`condition` (expression over the arguments)."""
    shapes.breakpoint("area", condition="width > 2 and height == 2")
    reply = shapes.test(MANY_CALLS)
    for expected in ("3", "4"):
        stop = only_stop(reply)
        assert stop["call_data"]["pretty_args"] == [expected, "2"]
        reply = shapes.go_on(stop)
    assert reply["exit_code"] == 0


@full
def test_a_condition_that_raises_stops_once_and_then_never(shapes: Bench) -> None:
    """Stop once with `condition_error`, then treat it as false."""
    shapes.breakpoint("area", condition="1 / width > 0")
    stop = only_stop(shapes.test(MANY_CALLS))
    assert stop["reason"] == "condition_error"
    reply = shapes.go_on(stop)
    seen = []
    while reply["state"] == "paused":
        seen.append(only_stop(reply)["call_data"]["pretty_args"][0])
        reply = shapes.go_on(only_stop(reply))
    assert seen == ["1", "2", "3", "4"]
    (warning,) = shapes.agent.call("debug_state")["warnings"]
    assert "ZeroDivisionError" in warning


@pytest.mark.full
def test_breakpoints_added_and_removed_during_a_pause_count_from_then_on(shapes: Bench) -> None:
    """Present pauses stay; functions are matched when they exist."""
    first = shapes.breakpoint("area", condition="width == 1")
    stop = only_stop(shapes.test(MANY_CALLS))
    again = shapes.breakpoint("area", condition="width in (2, 4)")
    assert (again["id"], again["functions"]) == (first["id"], ["geo.shapes.area"])
    assert again["verified"] is True
    assert "message" not in again
    stop = only_stop(shapes.go_on(stop))
    assert stop["call_data"]["pretty_args"] == ["2", "2"]
    shapes.agent.call("breakpoint_remove", id=first["id"])
    assert shapes.agent.call("debug_state")["paused"] == [stop["pause_id"]]
    assert shapes.go_on(stop)["exit_code"] == 0
    assert shapes.agent.call("breakpoint_list_breakpoints")["breakpoints"] == []


THREADED = """
    import threading
    from geo.shapes import area

    def test_threads():
        results = []
        workers = [
            threading.Thread(target=lambda n=n: results.append(area(n)), name=f"worker-{n}")
            for n in range(3)
        ]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
        assert sorted(results) == [0, 2, 100]
"""


@full
def test_several_threads_pause_side_by_side_and_go_on_one_by_one(shapes: Bench) -> None:
    """A pause parks its thread, others run."""
    shapes.breakpoint("area")
    reply = shapes.test(THREADED)
    paused = shapes.until_paused(3)
    assert sorted(pause["thread"]["name"] for pause in paused) == [f"worker-{n}" for n in range(3)]
    assert reply["state"] == "paused"
    for pause in paused:
        action = {}
        if shapes.eval(pause, "width") == "2":
            action = {"action": "skip", "fake_result": 100}
        shapes.agent.call("breakpoint_continue", pause_id=pause["pause_id"], **action)
    assert shapes.until("finished")["outcomes"] == {"passed": 1}


@full
def test_a_breakpoint_that_only_goes_never_pauses(shapes: Bench) -> None:
    """Behavior `go`."""
    shapes.breakpoint("area", behavior="go")
    assert shapes.test(MANY_CALLS)["exit_code"] == 0
    shapes.breakpoint("area", behavior="stop")
    assert shapes.test(MANY_CALLS)["state"] == "paused"


@pytest.mark.full
def test_an_expression_of_a_request_that_never_ends_is_interrupted(bench: Bench) -> None:
    """Nothing hangs: the request is refused, and the call is still paused."""
    bench.breakpoint("test_it.double")
    stop = bench.stop_of(
        """
        def double(n): return 2 * n
        def forever():
            while True: pass
        def test_it(): assert double(2) == 5
        """
    )
    refused = bench.agent.refused(
        "breakpoint_continue",
        pause_id=stop["pause_id"],
        action="skip",
        fake_result={"$eval": "forever()"},
    )
    assert (refused["error"], refused["stopped"]) == ("eval_timeout", True)
    over = bench.go_on(stop, action="skip", fake_result={"$eval": "n + 3"})
    assert over["outcomes"]["passed"] == 1
