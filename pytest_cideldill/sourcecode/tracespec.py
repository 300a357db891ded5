"""Parses tracepoints in the text form of `--cideldill-trace`.

`FILE:LINE=TEMPLATE`, `FILE:LINE if EXPR => TEMPLATE`, or
`pkg.mod:func@call|return|raise[ if EXPR] => TEMPLATE`. Pure: it does not check that the line or the
function exists.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.quiet import compile_condition
from pytest_cideldill.sourcecode.template import InvalidTemplate, parse_template

FORMS: Final = (
    "FILE:LINE=TEMPLATE, FILE:LINE if EXPR => TEMPLATE or "
    "pkg.mod:func@call|return|raise[ if EXPR] => TEMPLATE"
)

_LINE: Final = re.compile(r"(?P<file>.+?):(?P<line>\d{1,9})(?=\s|=|$)")
_FUNCTION: Final = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"@(?P<at>\w*)(?=\s|=|$)"
)
_MOMENTS: Final = ("call", "return", "raise")
_ARROW: Final = "=>"


class InvalidSpec(ValueError):
    """A text that is no tracepoint. `position` is the 0-based offset of the mistake."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"position {position}: {reason}")
        self.position = position


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """One tracepoint.

    Attributes:
        condition: An expression, or None.
        file: As written; None for a tracepoint on a function.
        line: 1-based; 0 for a tracepoint on a function.
        function: Dotted path of the function; empty for a tracepoint on a line.
        module: The part of `function` that is a module.
        at: The moment of the call: at its start, or when it returns or raises.
    """

    template: str
    condition: str | None = None
    file: str | None = None
    line: int = 0
    function: str = ""
    module: str = ""
    at: Literal["call", "return", "raise"] = "call"


def parse_spec(text: str) -> TraceSpec:
    """A tracepoint from its text.

    Raises:
        InvalidSpec: The text is malformed; the message has the position and what is expected.
    """
    found = _FUNCTION.match(text) or _LINE.match(text)
    if found is None:
        raise InvalidSpec(0, f"expected {FORMS}")
    rest, condition = found.end(), None
    if (given := re.compile(r"\s+if\s+").match(text, rest)) is not None:
        arrow = _arrow(text, given.end())
        condition, rest = text[given.end() : arrow].strip(), arrow
        try:
            compile_condition(condition)
        except ValueError as error:
            raise InvalidSpec(given.end(), f"in the condition, {error}") from error
    elif (blank := re.compile(r"\s*").match(text, rest)) is not None:
        rest = blank.end()
    sign = _ARROW if text.startswith(_ARROW, rest) else "="
    if not text.startswith(sign, rest):
        raise InvalidSpec(rest, "expected = or => and the message")
    start = rest + len(sign)
    start += len(text[start:]) - len(text[start:].lstrip()) if sign == _ARROW else 0
    template = text[start:]
    try:
        parse_template(template)
    except InvalidTemplate as error:
        raise InvalidSpec(start + error.position, f"in the message, {error}") from error
    if not template:
        raise InvalidSpec(start, "the message is empty")
    named = found.groupdict()
    if "at" not in named:
        return TraceSpec(template, condition, named["file"], int(named["line"]))
    if named["at"] not in _MOMENTS:
        raise InvalidSpec(found.start("at"), f"expected one of: {', '.join(_MOMENTS)}")
    function = f"{named['module']}.{named['name']}"
    at: Literal["call", "return", "raise"] = named["at"]  # type: ignore[assignment]
    return TraceSpec(template, condition, function=function, module=named["module"], at=at)


def _arrow(text: str, start: int) -> int:
    """The position of the first arrow after a complete condition."""
    arrow = first = text.find(_ARROW, start)
    while arrow >= 0:
        try:
            compile_condition(text[start:arrow].strip())
        except ValueError:
            arrow = text.find(_ARROW, arrow + 1)
        else:
            return arrow
    if first < 0:
        raise InvalidSpec(len(text), "expected => and the message behind the condition")
    return first
