"""Functions by name without asking the tests: `breakpoint_list_functions`, names without a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.together.shapes import write_shapes
from tests.together.workbench import Bench

full = pytest.mark.full


@pytest.fixture
def shapes(bench: Bench) -> Bench:
    """A package with functions of every kind."""
    return write_shapes(bench)


def listed(bench: Bench, **options: Any) -> dict[str, Any]:
    return bench.agent.call("breakpoint_list_functions", **options)


# --- breakpoint_list_functions ------------------------------------------------------------------


def test_list_functions_empty(bench: Bench) -> None:
    reply = listed(bench)
    assert (reply["functions"], reply["signatures"], reply["metadata"]) == ([], {}, {})
    assert (reply["total_count"], reply["truncated"]) == (0, False)


def test_list_functions_with_entries(shapes: Bench) -> None:
    reply = listed(shapes)
    names = ["Box.face", "Box.of", "Box.unit", "Box.volume", "Picky.__init__", "Refused.__init__",
             "area", "count", "later", "outer", "outer.<locals>.inner"]  # fmt: skip
    assert reply["functions"] == [f"geo.shapes.{name}" for name in names]
    assert set(reply["signatures"]) == set(reply["metadata"]) == set(reply["functions"])
    assert reply["signatures"]["geo.shapes.area"] == "(width, height=2, *, scale=1)"
    about = reply["metadata"]["geo.shapes.area"]
    assert about | {"calls": 0} == {
        "file": "geo/shapes.py", "line": 8, "kind": "function", "calls": 0,
    }  # fmt: skip
    assert type(about["calls"]) is int  # those of earlier runs count
    kinds = {name.rpartition(".")[2]: each["kind"] for name, each in reply["metadata"].items()}
    assert kinds | {"__init__": ""} == {
        "face": "property", "of": "class method", "unit": "static method", "volume": "method",
        "area": "function", "count": "generator function", "later": "async function",
        "outer": "function", "inner": "function", "__init__": "",
    }  # fmt: skip
    assert (reply["total_count"], reply["truncated"], reply["skipped"]) == (11, False, 0)
    assert "message" not in reply


PATTERNS = {
    "Box.": ["Box.face", "Box.of", "Box.unit", "Box.volume"],
    "geo.shapes.Box.*o*": ["Box.of", "Box.volume"],
    "*.?ount": ["count"],
    "nothing": [],
    "BOX": [],
    "area*": [],
}


@pytest.mark.full
@pytest.mark.quick("some")
@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param(("Box.", "geo.shapes.Box.*o*", "BOX"), id="some"),
        pytest.param(tuple(PATTERNS), id="all"),
    ],
)
def test_a_pattern_is_a_glob_or_a_part_of_the_name(
    shapes: Bench, patterns: tuple[str, ...]
) -> None:
    """`pattern` everywhere."""
    for pattern in patterns:
        names = PATTERNS[pattern]
        reply = listed(shapes, pattern=pattern)
        assert reply["functions"] == [f"geo.shapes.{name}" for name in names], pattern
        assert reply["total_count"] == len(names), pattern


@pytest.mark.full
def test_pages_join_without_gaps_and_maps_are_cut_in_step(bench: Bench) -> None:
    body = "".join(f"def function_{number:03}(a, b=2, *rest): pass\n" for number in range(150))
    bench.write(many=body)
    everything = [f"many.function_{number:03}" for number in range(150)]
    for options in ({"limit": 70}, {"limit": 150, "max_chars": 5_000}):
        reply = listed(bench, **options)
        names = list(reply["functions"])
        while reply["truncated"]:
            assert reply["total_count"] == 150
            assert set(reply["signatures"]) == set(reply["metadata"]) == set(reply["functions"])
            assert len(json.dumps(reply, separators=(",", ":"))) <= 8_000
            reply = listed(bench, after=reply["next_after"], **options)
            names += reply["functions"]
        assert names == everything
    refused = bench.agent.refused("breakpoint_list_functions", after="many.gone")
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "after")


@pytest.mark.full
def test_edits_between_two_calls_are_seen_and_broken_files_are_reported(shapes: Bench) -> None:
    """Always answered from the sources, whatever a run has loaded."""
    assert listed(shapes)["total_count"] == 11
    shapes.write(**{"geo/shapes.py": "def renamed(n): pass\n", "new.py": "def added(): pass\n"})
    assert listed(shapes)["functions"] == ["geo.shapes.renamed", "new.added"]
    shapes.write(**{"new.py": "def added(: pass\n"})
    reply = listed(shapes)
    assert (reply["functions"], reply["skipped"]) == (["geo.shapes.renamed"], 1)
    assert "new.py (line 1: " in reply["message"]


@pytest.mark.full
def test_functions_are_listed_while_a_test_is_paused_or_busy(shapes: Bench) -> None:
    """List tools work always; a busy test process need not answer."""
    stop = shapes.stop_of("import geo.shapes\ndef test_it(): assert 0\n")
    shapes.write(new="def added(): pass\n")
    assert "new.added" in listed(shapes)["functions"]
    shapes.go_on(stop)
    shapes.test(
        """
        import pathlib
        def test_busy():
            while not pathlib.Path("enough").exists(): pass
        """,
        wait=False,
    )
    shapes.until("running")
    assert "test_it.test_busy" in listed(shapes)["functions"]
    shapes.write(enough="")
    (shapes.root / "enough").touch()
    shapes.until("finished")


# --- breakpoint_add without a run ---------------------------------------------------------------

NAMES = {
    "volume": ["geo.shapes.Box.volume"],
    "geo.shapes.Box.volume": ["geo.shapes.Box.volume"],
    "geo.shapes:Box.volume": ["geo.shapes.Box.volume"],
    "geo/shapes.py::Box.volume": ["geo.shapes.Box.volume"],
    "shapes.py::Box.volume": ["geo.shapes.Box.volume"],
    "geo.shapes.Box.[ou]*": ["geo.shapes.Box.of", "geo.shapes.Box.unit"],
    "inner": ["geo.shapes.outer.<locals>.inner"],
    "geo.shapes.outer.inner": ["geo.shapes.outer.<locals>.inner"],
    "test_it.test_all": ["test_it.test_all"],
}

CALLS = """
    from geo.shapes import Box, outer

    def test_all():
        Box().volume()
        Box.of(1)
        Box.unit(1)
        outer(1)
"""


@pytest.mark.full
def test_names_without_a_run_mean_what_they_mean_in_one(shapes: Bench) -> None:
    """Answered from the sources; then a process tells, and says the same."""
    shapes.write(test_it=CALLS)
    for name, functions in NAMES.items():
        added = shapes.breakpoint(name, behavior="go")
        assert (added["functions"], added["verified"]) == (functions, True), name
        assert "message" not in added
        (known,) = shapes.agent.call("breakpoint_list")["breakpoints"]
        assert known["verified"] is True
        shapes.agent.call("breakpoint_remove", id=added["id"])
    stop = shapes.stop_of(CALLS + "\n        assert 0\n")
    for name, functions in NAMES.items():
        assert shapes.breakpoint(name, behavior="go")["functions"] == functions, name
        shapes.agent.call("breakpoint_remove", function_name=name)
    shapes.go_on(stop)


@pytest.mark.full
def test_an_absolute_path_is_shown_relative_and_stops(shapes: Bench) -> None:
    added = shapes.breakpoint(f"{shapes.root / 'geo' / 'shapes.py'}::Box.volume")
    assert added["function_name"] == "geo/shapes.py::Box.volume"
    assert added["functions"] == ["geo.shapes.Box.volume"]
    stop = shapes.stop_of(CALLS)
    assert (stop["breakpoint_id"], stop["location"]["function"]) == (added["id"], "Box.volume")
    shapes.go_on(stop)


@full
@pytest.mark.parametrize(
    "spelling",
    ["{root}/geo/shapes.py::Box.volume", "./geo/shapes.py::Box::volume"],
)
def test_every_tool_knows_a_breakpoint_by_each_spelling_of_its_name(
    shapes: Bench, spelling: str
) -> None:
    """Also the one in which it was added; what is told is always the same."""
    name, call = "geo/shapes.py::Box.volume", shapes.agent.call
    other = spelling.format(root=shapes.root)
    assert shapes.breakpoint(name)["id"] == shapes.breakpoint(other)["id"]
    for tool, chosen in {
        "breakpoint_set_behavior": {"behavior": "go"},
        "breakpoint_set_after_behavior": {"behavior": "stop"},
        "breakpoint_set_replacement": {"replacement_function": ""},
    }.items():
        assert call(tool, function_name=other, **chosen)["function_name"] == name
    reported = call("breakpoint_list_breakpoints")
    assert (reported["behaviors"], reported["after_behaviors"]) == ({name: "go"}, {name: "stop"})
    assert call("breakpoint_remove", function_name=other)["function_name"] == name
    assert call("breakpoint_list_breakpoints")["breakpoints"] == []
    assert call("breakpoint_remove", function_name="no name at all")["success"] is True


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("geo.shapes.aera", "did you mean geo.shapes.area?"),
        ("shapes.area", "did you mean geo.shapes.area?"),
        ("volum", "did you mean geo.shapes.Box.volume?"),
        ("geo/shapes.py::Box.volumes", "did you mean geo.shapes.Box.volume?"),
        ("json.loads", "no function of the project's sources"),
        ("zebra", "no function of the project's sources"),
        ("geo.shops.*", "no function of the project's sources"),
    ],
)
def test_a_name_of_nothing_is_accepted_and_close_names_are_reported(
    shapes: Bench, name: str, hint: str
) -> None:
    """`verified: false`, checked when it binds; the message names the way out."""
    added = shapes.breakpoint(name)
    assert (added["status"], added["functions"], added["verified"]) == ("ok", [], False)
    assert added["message"].startswith("not bound yet")
    assert hint in added["message"]
    (known,) = shapes.agent.call("breakpoint_list")["breakpoints"]
    assert (known["state"], known["message"]) == ("pending", added["message"])


@pytest.mark.full
def test_a_name_that_appears_later_is_found_when_it_is_added_again(shapes: Bench) -> None:
    """And one that is gone is not: the sources are asked anew."""
    first = shapes.breakpoint("tax")
    shapes.write(new="def tax(): pass\n")
    again = shapes.breakpoint("tax")
    assert (first["verified"], again["verified"], again["id"]) == (False, True, first["id"])
    assert again["functions"] == ["new.tax"]
    shapes.write(new="def renamed(): pass\n")
    assert shapes.breakpoint("tax")["verified"] is False


@full
def test_what_the_last_run_bound_counts_where_the_sources_know_nothing(shapes: Bench) -> None:
    """A function of a library: its sources are not the project's."""
    assert shapes.breakpoint("textwrap.dedent", behavior="go")["verified"] is False
    shapes.test("import textwrap\ndef test_it(): textwrap.dedent('x')\n")
    added = shapes.breakpoint("textwrap.dedent")
    assert (added["functions"], added["verified"]) == (["textwrap.dedent"], True)


def test_a_path_that_is_a_glob_is_refused(shapes: Bench) -> None:
    """It would silently never stop."""
    refused = shapes.agent.refused("breakpoint_add", function_name="geo/*.py::area")
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "function_name")
    assert "shop.cart.*" in refused["message"]


# --- breakpoint_set with a function -------------------------------------------------------------

LINES = """
    from typing import overload

    def total(items):
        '''Sums.'''

        # a comment
        amount = sum(items)
        return amount

    class Cart:
        @property
        def size(self):
            return 1
        @size.setter
        def size(self, value):
            self.value = value
        def total(self): return total([1])

    @overload
    def dual(x: int) -> int: ...
    @overload
    def dual(x: str) -> str: ...
    def dual(x):
        return x

    if Cart:
        def twice(): return 1
    else:
        def twice(): return 2
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    """A module whose names are not all unique."""
    bench.write(**{"shop/till.py": LINES})
    return bench


FORMS = {
    "shop.till.total": (8, "total"),
    "shop.till:total": (8, "total"),
    "shop/till.py::total": (8, "total"),
    "till.py::total": (8, "total"),
    "shop.till.Cart.total": (18, "Cart.total"),
    "shop/till.py::Cart::total": (18, "Cart.total"),
    "size": (14, "Cart.size"),
    "dual": (25, "dual"),
}


@pytest.mark.full
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("shop.till:total", "shop/till.py::Cart::total", "size", "dual"), id="some"),
        pytest.param(tuple(FORMS), id="all"),
    ],
)
def test_every_form_of_name_is_a_line(till: Bench, names: tuple[str, ...]) -> None:
    """`function`, its first body line; a `bp-` breakpoint."""
    for name in names:
        line, function = FORMS[name]
        reply = till.agent.call("breakpoint_set", function=name)
        location = {"file": "shop/till.py", "line": line, "function": function}
        assert (reply["success"], reply["type"]) == (True, "blocking"), name
        assert reply["location"] == location, name
        assert reply["id"].startswith("bp-"), name
        till.agent.call("breakpoint_remove", id=reply["id"])


@pytest.mark.full
def test_the_line_of_a_function_stops(till: Bench) -> None:
    """In the very function: `Cart.total` calls another of its name."""
    till.agent.call("breakpoint_set", function="shop.till.total", condition="items == [1]")
    stop = till.stop_of("from shop.till import Cart\ndef test_it(): assert Cart().total() == 1\n")
    assert (stop["location"]["line"], stop["location"]["function"]) == (8, "total")
    assert till.go_on(stop)["exit_code"] == 0


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("total", [("shop.till.Cart.total", 18), ("shop.till.total", 4)]),
        ("shop.till.twice", [("shop.till.twice", 28), ("shop.till.twice", 30)]),
    ],
)
def test_a_name_of_several_functions_is_refused_with_all_of_them(
    till: Bench, name: str, candidates: list[tuple[str, int]]
) -> None:
    """The way out is one of them, or its file and line."""
    refused = till.agent.refused("breakpoint_set", function=name)
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", "function")
    assert f"means {len(candidates)} functions" in refused["message"]
    assert refused["candidates"] == [
        {"function": function, "file": "shop/till.py", "line": line}
        for function, line in candidates
    ]
    for function, line in candidates:
        assert f"{function} (shop/till.py:{line})" in refused["message"]


REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"function": "shop.till.totl"}, "function_not_found", "shop.till.total"),
    ({"function": "shop/till.py::totl"}, "function_not_found", "total"),
    ({"function": "tills.py::total"}, "function_not_found", "shop.till.total"),
    ({"file": "shop/till.py", "function": "totl"}, "function_not_found", "total"),
    ({"function": "zebra"}, "function_not_found", "breakpoint_list_functions"),
    ({"function": "json.loads"}, "function_not_found", "json.loads"),
    ({"function": "nowhere.py::zebra"}, "file_not_found", "nowhere.py"),
    ({"function": "shop.*"}, "invalid_parameter", "glob"),
    ({"function": "a b"}, "invalid_parameter", "module:qualname"),
    ({"function": "dual", "condition": "1 +"}, "invalid_condition", "1 +"),
    ({"function": "dual", "log_message": "{"}, "invalid_template", "never closed"),
    ({}, "missing_parameter", "function"),
]


@pytest.mark.full
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([*{each[1]: each for each in reversed(REFUSED)}.values()], id="one of each"),
        pytest.param(REFUSED, id="all"),
    ],
)
def test_functions_that_cannot_be_found_are_refused(
    till: Bench, cases: list[tuple[dict[str, str], str, str]]
) -> None:
    for options, error, reason in cases:
        refused = till.agent.refused("breakpoint_set", **options)
        assert refused["error"] == error, options
        assert reason in refused["message"], options
        assert till.agent.call("breakpoint_list")["breakpoints"] == [], options


@full
def test_a_broken_file_is_named_when_a_function_is_not_found(till: Bench) -> None:
    """The function may be in it."""
    till.write(broken="def zebra(: pass\n")
    refused = till.agent.refused("breakpoint_set", function="zebra")
    assert refused["error"] == "function_not_found"
    assert "broken.py (line 1: " in refused["message"]
    refused = till.agent.refused("breakpoint_set", function="broken.py::zebra")
    assert (refused["error"], refused["line"]) == ("invalid_source", 1)


@full
def test_a_file_outside_of_the_project_is_named_by_its_path(till: Bench) -> None:
    """Without a catalog of it, the end of a qualified name will do."""
    function = f"{json.__file__}::loads"
    location = till.agent.call("breakpoint_set", function=function)["location"]
    assert (location["file"], location["function"]) == (json.__file__, "loads")
