"""The table of messages: every kind crosses as plain data, whatever does not fit is named.

Sample values are made from the annotations of the dataclasses, so that a new kind is covered by
being in the table.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_cideldill import protocol
from pytest_cideldill.protocol import (
    KINDS,
    MalformedMessage,
    Message,
    Recorded,
    Stopped,
    from_plain,
    kind_of,
    to_plain,
)
from pytest_cideldill.protocol.framing import FrameDecoder, encode_frame
from tests.each_case import for_each

SCALARS: dict[Any, list[Any]] = {
    int: [0, 7, 2**60],
    float: [0.0, 1.5e-9],
    str: ["", "text", "\ud800 é"],
    bool: [True, False],
    type(None): [None],
    Any: [None, {"a": [1]}, "text"],
}


PAUSE: dict[str, Any] = {
    "id": "r1.main.1",
    "worker": "main",
    "phase": "before",
    "pause_reason": "breakpoint",
    "thread": {"id": 1, "name": "MainThread"},
}


SERIES: dict[str, Any] = {
    "count": 2,
    "common": {"type": "hit", "nodeid": None},
    "columns": {"message": {"lines": "\ud800\n"}, "ts": [0.5, 1]},
}


def samples(annotation: Any) -> list[Any]:
    """A few values of a field's type; a type that is no plain data has none."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return [value for each in arguments for value in samples(each)]
    if origin is list:
        return [[], samples(arguments[0])]
    if origin is dict:
        assert arguments[0] is str
        return [{}, {f"k{n}": value for n, value in enumerate(samples(arguments[1]))}]
    return SCALARS[annotation]


def messages(cls: type[Any]) -> Iterator[Message]:
    """Messages of a kind: each field in turn with each of its sample values."""
    hints = typing.get_type_hints(cls)
    choices = {field.name: samples(hints[field.name]) for field in dataclasses.fields(cls)}
    if cls is Stopped:
        choices["pause"] = [PAUSE]
    if cls is Recorded:
        choices["series"] = [[], [SERIES]]
        choices["order"] = [""]
    first = {name: values[0] for name, values in choices.items()}
    yield cls(**first)
    for name, values in choices.items():
        for value in values[1:]:
            yield cls(**(first | {name: value}))


def required(cls: type[Any]) -> list[str]:
    return [
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]


@for_each("kind", KINDS)
def test_every_kind_crosses_the_wire_unchanged_and_as_plain_data(kind: str) -> None:
    """`wire`: every field is plain JSON data. Plain means that JSON gives back an equal value."""
    for message in messages(KINDS[kind]):
        plain = to_plain(message)
        assert plain["kind"] == kind == kind_of(message)
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        (received,) = FrameDecoder().feed(encode_frame(plain))
        assert from_plain(received) == message


@for_each("kind", KINDS)
def test_every_kind_is_a_frozen_slotted_value(kind: str) -> None:
    """Messages are values, handed between threads without a lock."""
    message = next(messages(KINDS[kind]))
    assert not hasattr(message, "__dict__")
    for name in ("kind", *KINDS[kind].__slots__):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(message, name, 1)


def test_no_field_is_called_kind() -> None:
    """It would overwrite the name under which its message travels."""
    assert [cls for cls in KINDS.values() if "kind" in cls.__slots__] == []


def test_every_message_class_of_the_module_is_in_the_table() -> None:
    """One table per closed set. A class outside would not be received."""
    made = {
        value
        for value in vars(protocol).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value)
    }
    assert set(KINDS.values()) == made


def test_kinds_are_named_after_their_classes() -> None:
    """The names travel: they are the protocol, a changed one needs a new `PROTOCOL`."""
    assert list(KINDS) == [
        "hello", "collected", "items_found", "collection_failed", "node_started", "phase_reported",
        "node_finished", "nodes_finished", "bound", "recorded", "lines_passed", "watched",
        "stopped", "resumed", "step_ended", "worker_lost", "worker_ready", "node_relayed",
        "redaction_chosen", "engine_chosen", "warned", "interrupted",
        "internal_error_raised", "finished", "departed", "replied", "refused", "rejoined",
        "configure", "begin",
        "add_breakpoint", "set_default_behavior", "add_line", "add_trace", "add_exception",
        "remove_breakpoint",
        "resume", "step", "pause_now", "cancel_pause", "pause_on", "evaluate", "inspect",
        "read_context", "read_stack", "read_variables", "read_threads", "find_code", "interrupt",
        "release_all", "relay", "changed",
    ]  # fmt: skip


@for_each(
    ("plain", "named"),
    [
        ({"kind": "teleport", "request": 1}, "teleport"),
        ({"kind": "Hello"}, "Hello"),
        ({"kind": ""}, ""),
        ({}, "None"),
        ({"kind": None}, "None"),
        ({"kind": 3}, "3"),
        ({"kind": ["hello"]}, "['hello']"),
    ],
)
def test_an_unknown_kind_is_refused_by_name(plain: dict[str, Any], named: str) -> None:
    """Unknown message kinds are refused by name on both sides."""
    with pytest.raises(MalformedMessage, match="unknown kind") as caught:
        from_plain(plain)
    assert caught.value.kind == named
    assert repr(named) in str(caught.value)


@for_each(
    ("kind", "field"), [(kind, field) for kind, cls in KINDS.items() for field in required(cls)]
)
def test_a_missing_field_is_refused_by_name(kind: str, field: str) -> None:
    """Every required field of every kind."""
    plain = to_plain(next(messages(KINDS[kind])))
    del plain[field]
    with pytest.raises(MalformedMessage, match=field) as caught:
        from_plain(plain)
    assert caught.value.kind == kind


@for_each("kind", KINDS)
def test_fields_with_a_default_may_be_left_out(kind: str) -> None:
    """An older peer does not know them."""
    cls = KINDS[kind]
    message = next(messages(cls))
    plain = to_plain(message)
    received = from_plain({name: plain[name] for name in ("kind", *required(cls))})
    assert all(getattr(received, name) == getattr(message, name) for name in required(cls))


@for_each("kind", KINDS)
def test_fields_that_are_not_known_are_ignored(kind: str) -> None:
    """`from_plain`: so that a newer peer may add some."""
    message = next(messages(KINDS[kind]))
    extra = {"added_in_2031": [1], "self": 1, "": 2, "__class__": "x"}
    assert from_plain(to_plain(message) | extra) == message


WRONG = (object(), math.inf, math.nan, 10**400, True, "x", [object()], {"k": object()})


@for_each("kind", KINDS)
def test_a_field_of_another_type_makes_no_message(kind: str) -> None:
    """Named; numbers are finite, and a truth is no number."""
    plain = to_plain(next(messages(KINDS[kind])))
    hints = typing.get_type_hints(KINDS[kind])
    for name in plain.keys() - {"kind"}:
        for wrong in (value for value in WRONG if not fits(value, hints[name])):
            with pytest.raises(MalformedMessage, match=rf"\b{name} is no "):
                from_plain({**plain, name: wrong})


def fits(value: Any, annotation: Any) -> bool:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, each) for each in arguments)
    if origin is list:
        return type(value) is list and all(fits(each, arguments[0]) for each in value)
    if origin is dict:
        return type(value) is dict and all(fits(each, arguments[1]) for each in value.values())
    is_finite = type(value) not in (int, float) or abs(value) < 1e15  # so NaN is not
    return annotation is Any or (type(value) is annotation and is_finite)


def test_a_pause_has_what_everybody_asks_of_it() -> None:
    for name in PAUSE:
        pause = {key: value for key, value in PAUSE.items() if key != name}
        with pytest.raises(MalformedMessage, match="pause is no Pause"):
            from_plain({"kind": "stopped", "pause": pause})
