"""Compiles conditions of breakpoints: one Python expression each."""

from __future__ import annotations

from types import CodeType

from pytest_cideldill.sourcecode.quiet import compiled


def compile_condition(text: str) -> CodeType:
    """The code object of a condition, for `eval`.

    Raises:
        ValueError: The text is no expression; the message names the position.
    """
    try:
        return compiled(text.strip(), "<condition>", "eval")
    except SyntaxError as error:
        place = f" at column {error.offset}" if error.offset else ""
        raise ValueError(f"condition {text!r}: {error.msg}{place}") from error
    except ValueError as error:
        raise ValueError(f"condition {text!r}: {error}") from error
