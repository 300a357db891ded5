"""Tracepoints as text: what is understood, and where what is not goes wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cideldill.sourcecode.tracespec import InvalidSpec, TraceSpec, parse_spec
from tests.each_case import for_each

LINE_5: dict[str, Any] = {"file": "till.py", "line": 5}
TOTAL: dict[str, Any] = {"function": "shop.till.total", "module": "shop.till"}


@for_each(
    ("text", "meant"),
    [
        ("till.py:5=x", TraceSpec("x", **LINE_5)),
        ("till.py:5= x ", TraceSpec(" x ", **LINE_5)),
        ("till.py:5 = x", TraceSpec(" x", **LINE_5)),
        ("till.py:5=>x", TraceSpec("x", **LINE_5)),
        ("till.py:5 => x ", TraceSpec("x ", **LINE_5)),
        ("till.py:5==x", TraceSpec("=x", **LINE_5)),
        ("till.py:5={a} and {b!r}", TraceSpec("{a} and {b!r}", **LINE_5)),
        ("till.py:5={a=}", TraceSpec("{a=}", **LINE_5)),
        ("till.py:5=a => b", TraceSpec("a => b", **LINE_5)),
        ("till.py:5 if a => x", TraceSpec("x", "a", **LINE_5)),
        ("till.py:5  if  a == 'b => c'  =>  x", TraceSpec("x", "a == 'b => c'", **LINE_5)),
        ("till.py:5 if a >= 2 => b => c", TraceSpec("b => c", "a >= 2", **LINE_5)),
        ("till.py:5 if {'k': a}['k'] => x", TraceSpec("x", "{'k': a}['k']", **LINE_5)),
        ("src/a b/till.py:5=x", TraceSpec("x", file="src/a b/till.py", line=5)),
        ("/abs/till.py:5=x", TraceSpec("x", file="/abs/till.py", line=5)),
        (r"C:\shop\till.py:5=x", TraceSpec("x", file=r"C:\shop\till.py", line=5)),
        ("größe.py:005=x", TraceSpec("x", file="größe.py", line=5)),
        ("a=b.py:5=x", TraceSpec("x", file="a=b.py", line=5)),
        ("a:3:5=x", TraceSpec("x", file="a:3", line=5)),
        ("shop.till:total@call=x", TraceSpec("x", **TOTAL)),
        ("shop.till:total@return => {result}", TraceSpec("{result}", **TOTAL, at="return")),
        ("shop.till:total@raise if a => x", TraceSpec("x", "a", **TOTAL, at="raise")),
        (
            "till:Cart.total@call=x",
            TraceSpec("x", function="till.Cart.total", module="till"),
        ),
    ],
)
def test_what_is_understood(text: str, meant: TraceSpec) -> None:
    """The forms of docs/recording.md."""
    assert parse_spec(text) == meant


@for_each(
    ("text", "position", "said"),
    [
        ("", 0, "expected FILE:LINE=TEMPLATE"),
        ("till.py", 0, "expected FILE:LINE=TEMPLATE"),
        ("till.py=x", 0, "expected FILE:LINE=TEMPLATE"),
        (":5=x", 0, "expected FILE:LINE=TEMPLATE"),
        ("till.py:=x", 0, "expected FILE:LINE=TEMPLATE"),
        ("till.py:five=x", 0, "expected FILE:LINE=TEMPLATE"),
        ("till.py:1234567890=x", 0, "expected FILE:LINE=TEMPLATE"),
        ("till.py:5", 9, "expected = or =>"),
        ("till.py:5 ", 10, "expected = or =>"),
        ("till.py:5 x", 10, "expected = or =>"),
        ("till.py:5 iffy => x", 10, "expected = or =>"),
        ("till.py:5=", 10, "the message is empty"),
        ("till.py:5 => ", 13, "the message is empty"),
        ("till.py:5 if a", 14, "expected => and the message behind the condition"),
        ("till.py:5 if a b => x", 13, "in the condition, "),
        ("till.py:5 if => x", 13, "in the condition, "),
        ("till.py:5 if (a => x", 13, "in the condition, "),
        ("till.py:5 if a = 2 => x", 13, "in the condition, "),
        ("till.py:5=a {b", 12, "in the message, "),
        ("till.py:5=a } b", 12, "in the message, "),
        ("till.py:5 => {}", 14, "in the message, "),
        ("till:total@=x", 11, "expected one of: call, return, raise"),
        ("till:total@now => x", 11, "expected one of: call, return, raise"),
        ("till:total@call", 15, "expected = or =>"),
        ("till:total=x", 0, "expected FILE:LINE=TEMPLATE"),
    ],
)
def test_a_mistake_is_reported_with_its_position(text: str, position: int, said: str) -> None:
    """What was expected there, or what is wrong behind it."""
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(text)
    assert caught.value.position == position
    assert str(caught.value).startswith(f"position {position}: {said}")


PIECES = st.sampled_from(
    [
        "till.py", ":", "5", "=", "=>", " if ", " ", "a", "{", "}", "{a}", "(", ")", "'", '"', "@",
        "call", "return", "shop.till", "total", "\n", "\\", "\x00", "\ud800", "é", "!r", "#", ";",
        "lambda: ", "await ", "yield ", ":=", "9" * 5_000, "(" * 300, "-" * 3_000, "not ", "*",
    ]
)  # fmt: skip


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
def test_any_text_is_a_tracepoint_or_refused_with_a_position_in_it(text: str) -> None:
    """It never raises anything else."""
    try:
        spec = parse_spec(text)
    except InvalidSpec as error:
        position = error.position
    else:
        position = text.index(spec.template)
        assert spec.template
        assert (spec.file is None) == bool(spec.function)
    assert 0 <= position <= len(text)
