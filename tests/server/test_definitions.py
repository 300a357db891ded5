"""Tools as a table: what is checked, what is refused and how, what clients see."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest

from cideldill_mcp.events.log import EventLog
from cideldill_mcp.replies.render import DEFAULT_MAX_CHARS
from cideldill_mcp.runs.registry import RunList
from cideldill_mcp.tools import profile
from cideldill_mcp.tools.definitions import Param, Reply, Request, Tool
from cideldill_mcp.tools.toolbox import Toolbox
from pytest_cideldill.errors import ErrorCode, Refusal
from tests.server.processes import in_loop

ALL = profile.tools("full")
VALUES: dict[str, Any] = {
    "string": "text",
    "integer": 7,
    "number": 1.5,
    "boolean": True,
    "array": [1],
    "object": {"a": 1},
}


PARAMS = [(tool, param) for tool in ALL for param in tool.checked]


def good(param: Param) -> Any:
    """A value that this parameter takes."""
    if param.choices:
        return param.choices[0]
    if param.items:
        return [VALUES[param.items]]
    if param.minimum is not None:
        return int(param.minimum) + 1
    return VALUES.get(param.type, "anything")


def taken_types(param: Param) -> set[str]:
    """JSON types of which some values are taken."""
    taken = {param.type} if param.type != "any" else set(VALUES)
    if param.type == "number" or param.is_numbered:
        taken.add("integer")
    if param.type == "array" and param.items != "object":
        taken.add("string")  # a list of one
    return taken | ({"object"} if param.items == "object" else set())


def enough(tool: Tool) -> dict[str, Any]:
    return {param.name: good(param) for param in tool.params if param.required}


def refused(tool: Tool | Param, given: Any) -> dict[str, Any]:
    """The refusal of arguments, or of the value of a parameter."""
    try:
        tool.check(given)
    except Refusal as refusal:
        return refusal.to_plain()
    raise AssertionError(f"{tool.name} takes {given!r}")


# --- checking arguments, over the whole table ---------------------------------------------------


def test_a_value_of_another_type_is_refused() -> None:
    """`invalid_parameter` with `parameter` and `expected`; no silent coercion."""
    for tool, param in PARAMS:
        for json_type in VALUES.keys() - taken_types(param):
            body = refused(tool, enough(tool) | {param.name: VALUES[json_type]})
            case = (tool.name, json_type, body)
            assert (body["error"], body["parameter"]) == (str(param.refuse_as), param.name), case
            assert body["expected"], case
            assert param.name in body["message"], case


def test_a_good_value_is_taken_as_it_is() -> None:
    """And one that is left out, or null, becomes the default."""
    for tool, param in PARAMS:
        value, case = good(param), (tool.name, param.name)
        taken = tool.check(enough(tool) | {param.name: value})[param.name]
        assert (taken, type(taken)) == (value, type(value)), case
        if not param.required:
            assert tool.check(enough(tool) | {param.name: None})[param.name] == param.default, case
            assert tool.check(enough(tool))[param.name] == param.default, case


def test_a_required_value_that_is_missing_or_blank_is_refused() -> None:
    """`missing_parameter` (+ `parameter`)."""
    for tool, param in PARAMS:
        if not param.required:
            continue
        for missing in ({}, {param.name: None}, {param.name: ""}, {param.name: " \t\n"}):
            body = refused(tool, {**enough(tool), param.name: None} | missing)
            case = (tool.name, missing, body)
            assert (body["error"], body["parameter"]) == ("missing_parameter", param.name), case
            assert param.name in body["message"], case


def test_unknown_extra_parameters_are_ignored() -> None:
    for tool in ALL:
        checked = tool.check(enough(tool) | {"no_such_parameter": object(), "": 1})
        assert set(checked) == {param.name for param in tool.checked}, tool.name


MISFITS: tuple[tuple[Param, Any, str], ...] = (
    (Param("n", "integer"), True, "integer"),  # bool is an int in Python, not in JSON
    (Param("n", "integer"), 1.5, "integer"),
    (Param("n", "integer"), float("nan"), "integer"),
    (Param("n", "integer"), float("inf"), "integer"),
    (Param("n", "integer"), "nine", "integer"),
    (Param("n", "integer"), "9.5", "integer"),
    (Param("n", "integer"), "true", "integer"),
    (Param("n", "integer"), "", "integer"),
    (Param("n", "integer"), " 9", "integer"),
    (Param("n", "integer"), "09", "integer"),
    (Param("n", "integer"), "+9", "integer"),
    (Param("n", "integer"), "0x9", "integer"),
    (Param("n", "integer"), "\u0669", "integer"),  # a digit, but none of JSON's
    (Param("n", "integer"), "[9]", "integer"),
    (Param("n", "number"), False, "number"),
    (Param("n", "number"), float("nan"), "number"),
    (Param("n", "number"), "NaN", "number"),
    (Param("n", "number"), "-Infinity", "number"),
    (Param("n", "number"), "1e999", "number"),
    (Param("n", "number"), "1.", "number"),
    (Param("n", "boolean"), 0, "boolean"),
    (Param("n", "boolean"), "True", "boolean"),
    (Param("n", "boolean"), "yes", "boolean"),
    (Param("n", "boolean"), "1", "boolean"),
    (Param("n", "string"), 5, "string"),
    (Param("n", "array", items="string"), ["a", 1], "array of string"),
    (Param("n", "array", items="integer"), [1, True], "array of integer"),
    (Param("n", "array", items="string"), {"a": 1}, "array of string"),
    (Param("n", "array", items="string"), '{"a": 1}', "array of string"),
    (Param("n", "array", items="string"), "", "array of string"),
    (Param("n", "array", items="string"), " ", "array of string"),
    (Param("n", "array", items="object"), 5, "array of object"),
    (Param("n", "array"), {"a": 1}, "array"),
    (Param("n", "array"), "5", "array"),  # the text, or the number?
    (Param("n", "array"), '{"$eval": "[1]"}', "array"),  # the list, or its item?
    (Param("n", "object"), ["a"], "object"),
    (Param("n", "object"), '["a"]', "object"),
    (Param("n", "string", choices=("a", "b")), "c", "one of: a, b"),
    (Param("n", "integer", minimum=1), 0, "integer of at least 1"),
    (Param("n", "number", maximum=300), 300.5, "number of at most 300"),
    (Param("n", "number", minimum=0.1, maximum=1), -1e308, "number of at least 0.1"),
    (Param("n", "number", maximum=300), float("inf"), "number"),
)
"""A value for each parameter, and what the refusal says is expected."""


def test_what_does_not_fit_is_reported_with_what_would() -> None:
    """The message names the offending thing and the way out."""
    for param, value, expected in MISFITS:
        assert refused(param, value) == {
            "error": "invalid_parameter",
            "message": f"parameter 'n' is {value!r}, expected {expected}",
            "parameter": "n",
            "expected": expected,
        }


SPELLED: dict[str, list[tuple[Any, Any]]] = {
    "string": [("[]", "[]"), ("5", "5"), (" ", " ")],
    "integer": [(9, 9), (9.0, 9), ("9", 9), ("9.0", 9), ("9e0", 9)],
    "number": [(20, 20), (1.5, 1.5), ("20", 20), ("1.5", 1.5), ("2e1", 20.0)],
    "boolean": [(True, True), ("true", True), (False, False), ("false", False)],
    "object": [({"a": "[1]"}, {"a": "[1]"}), ('{"a": "[1]"}', {"a": "[1]"}), (" {} ", {})],
}
"""By JSON type: what is sent, and what it means."""

LISTS: dict[str | None, list[tuple[Any, Any]]] = {
    "string": [
        (["a", "[b]"], ["a", "[b]"]),
        ('["a", "[b]"]', ["a", "[b]"]),
        (' ["a"]', ["a"]),
        ("[]", []),
        ("[linux] test_a.py::test_b[1]", ["[linux] test_a.py::test_b[1]"]),
        ("tests/test_a.py", ["tests/test_a.py"]),
        ("test_a.py::test_b[c-{}]", ["test_a.py::test_b[c-{}]"]),
        ("5", ["5"]),
    ],
    "object": [
        ([{"a": 1}], [{"a": 1}]),
        ({"a": 1}, [{"a": 1}]),
        ('{"a": 1}', [{"a": 1}]),
        ('[{"a": 1}, {}]', [{"a": 1}, {}]),
        (['{"a": 1}', {"b": 2}], [{"a": 1}, {"b": 2}]),
        ('["{\\"a\\": 1}"]', [{"a": 1}]),
    ],
    "integer": [(["1", 2.0, 3], [1, 2, 3]), ('["1", 2.0]', [1, 2]), ("7", [7])],
    None: [
        (["a", 5, "5"], ["a", 5, "5"]),
        ('["a", 5, {"b": null}]', ["a", 5, {"b": None}]),
        ("a text", ["a text"]),
    ],
}
"""By JSON type of the items."""


def spellings(param: Param) -> list[tuple[Any, Any]]:
    """What clients may send for a parameter, with what it means."""
    if param.type == "array":
        return LISTS[param.items]
    if param.choices:
        return [(choice, choice) for choice in param.choices]
    if param.is_numbered:
        return [("tp-3", "tp-3"), (3, "3"), (3.0, "3"), ("3", "3")]
    low, high = param.minimum, param.maximum
    fitting = [
        each
        for each in SPELLED.get(param.type, ())
        if param.type == "boolean"
        or param.type not in ("integer", "number")
        or ((low is None or each[1] >= low) and (high is None or each[1] <= high))
    ]
    if param.type == "integer" and not fitting:
        fitting = [(float(low or 0), int(low or 0)), (str(low), int(low or 0))]
    return fitting


def test_every_parameter_takes_each_spelling_of_its_type() -> None:
    """Whole floats, and JSON in a string, for numbers, lists and objects."""
    for tool, param in PARAMS:
        assert param.type == "any" or spellings(param), (tool.name, param.name)
        for sent, meant in spellings(param):
            if param.required and not str(sent).strip():
                continue
            taken = tool.check(enough(tool) | {param.name: sent})[param.name]
            assert (taken, type(taken)) == (meant, type(meant)), (tool.name, param.name, sent)


@pytest.mark.parametrize("text", ["[", '["a"', "['a']", "[a, b]", '["a"] and more', "[" * 5_000])
def test_a_text_that_begins_a_list_and_is_none_is_refused(text: str) -> None:
    """Not taken for a list of one; the message says what is wrong with it."""
    for items in ("string", "object", None):
        with pytest.raises(Refusal, match="no JSON"):
            Param("n", "array", items=items).check(text)
    with pytest.raises(Refusal, match="no JSON"):
        Param("n", "object").check(text.replace("[", "{"))


@pytest.mark.parametrize("text", ["shop.py", '["a"]', '{"a": 1', "5"])
def test_a_text_that_is_no_object_is_refused_as_an_item(text: str) -> None:
    for sent in (text, [text], [{"a": 1}, text]):
        with pytest.raises(Refusal, match="expected array of object"):
            Param("n", "array", items="object").check(sent)


# --- values for the program ---------------------------------------------------------------------

FORMS: list[Any] = [{"$eval": "40 + 2"}, {"$cid": "abc"}, {"$literal": {"$eval": "1"}}]

TEXTS = ["40 + 2", "$eval", "{}", "[]", '{"a": 1}', "{$eval}", '["$eval"]', "{'a': '$'}", "[$", "5"]
"""Mere texts for the program."""

NO_FORMS = [
    '{"$eval": 40 + 2}',
    "{'$eval': '40 + 2'}",
    '{"$eval": "40 + 2"',
    '{ "$eval": "1"} and more',
    '{"$evaluate": "1"}',
    '{"$eval": "1", "more": 2}',
    '{"a": 1, "$ref": "#/a"}',
    '[{"$eval": 1 + 1}]',
    '{"a": {"$ref": "#/a"}}',
]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_comes_as_a_text_is_decoded_at_every_depth(form: Any) -> None:
    """Passed on as a text it would be the value itself, and disprove a cause that is one."""
    check, text = Param("v", "any", are_values=True).check, json.dumps(form)
    for around in ("%s", " %s ", "[%s]", '{"a": [1, %s]}'):
        assert check(around % text) == json.loads(around % text)
    assert check([1, text, {"a": [text]}]) == [1, form, {"a": [form]}]
    args = Param("v", "array", are_values=True).check
    assert args([text, "x"]) == args(json.dumps([text, "x"])) == [form, "x"]
    kwargs = Param("v", "object", are_values=True).check
    assert kwargs({"a": text}) == kwargs(json.dumps({"a": text})) == {"a": form}


def test_what_is_inside_of_a_form_belongs_to_it() -> None:
    """Source text, and texts that are meant literally."""
    check = Param("v", "any", are_values=True).check
    for key in ("$eval", "$literal"):
        for inner in ('{"$eval": "1"}', '{"$ref": "#/a"}', "{'$eval': 1}"):
            assert check({key: inner}) == {key: inner}
            assert check(json.dumps({key: inner})) == {key: inner}


def test_other_texts_are_values_as_they_are() -> None:
    check = Param("v", "any", are_values=True).check
    for text in TEXTS:
        assert check(text) == text
        assert check([text, {"a": text}]) == [text, {"a": text}]


@pytest.mark.parametrize("text", NO_FORMS)
def test_a_text_that_nearly_is_a_form_is_refused_with_the_way_out(text: str) -> None:
    check = Param("v", "any", are_values=True).check
    for sent in (text, [text], {"a": text}):
        with pytest.raises(Refusal, match=r"\$literal") as caught:
            check(sent)
        assert caught.value.code is ErrorCode.INVALID_PARAMETER
    assert check({"$literal": text}) == {"$literal": text}


def test_source_text_is_no_value() -> None:
    """`{"$eval": "1"}` is an expression of Python too."""
    (expression,) = (
        param
        for tool in ALL
        if tool.name == "breakpoint_repl_eval"
        for param in tool.params
        if param.name == "expression"
    )
    assert expression.check('{"$eval": "1"}') == '{"$eval": "1"}'


def test_a_parameter_may_have_an_error_code_of_its_own() -> None:
    with pytest.raises(Refusal) as caught:
        Param("b", "string", choices=("a",), refuse_as=ErrorCode.INVALID_BEHAVIOR).check("x")
    assert caught.value.code is ErrorCode.INVALID_BEHAVIOR


def test_a_long_value_is_shown_shortened() -> None:
    """It came from the client; sending it back in full helps nobody."""
    with pytest.raises(Refusal) as caught:
        Param("n", "integer").check("x" * 10_000)
    assert len(caught.value.message) < 200


def test_any_takes_every_value() -> None:
    """For values that a handler decodes (`fake_result`)."""
    for value in (*VALUES.values(), "", [], {}):
        assert Param("v", "any").check(value) is value


# --- what clients see ---------------------------------------------------------------------------


def test_a_schema_says_what_is_checked() -> None:
    """Made from the same table; every key that constrains is there."""
    for tool in ALL:
        check_schema(tool)


def check_schema(tool: Tool) -> None:
    schema = tool.definition().input_schema
    shown = {param.name: param for param in tool.shown}
    assert schema["type"] == "object", tool.name
    assert set(schema["properties"]) == set(shown), tool.name
    assert schema.get("required", []) == [param.name for param in tool.params if param.required]
    for name, reported in schema["properties"].items():
        param = shown[name]
        assert reported.get("type", "any") == param.type, (tool.name, name)
        assert reported.get("enum", []) == list(param.choices), (tool.name, name)
        items = {"type": param.items} if param.items else None
        assert reported.get("items") == items, (tool.name, name)
        for key in ("minimum", "maximum", "default"):
            assert reported.get(key) == getattr(param, key), (tool.name, name)
        if param.default is not None:
            assert param.check(param.default) == param.default, (tool.name, name)


def test_every_tool_has_a_title_a_short_description_and_annotations() -> None:
    """A tool that only reads destroys nothing."""
    for tool in ALL:
        reported = tool.definition()
        assert reported.title, tool.name
        assert reported.description, tool.name
        assert len(reported.description) <= 400, tool.name
        hints = reported.annotations
        assert hints is not None, tool.name
        assert None not in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        assert hints.open_world_hint is False, tool.name
        assert not (hints.read_only_hint and hints.destructive_hint), tool.name


def test_descriptions_are_short_on_average() -> None:
    """170 characters."""
    assert sum(len(tool.about) for tool in ALL) / len(ALL) <= 170


def test_only_where_one_starts_is_always_loaded() -> None:
    """`_meta` of clients that load definitions on demand."""
    listing = [tool.definition().model_dump(by_alias=True, exclude_none=True) for tool in ALL]
    loaded = {each["name"]: each["_meta"] for each in listing if "_meta" in each}
    assert loaded == {name: {"anthropic/alwaysLoad": True} for name in ("test_why", "test_run")}


@pytest.mark.parametrize(("name", "most"), [("full", 28_000), ("plan", 21_000), ("triage", 15_000)])
def test_the_list_of_tools_is_small(name: str, most: int) -> None:
    """Every client pays for it in every conversation."""
    listing = types.ListToolsResult(tools=[tool.definition() for tool in profile.tools(name)])
    text = listing.model_dump_json(by_alias=True, exclude_none=True)
    assert len(text) <= most


# --- calling ------------------------------------------------------------------------------------


async def nobody(_done: float, _total: float | None, _text: str) -> None:
    return None


class NoRuns(RunList):
    """No runs; no handler looks at more."""

    log = EventLog()
    desired = None


def toolbox(handler: Any, *params: Param) -> Toolbox:
    tool = Tool("probe", "Probe", "For tests.", handler, params, is_list=True)
    return Toolbox([tool], NoRuns(), None)  # type: ignore[arg-type]


async def call(box: Toolbox, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    result = await box.call("probe", arguments, nobody, "client")
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return bool(result.is_error), json.loads(content.text)


@in_loop
async def test_a_reply_is_one_text_with_one_json_object() -> None:

    async def handler(request: Request) -> Reply:
        return Reply({"n": request["n"], "given": sorted(request.sent)})

    box = toolbox(handler, Param("n", "integer", default=3), Param("m", "integer"))
    assert await call(box) == (False, {"n": 3, "given": []})
    named = {"ignored": ["x"], "n": 4, "given": ["n", "x"]}
    assert await call(box, n=4, m=None, x=1) == (False, named)


@in_loop
async def test_a_refusal_becomes_the_error_object() -> None:
    """`{"error", "message", …ids}` with `isError: true`."""

    async def handler(_: Request) -> Reply:
        raise Refusal(ErrorCode.PAUSE_NOT_FOUND, "no such pause", pause_id="r1.main.1")

    expected = {"error": "pause_not_found", "message": "no such pause", "pause_id": "r1.main.1"}
    assert await call(toolbox(handler)) == (True, expected)
    is_error, body = await call(toolbox(handler, Param("id", "string", required=True)))
    assert (is_error, body["error"], body["parameter"]) == (True, "missing_parameter", "id")


@in_loop
async def test_a_failure_of_our_own_becomes_an_error_object_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing ever escapes as a traceback; that goes to stderr, for the bug report."""

    async def handler(_: Request) -> Reply:
        raise ZeroDivisionError("boom")

    is_error, body = await call(toolbox(handler))
    assert (is_error, body["error"]) == (True, "internal_error")
    assert "probe" in body["message"]
    assert "boom" in body["message"]
    captured = capsys.readouterr()
    assert "ZeroDivisionError: boom" in captured.err
    assert captured.out == ""


@in_loop
async def test_a_reply_is_cut_to_its_size_and_says_so() -> None:
    """8,000 characters unless the client asks for more."""

    async def handler(_: Request) -> Reply:
        items = [f"item {n}" for n in range(2_000)]
        return Reply({"items": items}, lists=["items"], cursor=str)

    box = toolbox(handler)
    for asked, most in (({}, DEFAULT_MAX_CHARS), ({"max_chars": 500}, 500)):
        result = await box.call("probe", asked, nobody, "client")
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        body = json.loads(content.text)
        assert most - 100 < len(content.text) <= most
        assert (body["truncated"], body["total_count"]) == (True, 2_000)
        assert body["next_after"] == body["items"][-1]
    assert len((await call(box, max_chars=200_000))[1]["items"]) == 2_000
    for too in (499, 200_001):
        is_error, body = await call(box, max_chars=too)
        assert (is_error, body["parameter"]) == (True, "max_chars")


def test_every_error_code_survives_the_wire() -> None:
    """A refusal of the process under test is handed on as it is."""
    for code in ErrorCode:
        refusal = Refusal(code, "a sentence", pause_id="r1", allowed=["a"])
        plain = refusal.to_plain()
        assert plain == {
            "error": code.value, "message": "a sentence", "pause_id": "r1", "allowed": ["a"],
        }  # fmt: skip
        again = Refusal.from_plain(json.loads(json.dumps(plain)))
        assert (again.code, again.message, again.extra) == (code, "a sentence", refusal.extra)
