"""Function breakpoints in real runs: which functions a name means, and when they are bound."""

from __future__ import annotations

import pytest

from tests.together.driver import only_stop
from tests.together.shapes import write_shapes
from tests.together.workbench import Bench

full = pytest.mark.full


@pytest.fixture
def shapes(bench: Bench) -> Bench:
    """A package with functions of every kind."""
    return write_shapes(bench)


CALLS = """
    from geo.shapes import Box, Picky, Refused, area, outer

    def test_area():
        assert area(3, scale=2) == 12

    def test_method():
        assert Box().volume(2) == 54

    def test_static(): assert Box.unit(5) == 5
    def test_class(): assert Box.of(4) == ("Box", 4)
    def test_property(): assert Box().face == 9
    def test_nested(): assert outer(1) == 2
"""


@pytest.mark.full
def test_functions_of_every_kind_pause_although_imported_by_name_before(shapes: Bench) -> None:
    """References taken before are intercepted too; `functions`."""
    for name in ("area", "outer", "Box.volume", "Box.unit", "Box.of", "Box.face"):
        added = shapes.breakpoint(f"geo.shapes.{name}")
        # Without a process the sources answer.
        assert (added["functions"], added["verified"]) == ([f"geo.shapes.{name}"], True)
    seen = []
    reply = shapes.test(CALLS)
    while reply["state"] == "paused":
        stop = only_stop(reply)
        data = stop["call_data"]
        assert (stop["phase"], stop["reason"]) == ("before", "breakpoint")
        assert data["call_site"]["file"] == "test_it.py"
        name = data["qualified_name"].removeprefix("geo.shapes.")
        seen.append((name, data["pretty_args"][-1], data.get("pretty_kwargs", {})))
        reply = shapes.go_on(stop)
    face = seen.pop(4)
    assert face[0] == "Box.face"
    assert seen == [
        ("area", "2", {"scale": "2"}),
        ("Box.volume", "2", {}),
        ("Box.unit", "5", {}),
        ("Box.of", "4", {}),
        ("outer", "1", {}),
    ]
    assert (reply["exit_code"], reply["outcomes"]) == (0, {"passed": 6, "failed": 0})


BOX = [f"geo.shapes.Box.{name}" for name in ("face", "of", "unit", "volume")]
NAMES = {
    "volume": ["geo.shapes.Box.volume"],
    "geo.shapes.Box.volume": ["geo.shapes.Box.volume"],
    "geo.shapes:Box.volume": ["geo.shapes.Box.volume"],
    "geo/shapes.py::Box.volume": ["geo.shapes.Box.volume"],
    "geo.shapes.Box.*": BOX,
    "*.vol*": ["geo.shapes.Box.volume"],
    "geo.shapes.nothing": [],
    "json.loads": ["json.loads"],
    "loads": [],
    "test_it.test_method": ["test_it.test_method"],
}


@pytest.mark.full
def test_a_name_in_any_form_is_bound_to_the_functions_it_means(shapes: Bench) -> None:
    """Function names; only exact names reach beyond user code."""
    shapes.stop_of("import json, geo.shapes\ndef test_method(): assert 0\n")
    bound = {}
    for name, functions in NAMES.items():
        added = shapes.breakpoint(name)
        bound[name] = added["functions"]
        assert added["verified"] is bool(functions)
        shapes.agent.call("breakpoint_remove", function_name=name)
    assert bound == NAMES


@full
def test_generators_and_coroutines_are_bound_and_what_cannot_be_is_reported(shapes: Bench) -> None:
    """A message instead of a silent breakpoint that never pauses."""
    odd = "def odd(__tracebackhide__): return 1"
    stop = shapes.stop_of(f"import geo.shapes\n{odd}\ndef test_it(): assert 0\n")
    for name in ("count", "later"):
        added = shapes.breakpoint(f"geo.shapes.{name}")
        assert (added["functions"], added["verified"]) == ([f"geo.shapes.{name}"], True)
    added = shapes.breakpoint("test_it.odd")
    assert (added["functions"], added["verified"]) == ([], False)
    assert "odd" in added["message"]
    assert "__tracebackhide__" in added["message"]
    assert shapes.go_on(stop)["exit_code"] == 1


@pytest.mark.full
def test_a_breakpoint_whose_functions_another_one_governs_says_which(shapes: Bench) -> None:
    """Exact beats bare beats glob."""
    known = {}

    def reported() -> dict[str, tuple[bool, str | None]]:
        reply = shapes.agent.call("breakpoint_list")
        return {
            each["id"]: (each["verified"], each.get("message")) for each in reply["breakpoints"]
        }

    stop = shapes.stop_of("import geo.shapes\ndef test_it(): assert 0\n")
    for name in ("geo.shapes.area", "area", "geo.*.area"):
        known[name] = shapes.breakpoint(name)
    exact, bare, glob = (each["id"] for each in known.values())
    assert [each["functions"] for each in known.values()] == [["geo.shapes.area"], [], []]
    message = known["area"]["message"]
    assert f"{exact} (geo.shapes.area)" in message
    assert reported() == {exact: (True, None), bare: (False, message), glob: (False, message)}
    shapes.agent.call("breakpoint_remove", id=exact)
    assert shapes.eval(stop, "1") == "1"  # behind the removal, which nobody waits for
    assert reported()[bare] == (True, None)
    assert f"{bare} (area)" in str(reported()[glob][1])
    assert shapes.go_on(stop)["exit_code"] == 1


ONE_CALL = """
    from geo.shapes import area

    def test_area():
        print("area is", area(3, scale=2))
        assert False
"""


@full
def test_a_breakpoint_outlives_runs_and_edits(shapes: Bench) -> None:
    """Breakpoints set by tools stay for later runs."""
    id = shapes.breakpoint("area")["id"]
    first = shapes.stop_of(ONE_CALL)
    shapes.write(**{"geo/shapes.py": "def area(width, **rest): return 'new'\nclass Refused: pass"})
    second = shapes.stop_of(ONE_CALL, replace=True)
    assert first["breakpoint_id"] == second["breakpoint_id"] == id
    assert first["pause_id"] != second["pause_id"]
    shapes.go_on(second)
    assert shapes.results()["test_area"]["stdout"] == "area is new\n"


LATE = """
    def test_late():
        from geo.shapes import area
        assert area(2) == 4
"""


@pytest.mark.full
def test_a_function_that_is_imported_late_is_bound_when_its_module_has_run(
    shapes: Bench,
) -> None:
    """Bound later when they appear (late import)."""
    shapes.breakpoint("geo.shapes.area")
    stop = shapes.stop_of(LATE + "\n    def test_again(): test_late()\n")
    assert stop["nodeid"] == "test_it.py::test_late"
    stop = only_stop(shapes.go_on(stop))
    assert stop["nodeid"] == "test_it.py::test_again"
    assert shapes.go_on(stop)["exit_code"] == 0
