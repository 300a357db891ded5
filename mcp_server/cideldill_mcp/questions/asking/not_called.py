"""The refusal where no call of the asked function is the wanted one."""

from __future__ import annotations

from cideldill_mcp.questions.asking.asker import Seen, invalid
from cideldill_mcp.questions.asking.spelling import parsed
from cideldill_mcp.questions.texts.fitting import counted
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.sourcecode.names import close_names

_NAMED = 3
"""Functions that a refusal names."""


def check_choice(function: str | None, call: int | None, when: str | None) -> None:
    """Check the name of a function, and what chooses one of its calls.

    Raises:
        Refusal: `invalid_parameter`.
    """
    if function is None:
        for name, value in (("call", call), ("when", when)):
            if value is not None:
                raise invalid(name, value, "nothing, as long as no function is given")
        return
    if call is not None and when is not None:
        raise invalid("when", when, "nothing beside call: one of both chooses the call")
    if call is not None and call < 1:
        raise invalid("call", call, "integer of at least 1")
    parsed(function)
    if when is not None:
        check_expression("when", when)


def check_expression(parameter: str, text: str) -> None:
    """Check that a text is an expression.

    Raises:
        Refusal: `invalid_parameter`, with the position of the error.
    """
    try:
        compile(text.strip(), f"<{parameter}>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise invalid(parameter, text, f"expression ({error})") from error


def not_called(function: str, call: int | None, when: str | None, seen: Seen, rest: str) -> Refusal:
    """The refusal.

    Args:
        function: As asked.
        call: The number of the wanted call.
        when: The condition.
        seen: What the process saw.
        rest: The end of the sentence about a function that was not called.
    """
    count, test = seen.test.matches or 0, seen.test.nodeid
    if count and when is not None:
        said = "; ".join(text for limit, text in seen.recorded.reached if limit == "when")
        return Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"when is true for none of {counted(count, 'call')} of {function} in {test}"
            + (f" ({said})" if said else ""),
            parameter="when",
            expected="expression that is true for one of them",
            calls=count,
        )
    if count:
        return Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"{function} has {counted(count, 'call')} in {test}: there is none with number {call}",
            parameter="call",
            expected=f"integer from 1 to {count}",
            calls=count,
        )
    if cut := seen.recorded.cut:
        message = f"no call of a function {function!r} was seen in {test}: {'; '.join(cut)}"
    else:
        called = seen.recorded.unmatched or []
        near = close_names(parsed(function), called)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        if called and not near:
            hint = f"; it calls {', '.join(called[:_NAMED])}"
        message = f"{test} makes no call of a function {function!r}{hint}{rest}"
    return Refusal(ErrorCode.FUNCTION_NOT_FOUND, message, function=function)
