"""From what a client sends to how a call goes on: values, arguments, exceptions, refusals.

At `breakpoint_continue` everything is validated before the thread is released, and a
refused request leaves it paused.
"""

from __future__ import annotations

import decimal
import sys
from types import FrameType
from typing import Any

import pytest

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.pauses.resume import ALLOWED, check_action, decode, make_exception
from pytest_cideldill.protocol import Resume
from tests.each_case import for_each


class Outer:
    class EmptyCart(Exception):
        pass


class Needy(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)


class Exploding(Exception):
    def __init__(self, *_: object) -> None:
        raise ZeroDivisionError("in the constructor")


class NoException(Exception):
    def __new__(cls, *_: object) -> Any:
        return "no exception at all"


def somewhere() -> FrameType:
    """A frame that sees these locals and this module's globals."""
    price, rates, LocalError = 7, [1, 2, 3], type("LocalError", (LookupError,), {})  # noqa: N806, F841
    return sys._getframe()


FRAME = somewhere()


def unknown(cid: str) -> Any:
    raise Refusal(ErrorCode.CID_NOT_FOUND, "unknown", cid=cid)


def command(action: str = "continue", **how: Any) -> Resume:
    return Resume(1, "r1.main.1", action, **how)


# --- actions by phase ---------------------------------------------------------------------------


def test_each_phase_allows_its_actions() -> None:
    assert ALLOWED["before"] == ("continue", "skip", "raise", "replace")
    assert ALLOWED["after"] == ALLOWED["exception"] == ("continue", "skip", "raise")
    assert ALLOWED["line"] == ("continue", "raise")
    assert ALLOWED["post_mortem"] == ("continue",)


@for_each(
    ("phase", "action"),
    [
        ("before", "explode"),
        ("before", ""),
        ("before", "Skip"),
        ("post_mortem", "skip"),
        ("post_mortem", "raise"),
        ("post_mortem", "modify"),
    ],
)
def test_another_action_is_refused_with_those_allowed(phase: str, action: str) -> None:
    """`invalid_action` (+ `allowed`)."""
    with pytest.raises(Refusal) as caught:
        check_action(phase, command(action))
    assert caught.value.code is ErrorCode.INVALID_ACTION
    assert caught.value.extra == {"action": action, "allowed": list(ALLOWED[phase])}


def test_modify_is_another_word_for_continue() -> None:
    """`continue` (with `modified_args` / `modified_kwargs`: also accepted as `modify`)."""
    assert check_action("before", command("modify", modified_args=[])) == "continue"


@for_each(
    ("phase", "action"), [("before", "skip"), ("before", "raise"), ("post_mortem", "continue")]
)
@for_each("modified", [{"modified_args": []}, {"modified_kwargs": {}}])
def test_modified_arguments_go_with_a_call_that_happens(
    phase: str, action: str, modified: dict[str, Any]
) -> None:
    """Elsewhere they would be dropped silently."""
    with pytest.raises(Refusal) as caught:
        check_action(phase, command(action, **modified))
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


# --- values -------------------------------------------------------------------------------------


@for_each(
    ("value", "decoded"),
    [
        (None, None),
        ("text", "text"),
        ([1, [2.5, {"a": True}]], [1, [2.5, {"a": True}]]),
        ({"$eval": "price"}, 7),
        ({"$eval": "decimal.Decimal('1.10')"}, decimal.Decimal("1.10")),
        ({"$eval": "  price + 1 \n"}, 8),
        ([{"a": [{"$eval": "rates[0]"}]}], [{"a": [1]}]),
        ({"$eval": "[rate * price for rate in rates]"}, [7, 14, 21]),
        ({"$eval": "sum(rate * price for rate in rates)"}, 42),
        ({"$eval": "(lambda: price)()"}, 7),
        ({"$literal": {"$eval": "price"}}, {"$eval": "price"}),
        ({"$literal": {"$literal": 1}}, {"$literal": 1}),
        ({"$literal": [{"$cid": "x"}]}, [{"$cid": "x"}]),
        ({"$eval": "price", "more": 1}, {"$eval": "price", "more": 1}),  # no mark: two keys
        ({}, {}),
    ],
)
def test_a_value_is_json_with_marks_at_any_depth(value: Any, decoded: Any) -> None:
    """`$eval` in the paused frame, nested scopes included; `$literal` escapes."""
    assert decode(value, FRAME, unknown) == decoded


def test_names_of_the_pause_are_seen_before_those_of_the_frame() -> None:
    """A result or an exception that is no local of the frame."""
    value = [{"amount": {"$eval": "__return__ + rates[0]"}}, {"$eval": "price"}]
    names = {"__return__": 2, "price": "other"}
    assert decode(value, FRAME, unknown, names) == [{"amount": 3}, "other"]


@for_each(
    ("source", "reported"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("unknown_name", "NameError"),
        ("price =", "SyntaxError"),
        ("x = 1", "SyntaxError"),
        ("", "SyntaxError"),
        ("\0", "Error"),
        ("pytest.skip('no')", "Skipped"),
        ("sys.exit(3)", "SystemExit"),
        (5, "takes source text"),
        (None, "takes source text"),
    ],
)
def test_an_expression_that_fails_is_refused_with_its_error(source: Any, reported: str) -> None:
    """Also what is no `Exception`: pytest's own outcomes must not leave the paused thread."""
    with pytest.raises(Refusal, match=reported) as caught:
        decode([{"$eval": source}], FRAME, unknown)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


def test_a_stored_object_that_is_not_there_is_refused() -> None:
    """`cid_not_found`; the store comes with a later issue."""
    with pytest.raises(Refusal) as caught:
        decode({"$cid": "abc"}, FRAME, unknown)
    assert (caught.value.code, caught.value.extra) == (ErrorCode.CID_NOT_FOUND, {"cid": "abc"})


# --- exceptions ---------------------------------------------------------------------------------


@for_each(
    ("name", "cls"),
    [
        ("ValueError", ValueError),
        ("KeyboardInterrupt", KeyboardInterrupt),
        ("decimal.InvalidOperation", decimal.InvalidOperation),  # a module that the frame sees
        ("subprocess.TimeoutExpired", None),  # not constructible from one text
        ("json.decoder.JSONDecodeError", None),
        ("email.errors.MessageError", __import__("email.errors").errors.MessageError),
        ("Outer.EmptyCart", Outer.EmptyCart),
        (f"{__name__}.Outer.EmptyCart", Outer.EmptyCart),
        ("LocalError", FRAME.f_locals["LocalError"]),
        ("Needy", None),
    ],
)
def test_an_exception_is_named_as_the_frame_sees_it_or_by_its_path(
    name: str, cls: type[BaseException] | None
) -> None:
    """A builtin, a dotted path (types are told as `module.QualName`), or a visible name."""
    asked = command("raise", exception_type=name, exception_message="empty")
    if cls is None:
        with pytest.raises(Refusal, match="can't be made from the message"):
            make_exception(asked, FRAME)
        return
    made = make_exception(asked, FRAME)
    assert type(made) is cls
    assert made.args == ("empty",)


def test_without_a_message_an_exception_has_no_arguments() -> None:
    """`exception_message=""` is the default: `StopIteration()` rather than `StopIteration("")`."""
    made = make_exception(command("raise", exception_type="StopIteration"), FRAME)
    assert made.args == ()


@for_each(
    ("name", "reported"),
    [
        ("NoSuchError", "unknown here"),
        ("no.such.Error", "unknown here"),
        ("decimal.NoSuchError", "unknown here"),
        ("", "unknown here"),
        (".", "unknown here"),
        ("int", "no exception class"),
        ("price", "no exception class"),
        ("decimal", "no exception class"),
        ("Exploding", "can't be made"),
        ("NoException", "makes a str and no exception"),
    ],
)
def test_what_is_no_exception_class_is_refused(name: str, reported: str) -> None:
    """`invalid_exception_type`, named."""
    with pytest.raises(Refusal, match=reported) as caught:
        make_exception(command("raise", exception_type=name, exception_message="x"), FRAME)
    assert caught.value.code is ErrorCode.INVALID_EXCEPTION_TYPE
    assert caught.value.extra == {"exception_type": name}
