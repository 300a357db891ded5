"""Which argument of a mock was another one: read from the messages of the library itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, Mock, call

import pytest

from cideldill_mcp.questions.why.mock_calls import OtherArgument, first_other_argument
from tests.each_case import for_each


def message_of(check: Callable[..., None], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        check(*args, **kwargs)
    return str(raised.value)


def called(*calls: Any) -> Mock:
    mock = Mock()
    for each in calls:
        mock.send(*each.args, **each.kwargs)
    return mock


@for_each(
    ("actual", "expected", "found"),
    [
        (call("a", 1), call("a", 2), ("argument 2", "1", "2")),
        (call("a\nb"), call("a\nc"), ("argument 1", r"'a\nb'", r"'a\nc'")),
        (call(1, name="x"), call(1, name="y"), ("argument name", "'x'", "'y'")),
        (call({"k": [1, 2]}), call({"k": [1, 3]}), ("argument 1['k'][1]", "2", "3")),
        (call([1]), call([1, 2]), ("argument 1", "[1]", "[1, 2]")),
        (call(1), call(1, 2), None),
        (call(a=1), call(b=1), None),
        (call(object()), call(1), None),
        (call(-1.5), call((1,)), ("argument 1", "-1.5", "(1,)")),
    ],
)
def test_the_first_other_argument_of_a_call_is_found(
    actual: Any, expected: Any, found: tuple[str, str, str] | None
) -> None:
    check = called(actual).send.assert_called_once_with
    text = message_of(check, *expected.args, **expected.kwargs)
    assert first_other_argument(text) == (None if found is None else OtherArgument(*found))


def test_calls_in_a_list_have_their_number() -> None:
    mock = called(call(1), call(2, sep=","))
    text = message_of(mock.send.assert_has_calls, [call(1), call(2, sep=";")])
    assert first_other_argument(text) == OtherArgument("[1] argument sep", "','", "';'")


def test_awaits_are_calls_too() -> None:
    mock = AsyncMock()
    asyncio.run(mock("x"))
    text = message_of(mock.assert_awaited_once_with, "y")
    assert first_other_argument(text) == OtherArgument("argument 1", "'x'", "'y'")


@for_each(
    "text",
    [
        "",
        "Expected: f(1)",
        "Expected: f(\n  Actual: f(1)",
        "Expected: f(1)\n  Actual: g(2)",
        "Expected: f(1)\n  Actual: f(1)",
        "Expected: 1\n  Actual: 2",
        *(f"Expected: f({'+'.join(['1'] * n)})\n  Actual: f(2)" for n in (600, 900, 5_000)),
        f"Expected: f({'(' * 500}1{')' * 500})\n  Actual: f(2)",
    ],
)
def test_other_messages_say_nothing(text: str) -> None:
    assert first_other_argument(text) is None
