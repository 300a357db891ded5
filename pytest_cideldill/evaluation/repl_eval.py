"""Evaluates code of a client in a paused frame, as a debugger's console does.

Runs in the process under test, on the paused thread and outside any lock: this is where user code
runs on purpose. Must not know pauses, sessions or the wire.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any, Final

from pytest_cideldill.evaluation.compiled import future_flags
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import EvaluationInterrupted, Interruption, Interruptor
from pytest_cideldill.evaluation.namespace import FrameNamespace
from pytest_cideldill.evaluation.stdout import collected_stdout
from pytest_cideldill.evaluation.test_loop import (
    context_of,
    find_loop,
    find_trio,
    in_context,
    run_in_test_loop,
    run_in_trio,
)
from pytest_cideldill.frames.loops import run_in_loop
from pytest_cideldill.frames.tasks import is_in_loop
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering.layout import type_name
from pytest_cideldill.sourcecode.quiet import compiled, parse

MAX_TEXT: Final = 200_000
"""Characters of `output`, and of `stdout`."""

_FILENAME: Final = "<cideldill>"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        output: `repr` of an expression, empty for statements, `Type: message` for an error.
        stdout: The output of the evaluating thread.
        is_error: The code raised, was malformed or was interrupted.
        timed_out: The code was interrupted.
        changed: State of the program that was assigned: names of the frame's locals and of globals,
            and the source text of attributes and items.
        value: The value of an expression, else None.
        missing: The name whose lookup failed, if a NameError of the code itself is the result.
        error: The exception that the code raised.
    """

    output: str
    stdout: str = ""
    is_error: bool = False
    timed_out: bool = False
    changed: tuple[str, ...] = ()
    value: object = None
    missing: str | None = None
    error: BaseException | None = None


_LONGEST: Final = 1_000_000
"""Characters or bytes of the longest text that is rendered by `repr` as a whole."""

_UNITS: Final = {str: "chars", bytes: "bytes"}

_ROOM: Final = 100
"""Characters for the notice of what was left out."""


def evaluate(
    source: str,
    frame: FrameType,
    namespace: dict[str, Any],
    *,
    guard: EvaluationGuard,
    interruptor: Interruptor | None = None,
    error: BaseException | None = None,
) -> Evaluation:
    """Evaluate `source` as if it stood at the current line of `frame`; never raises.

    Args:
        source: An expression, or statements of which the last may be an expression.
        frame: A frame of this thread that is not running: paused, or a caller of it.
        namespace: The names of the session; new ones are added.
        guard: Keeps breakpoints away from what the evaluation calls.
        interruptor: Lets other threads end the evaluation.
        error: The exception that has ended the code of `frame`; None: the code goes on.
    """
    interruptor = interruptor or Interruptor()
    changed: dict[str, None] = {}
    with guard.evaluating(), collected_stdout(MAX_TEXT) as printed:
        try:
            outcome = interruptor.run(
                lambda: _outcome(source, frame, namespace, changed, error, interruptor)
            )
            timed_out = outcome.is_error and interruptor.sent
        except EvaluationInterrupted:
            outcome, timed_out = Evaluation("interrupted", is_error=True), True
    return replace(
        outcome,
        output=_cut(outcome.output, MAX_TEXT),
        stdout=printed.text(),
        timed_out=timed_out,
        changed=tuple(changed),
    )


def _outcome(
    source: str,
    frame: FrameType,
    session: dict[str, Any],
    changed: dict[str, None],
    ended_by: BaseException | None,
    interruptor: Interruptor,
) -> Evaluation:
    try:
        tree = parse(textwrap.dedent(source) if source[:1].isspace() else source, _FILENAME)
        names = FrameNamespace(frame, session, _declared_global(tree), changed)
        try:
            if any(isinstance(node, ast.ClassDef) for node in ast.walk(tree)):
                names.show_to_classes()
            flags = future_flags(frame.f_code) | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            value = _run(_codes(tree, flags), names, ended_by, interruptor)
        finally:
            names.finish()
            changed.update(dict.fromkeys(_parts_assigned(tree, session)))
        is_statement = not tree.body or not isinstance(tree.body[-1], ast.Expr)
        return Evaluation("") if is_statement else Evaluation(_shown(value), value=value)
    except Interruption:
        raise
    except BaseException as error:  # noqa: BLE001 - a border: whatever user code raises is the answer
        text = _error_text(error)
        return Evaluation(text, is_error=True, missing=_missing(error), error=error)


def _missing(error: BaseException) -> str | None:
    """The name of a NameError that the evaluated code itself raised, else None."""
    place = error.__traceback__ if type(error) is NameError else None
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    is_own = place is not None and place.tb_frame.f_code.co_filename == _FILENAME
    return str(error.name) if is_own and isinstance(error, NameError) and error.name else None


def _codes(tree: ast.Module, flags: int) -> list[CodeType]:
    """The statements, and an expression at their end."""
    *statements, last = tree.body or [ast.Pass()]
    if not isinstance(last, ast.Expr):
        return [compiled(tree, _FILENAME, "exec", flags)]
    codes = [compiled(ast.Expression(last.value), _FILENAME, "eval", flags)]
    if statements:
        tree = ast.Module(statements, tree.type_ignores)
        codes.insert(0, compiled(tree, _FILENAME, "exec", flags))
    return codes


def _run(
    codes: Sequence[CodeType],
    names: FrameNamespace,
    ended_by: BaseException | None,
    interruptor: Interruptor,
) -> object:
    """The value of the last code object; exceptions of all pass on.

    They run in the context of the code of the frame, and in its event loop if they await.
    """
    if not any(map(_awaits, codes)):
        return in_context(context_of(ended_by), _run_all, codes, names)
    asyncio = sys.modules.get("asyncio")  # the program's; without it nothing can be waited for
    if is_in_loop():
        return _finish_at_once(_await_all(codes, names))
    if (runner := find_trio()) is not None:
        return run_in_trio(runner, _await_all(codes, names), interruptor)
    if asyncio is None:
        return _finish_at_once(_await_all(codes, names))
    loop = find_loop(ended_by, sys._getframe())
    if loop is not None:
        return run_in_test_loop(loop, _await_all(codes, names), interruptor)
    return run_in_loop(asyncio, lambda: _await_all(codes, names), context_of(ended_by))


def _awaits(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _run_all(codes: Sequence[CodeType], names: FrameNamespace) -> object:
    value = None
    for code in codes:
        value = eval(code, names)
    return value


async def _await_all(codes: Sequence[CodeType], names: FrameNamespace) -> object:
    value = None
    for code in codes:
        value = eval(code, names)
        if _awaits(code):
            value = await value
    return value


def _finish_at_once(coroutine: Coroutine[Any, Any, Any]) -> object:
    """Run a coroutine that does not wait: the event loop of this thread stands still."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    # Not `close`: in 3.13.0 that breaks the interpreter's state when a `finally` awaits.
    with suppress(GeneratorExit, StopIteration, RuntimeError):
        coroutine.throw(GeneratorExit())
    raise RuntimeError(
        "await can't wait here: the event loop of this thread is paused as well. What is ready "
        "can be awaited; a task that is created here runs when the test goes on"
    )


def _declared_global(tree: ast.Module) -> set[str]:
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


def _parts_assigned(tree: ast.Module, session: dict[str, Any]) -> list[str]:
    """Attributes and items that code assigns or deletes, without those of session names."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if _root_of(node) not in session
    ]


def _root_of(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _shown(value: object) -> str:
    kind = type(value)
    if (kind is str or kind is bytes) and len(value) > _LONGEST:  # type: ignore[arg-type]
        # No copy of all of it, for which there may be no memory; it is cut off anyway.
        shown = repr(value[:MAX_TEXT])[: MAX_TEXT - _ROOM]  # type: ignore[index]
        return f"{shown}… +{len(value) - len(shown)} {_UNITS[kind]}"  # type: ignore[arg-type]
    try:
        return str.__str__(repr(value))
    except Interruption:
        raise
    except BaseException as error:  # noqa: BLE001 - a border: a failing __repr__ is part of the answer
        return f"<repr failed: {type_name(error)}>"


def _error_text(error: BaseException) -> str:
    try:
        message = str.__str__(str(error))
    except Interruption:
        raise
    except BaseException as failure:  # noqa: BLE001 - a border: so is a failing __str__
        message = f"<str failed: {type_name(failure)}>"
    return f"{type_name(error)}: {message}" if message else type_name(error)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… +{len(text) - most} chars"
