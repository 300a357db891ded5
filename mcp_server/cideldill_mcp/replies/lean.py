"""The lean form of stops and autopsies in replies: the same facts in fewer characters.

A key without a value is absent, and so is a default: a frame of user code, the main thread of the
process `main`. What stands elsewhere in the same stop is not repeated. `breakpoint_list_paused` and
`exception_get_context` have the whole form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Plain = dict[str, Any]

_OF_LISTS = frozenset(
    {"id", "paused_at", "repl_sessions", "run_id", "lease_expires_at", "pause_reason", "frames"}
)
"""Keys of a pause that only `breakpoint_list_paused` has; `id` is `pause_id`."""

_IN_AUTOPSY = frozenset({"locals", "exception"})
"""Keys of a pause that its autopsy has as well."""

_EMPTY: tuple[object, ...] = (None, "", [], {})

_LIBRARY = re.compile(r"^.*[/\\](?:(?:site|dist)-packages|lib[/\\]python3\.\d+t?)[/\\]")
"""The folder of an installed library in a path."""

_SHOWS_TYPE = {
    "str": re.compile(r"""^['"]"""),
    "bytes": re.compile(r"""^b['"]"""),
    "int": re.compile(r"^-?\d+$"),
    "float": re.compile(r"^-?(?:\d+\.|\d.*e|inf$|nan$)"),
    "bool": re.compile(r"^(?:True|False)$"),
    "NoneType": re.compile(r"^None$"),
    "list": re.compile(r"^\["),
    "tuple": re.compile(r"^\("),
    "dict": re.compile(r"^\{(?:\}$|[^:]+: )"),
}
"""Builtin types and the texts of values from which they are evident."""

_OF_PYTEST = ("_pytest.", "pytest.")
_SHORT_VALUE = 80
"""Characters of a value that belongs to pytest: a fixture such as `capfd` or `request`."""

_SHORT_OPERAND = 30
"""Characters of a value that may stand twice: as an operand, and as a variable."""

_ADVICE = re.compile(r"(?m), use -v+ to show$|^\s*Use -v+ to get (?:more|the full) diff$")
"""What pytest advises to people at a terminal."""

_SHORT_MESSAGE = 200
"""Characters of a message that only repeats the operands."""

_FUNCTION = re.compile(r"<function (\S+) at 0x[0-9a-f]+>")
_SAYS_NOTHING = re.compile(
    r"^\s*\+\s+(?:(?:where|and)\s+<function \S+ at 0x[0-9a-f]+> = .*|(?:where|and)\s+(.+) = \1)$"
)
"""A line of pytest's explanation on where a function comes from, or on what is itself."""


def with_values(body: Mapping[str, Any]) -> Plain:
    """The keys that have a value: neither null nor an empty text, list or object."""
    return {key: value for key, value in body.items() if value not in _EMPTY}


def lean_stop(pause: Mapping[str, Any], autopsy: Mapping[str, Any] | None = None) -> Plain:
    """An item of `stops` for a pause, with its autopsy in lean form if one is given."""
    stop = {"pause_id": pause["id"], "seq": pause.get("seq"), "reason": pause["pause_reason"]}
    stop |= {key: value for key, value in pause.items() if key not in _OF_LISTS | stop.keys()}
    stop.pop("autopsy", None)
    if pause["worker"] == "main":
        del stop["worker"]
    if pause["thread"].keys() == {"id", "name"} and pause["thread"]["name"] == "MainThread":
        del stop["thread"]
    if pause.get("call_data"):
        stop["call_data"] = with_values(pause["call_data"])
    stop["location"] = with_values(pause["location"])
    if autopsy is not None:
        stop = {key: value for key, value in stop.items() if key not in _IN_AUTOPSY}
        if any("variables" in frame or "arguments" in frame for frame in autopsy["frames"]):
            stop["location"] = _without(stop["location"], "source", "module")
        stop["autopsy"] = autopsy
    return with_values(stop)


def lean_autopsy(autopsy: Mapping[str, Any]) -> Plain:
    """An autopsy as the reply of a stop has it."""
    autopsy, moved = _with_operands_once(autopsy)
    lean = {**autopsy, "frames": [_frame(*each) for each in enumerate(autopsy["frames"])]}
    del lean["throwingFrameIndex"]  # the innermost, always
    lean.pop("threadId", None)
    exception = dict(autopsy["exception"])
    if autopsy["totalFrames"] == len(autopsy["frames"]):  # then they are the traceback
        del exception["stackTraceString"]
        del lean["totalFrames"]
    if (assertion := autopsy.get("assertion")) is not None:
        source = _source(autopsy)
        lean["assertion"] = _assertion(assertion, exception["message"], source, moved)
        if "right" in assertion and exception["message"].startswith("assert "):
            exception["message"] = _cut(exception["message"], _SHORT_MESSAGE)
    lean["exception"] = with_values(_without_false(exception))
    lean["innerExceptions"] = [_inner(each) for each in autopsy["innerExceptions"]]
    if not any((autopsy.get("siblings") or {}).values()):
        lean.pop("siblings", None)
    lean["fixtures"] = list(_fixtures(autopsy))
    if lean["userFrameIndex"] == 0:
        del lean["userFrameIndex"]
    return with_values(_without_false(lean))


def _without(body: Mapping[str, Any], *names: str) -> Plain:
    return {key: value for key, value in body.items() if key not in names}


def _without_false(body: Mapping[str, Any]) -> Plain:
    return {key: value for key, value in body.items() if value is not False}


def _frame(position: int, frame: Mapping[str, Any]) -> Plain:
    """A frame without its module, which the file says, and without its place in the list."""
    lean = _without(_without_false(frame), "module")
    if frame["index"] == position:
        del lean["index"]
    if frame["isExternal"]:
        lean["location"] = _of_library(frame["location"])
    lean["arguments"] = [_variable(each) for each in frame["arguments"] or ()]
    variables = frame["variables"]
    if variables is not None:
        lean["variables"] = with_values(
            variables | {"locals": [_variable(each) for each in variables["locals"]]}
        )
    return with_values(lean)


def _of_library(location: Mapping[str, Any]) -> Plain:
    return {**location, "file": _LIBRARY.sub("…/", location["file"])}


def _variable(variable: Mapping[str, Any]) -> Plain:
    lean, name, value = dict(variable), variable["type"], variable["value"]
    if name.startswith(_OF_PYTEST):
        return _without(lean, "children") | {"value": _cut(value, _SHORT_VALUE)}
    if (pattern := _SHOWS_TYPE.get(name)) is not None and pattern.match(value):
        del lean["type"]
    lean["children"] = [
        _variable(part) for part in variable.get("children", ()) if not _is_shown(part, value)
    ]
    return with_values(lean)


def _is_shown(part: Mapping[str, Any], value: str) -> bool:
    """Whether the text of a whole has a part of it in full; methods are no state."""
    name = part["name"]
    key = f"{name[1:]}=" if name.startswith(".") else f"{name[1:-1]}: "
    return part["type"] == "method" or f"{key}{part['value']}" in value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _assertion(
    assertion: Mapping[str, Any], message: str, source: str, moved: Collection[str]
) -> Plain:
    """The operands, and of pytest's explanation the lines that say more than they do.

    The expression of an operand stands in the source; if it is the name of a variable that was
    `moved` here, it stays.
    """
    lean = dict(assertion)
    left, op, right = map(assertion.get, ("left", "op", "right"))
    repeated = {message, f"assert {left} {op} {right}"}
    lines = (assertion.get("explanation") or "").splitlines()
    kept = [line for line in lines if line not in repeated and not _SAYS_NOTHING.match(line)]
    text = _ADVICE.sub("", _FUNCTION.sub(r"\1", "\n".join(kept)))
    lean["explanation"] = "" if text.isspace() else text.strip("\n")
    for name in ("leftExpression", "rightExpression"):
        if _as_written(lean.get(name) or "") in _as_written(source) and lean.get(name) not in moved:
            lean.pop(name, None)
    for name in ("leftChildren", "rightChildren"):
        if name in lean:
            lean[name] = [_variable(each) for each in assertion[name]]
    return with_values(lean)


def _with_operands_once(autopsy: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The autopsy without long variables that are an operand of the assertion, and their names."""
    assertion = dict(autopsy.get("assertion") or {})
    frames, index = list(autopsy["frames"]), autopsy["userFrameIndex"]
    if not assertion or index >= len(frames) or frames[index]["variables"] is None:
        return autopsy, []
    variables, kept, moved = frames[index]["variables"], [], []
    for variable in variables["locals"]:
        side = _side_of(variable, assertion)
        if side is None:
            kept.append(variable)
            continue
        moved.append(variable["name"])
        if children := variable.get("children"):
            assertion[f"{side}Children"] = children
    frames[index] = frames[index] | {"variables": variables | {"locals": kept}}
    return {**autopsy, "assertion": assertion, "frames": frames}, moved


def _side_of(variable: Mapping[str, Any], assertion: Mapping[str, Any]) -> str | None:
    """Which operand a variable is: its name and its long value are the same; None: neither."""
    if len(variable["value"]) <= _SHORT_OPERAND:
        return None
    for side in ("left", "right"):
        is_named = assertion.get(f"{side}Expression") == variable["name"]
        if is_named and assertion.get(side) == variable["value"]:
            return side
    return None


def _as_written(source: str) -> str:
    """Source text, whichever quotes it is written with."""
    return source.replace("'", '"')


def _source(autopsy: Mapping[str, Any]) -> str:
    """The source line of the frame that the stop shows."""
    frames, index = autopsy["frames"], autopsy["userFrameIndex"]
    return str(frames[index].get("source") or "") if index < len(frames) else ""


def _inner(exception: Mapping[str, Any]) -> Plain:
    lean = with_values(exception)
    if "location" in lean:
        lean["location"] = with_values(_without(_of_library(lean["location"]), "module"))
    return lean


def _fixtures(autopsy: Mapping[str, Any]) -> Iterable[Plain]:
    """Of a fixture that an argument shows only the scope, if it is wider than the test."""
    arguments = (each for frame in autopsy["frames"] for each in frame["arguments"] or ())
    shown = {argument["name"]: argument["value"] for argument in arguments}
    for fixture in autopsy.get("fixtures") or ():
        if shown.get(fixture["name"]) != fixture["value"]:
            yield fixture
        elif fixture["scope"] != "function":
            yield _without(fixture, "value")
