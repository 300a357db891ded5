"""What the lines of a record hold, as `docs/record_format.md` tells it.

Made from the dataclasses that are written, and from two tables of what is written otherwise:
`tests/test_record_format.py` compares both with real records.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Final

from pytest_cideldill.protocol import KINDS, Event, Recorded
from pytest_cideldill.records.format import FORMAT, NOTED, UNWRITTEN, line_of
from tests.wire.test_wire import messages

Schema = dict[str, Any]

TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer"}
NUMBER: Final = {"type": "number"}
PLACE: Final = {
    "type": "object",
    "properties": {"file": TEXT, "line": COUNT, "function": TEXT},
    "required": ["file", "line"],
}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


HIT: Final = {
    "nodeid": or_null(TEXT),
    "thread": COUNT,
    "breakpoint_id": TEXT,
    "location": PLACE,
    "hit_count": COUNT,
    "message": TEXT,
    "condition_error?": {"const": True},
}

CALL: Final = {
    "call_id": TEXT,
    "method_name": TEXT,
    "qualified_name": TEXT,
    "status": {"enum": ["success", "exception", "running"]},
    "pretty_args": {"type": "array", "items": TEXT},
    "pretty_kwargs": {"type": "object", "additionalProperties": TEXT},
    "started_at": NUMBER,
    "completed_at": or_null(NUMBER),
    "parent_id": or_null(TEXT),
    "nodeid": or_null(TEXT),
    "thread": COUNT,
    "call_site": or_null(PLACE),
    "cids": or_null({"type": "object", "required": ["args", "kwargs", "result"]}),
    "pretty_result?": TEXT,
    "defined_in?": {"type": "array", "items": TEXT},
    "exception?": {"type": "object", "required": ["type", "message"]},
    "altered?": {},
    "replaced_by?": {},
}

LOG: Final = {
    "nodeid": or_null(TEXT),
    "thread": COUNT,
    "message": TEXT,
    "values": {"type": "object", "additionalProperties": TEXT},
}

DROPPED: Final = {"rows": {"type": "object", "additionalProperties": COUNT}}

ROWS: Final[dict[str, tuple[str, Schema]]] = {
    "hit": ("A tracepoint was hit; `message` is its text.", HIT),
    "call": ("A recorded call ended; or runs, while something stops.", CALL),
    "log": ("A test logged this by the fixture `cideldill`.", LOG),
    "dropped": ("So many lines were not written since the last line of this type.", DROPPED),
}
"""What is no message: text and keys; `?`: may be absent."""

_PLAIN: Final[dict[Any, Schema]] = {
    str: TEXT,
    int: COUNT,
    float: NUMBER,
    bool: {"type": "boolean"},
    Any: {},
}


def written() -> dict[str, type[Any]]:
    """Type of a line → class of the messages that are written as such."""
    left_out = {Recorded, *UNWRITTEN}
    events = [each for each in typing.get_args(Event) if each not in left_out]
    classes = [*events, *typing.get_args(NOTED)]
    return {line_of(1, 1.0, "main", next(messages(each))).type: each for each in classes}


def of_annotation(annotation: Any) -> Schema:
    """JSON of a field that is there: None is left out."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        there = [of_annotation(each) for each in arguments if each is not type(None)]
        return there[0] if len(there) == 1 else {"anyOf": there}
    if origin is list:
        return {"type": "array", "items": of_annotation(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_annotation(arguments[1])}
    return _PLAIN[annotation]


def keys_of(cls: type[Any]) -> Schema:
    """Key → schema, as in `ROWS`, of a message's line."""
    hints, keys = typing.get_type_hints(cls), {}
    for each in dataclasses.fields(cls):
        if each.name in ("ts", "position_file", "stacks_file"):
            continue
        is_optional = type(None) in typing.get_args(hints[each.name])
        name = "about" if each.name == "worker" else each.name
        keys[f"{name}?" if is_optional else name] = of_annotation(hints[each.name])
    if cls is KINDS["hello"]:
        del keys["about"]
        keys["format"] = {"const": FORMAT}
    return keys


def schema_of(type: str, keys: Schema, *, strict: bool) -> Schema:
    """JSON Schema of the lines of a type. Strict: there are no keys but these."""
    head = {"n": {"type": "integer", "minimum": 1}, "ts": NUMBER, "type": {"const": type}}
    properties = {**head, "worker": TEXT, **{name.rstrip("?"): each for name, each in keys.items()}}
    required = [name for name in (*head, "worker", *keys) if not name.endswith("?")]
    closed = {"additionalProperties": False} if strict else {}
    return {"type": "object", "properties": properties, "required": required, **closed}


def keys_by_type() -> dict[str, Schema]:
    """Of every type of line, in the order of the page."""
    of_messages = {type: keys_of(cls) for type, cls in written().items()}
    return {**of_messages, **{type: keys for type, (_, keys) in ROWS.items()}}


def whole_schema(*, strict: bool = False) -> Schema:
    """Of any line. What is not strict allows for keys and types of later versions."""
    known = keys_by_type()
    of_types = [
        {
            "if": {"properties": {"type": {"const": type}}},
            "then": schema_of(type, keys, strict=strict),
        }
        for type, keys in known.items()
    ]
    head = {"n": {"type": "integer", "minimum": 1}, "ts": NUMBER, "worker": TEXT}
    type = {"enum": list(known)} if strict else TEXT
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of events.jsonl, format {FORMAT}",
        "type": "object",
        "properties": {**head, "type": type},
        "required": ["n", "ts", "type", "worker"],
        "allOf": of_types,
    }
