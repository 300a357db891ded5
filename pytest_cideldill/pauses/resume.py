"""From a `Resume` command to a `Resolution`, on the parked thread and before it is released.

Everything that the client sent is checked here; a refused request leaves the thread
parked (`breakpoint_continue`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, FunctionType
from typing import Any

from pytest_cideldill.errors import ErrorCode, Refusal, missing
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.interpreter.loaded_names import loaded_prefixes
from pytest_cideldill.patching.code_swap import arguments_of
from pytest_cideldill.patching.substitute import original_of
from pytest_cideldill.pauses.parking import Resolution
from pytest_cideldill.probes.behaviors import Call
from pytest_cideldill.protocol import Resume
from pytest_cideldill.sourcecode.quiet import compiled

ALLOWED: dict[str, tuple[str, ...]] = {
    "before": ("continue", "skip", "raise", "replace"),
    "after": ("continue", "skip", "raise"),
    "exception": ("continue", "skip", "raise"),
    "raise": ("continue", "raise"),
    "line": ("continue", "raise"),
    "post_mortem": ("continue",),
}
"""Actions by phase."""

_MODIFY = "modify"
_NONE: Mapping[str, Any] = {}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Load = Callable[[str], Any]
"""Makes a kept object anew, by its content id; raises `cid_not_found`."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def check_action(phase: str, command: Resume) -> str:
    """The action that a command means in this phase.

    Raises:
        Refusal: `invalid_action`, with what is allowed.
    """
    allowed = ALLOWED[phase]
    modified = command.modified_args is not None or command.modified_kwargs is not None
    action = "continue" if command.action == _MODIFY and phase == "before" else command.action
    if command.replacement_function:
        action = "replace"
    if action not in allowed:
        raise Refusal(
            ErrorCode.INVALID_ACTION,
            f"{action!r} is not possible at a {phase} pause; allowed: {', '.join(allowed)}",
            action=action,
            allowed=list(allowed),
        )
    if modified and (phase != "before" or action not in ("continue", "replace")):
        raise Refusal(
            ErrorCode.INVALID_ARGUMENTS,
            "modified_args and modified_kwargs go with action 'continue' or 'replace' at a before "
            "pause only",
        )
    if action == "replace" and not command.replacement_function:
        raise missing("replacement_function", "action 'replace' needs replacement_function")
    return action


def resolve_call(
    command: Resume,
    call: Call,
    signature: str,
    *,
    touched: bool,
    find: Callable[[str], object],
    load: Load,
) -> Resolution:
    """How an intercepted call goes on.

    Args:
        signature: As the client knows it.
        touched: Whether an evaluation may have assigned parameters.
        find: Finds a replacement by name; raises refusals.
        load: Makes kept objects anew.

    Returns:
        A resolution whose value is `(args, kwargs)` (None: as they came), of a replaced call
        `(replacement, (args, kwargs) or None)`, the result of a skipped call, or the exception to
        raise.

    Raises:
        Refusal: `invalid_action`, `invalid_arguments`, `invalid_exception_type` or
            `function_not_found`.
    """
    action, frame = check_action("before", command), call.frame
    if action == "skip":
        return Resolution("skip", value=decode(command.fake_result, frame, load))
    if action == "raise":
        return Resolution("raise", value=make_exception(command, frame))
    arguments = arguments_of(frame) if touched else None
    if command.modified_args is not None or command.modified_kwargs is not None:
        arguments = _modified(command, call, signature, load)
    if action == "replace":
        return Resolution("replace", value=(find(command.replacement_function), arguments))
    return Resolution(value=arguments)


def resolve_completion(
    phase: str, command: Resume, frame: FrameType, load: Load, names: Mapping[str, Any]
) -> Resolution:
    """How a call that returned (`after`) or raised (`exception`) goes on.

    Args:
        phase: Which of the two.
        frame: Where its expressions are evaluated.
        load: Makes kept objects anew.
        names: What its expressions see besides: the result, or the exception.

    Returns:
        A resolution whose value is another result (`skip`), or the exception to raise.

    Raises:
        Refusal: `invalid_action`, `invalid_arguments` or `invalid_exception_type`.
    """
    action = check_action(phase, command)
    if action == "skip":
        return Resolution("skip", value=decode(command.fake_result, frame, load, names))
    if action == "raise":
        return Resolution("raise", value=make_exception(command, frame))
    return Resolution()


def resolve_line(command: Resume, frame: FrameType, phase: str = "line") -> Resolution:
    """How a program that is stopped at a line, or at a raise, goes on.

    Returns:
        A resolution whose value is the exception to raise.

    Raises:
        Refusal: `invalid_action`, `invalid_arguments` or `invalid_exception_type`.
    """
    if check_action(phase, command) == "raise":
        return Resolution("raise", value=make_exception(command, frame))
    return Resolution()


def _modified(command: Resume, call: Call, shown: str, load: Load) -> Arguments:
    """The call's arguments with those that the client changes.

    `modified_args` replaces all positional arguments; where it has fewer values than there are
    positional parameters, the leading ones. `modified_kwargs` replaces those keywords.
    """
    frame, signature = call.frame, _signature(call.function, call.code)
    args, kwargs = arguments_of(frame)
    named = {
        key: decode(value, frame, load) for key, value in (command.modified_kwargs or {}).items()
    }
    given = tuple(decode(command.modified_args or [], frame, load))
    positional = [each for each in signature.parameters.values() if each.kind in _POSITIONAL]
    if command.modified_args is not None and len(given) >= len(positional):
        args = given
    else:
        left = zip(positional[len(given) :], args[len(given) :], strict=False)
        args = (
            given
            + tuple(
                named.pop(parameter.name)
                if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name in named
                else value
                for parameter, value in left
            )
            + args[len(positional) :]
        )
    kwargs = {**kwargs, **named}
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise Refusal(
            ErrorCode.INVALID_ARGUMENTS,
            f"the modified arguments don't fit {shown}: {error}",
            signature=shown,
        ) from error
    if original_of(call.code) is None:
        bound.apply_defaults()  # the original code is called without its function's defaults
    return bound.args, bound.kwargs


def _signature(function: FunctionType, code: CodeType) -> inspect.Signature:
    """The signature of a copy that has no attributes of the user's (`__signature__`, …)."""
    original = original_of(code)
    if original is not None and original.signature is not None:
        return original.signature
    bare = FunctionType(code, {}, code.co_name, function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)


def decode(value: Any, frame: FrameType, load: Load, names: Mapping[str, Any] = _NONE) -> Any:
    """A JSON value with its `{"$eval": …}` evaluated in the frame, `{"$cid": …}` made anew and
    `{"$literal": …}` unwrapped. `names` are seen first.

    Raises:
        Refusal: `invalid_arguments`, when an expression raises; `cid_not_found` for a `$cid`.
    """
    if isinstance(value, list):
        return [decode(item, frame, load, names) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        if "$literal" in value:
            return value["$literal"]
        if "$eval" in value:
            return _evaluated(value["$eval"], frame, names)
        if "$cid" in value:
            return load(str(value["$cid"]))
    return {key: decode(item, frame, load, names) for key, item in value.items()}


def _evaluated(source: Any, frame: FrameType, names: Mapping[str, Any]) -> Any:
    if not isinstance(source, str):
        raise Refusal(ErrorCode.INVALID_ARGUMENTS, f"$eval takes source text, not {source!r}")
    try:
        # Compiled apart: eval of text would inherit our __future__ imports, and would turn a Ctrl-C
        # that was handled into the exit status. One namespace: nested scopes see no second one.
        code = compiled(source.strip(), "<cideldill>", "eval")
        return eval(code, {**frame.f_globals, **read_locals(frame), **names})
    except KeyboardInterrupt:
        raise  # Ctrl-C ends the pause
    except BaseException as error:  # the user's expression; its failure is the answer
        raise Refusal(
            ErrorCode.INVALID_ARGUMENTS, f"$eval {source!r} raised {type(error).__name__}: {error}"
        ) from error


def make_exception(command: Resume, frame: FrameType) -> BaseException:
    """The exception of an action `raise`: of a builtin, a dotted path or a name seen by the frame.

    Raises:
        Refusal: `invalid_exception_type`: unknown, no exception class, or not constructible.
    """
    name = command.exception_type
    cls = _find_class(name, frame)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        reason = "is unknown here" if cls is None else "is no exception class"
        raise _bad_exception(
            name, f"{reason}; use a builtin, a dotted path or a name that the paused frame sees"
        )
    try:
        made = cls(command.exception_message) if command.exception_message else cls()
    except Exception as error:  # the user's constructor; its failure is the answer
        raise _bad_exception(
            name, f"can't be made from the message {command.exception_message!r}: {error}"
        ) from error
    if not isinstance(made, BaseException):
        raise _bad_exception(name, f"makes a {type(made).__name__} and no exception")
    return made


def _find_class(name: str, frame: FrameType) -> object:
    parts = name.split(".")
    for names in (read_locals(frame), frame.f_globals, vars(sys.modules["builtins"])):
        if parts[0] in names:
            found = _attribute(names[parts[0]], parts[1:])
            if found is not None:
                return found
    nearest = next(loaded_prefixes(parts), None)
    return None if nearest is None else _attribute(*nearest)


def _attribute(found: object, path: list[str]) -> object:
    # Not `loaded_names.walk`: the client names what an expression in this frame would see, and this
    # thread may run code of the program, as to make the exception.
    for part in path:
        found = getattr(found, part, None)
    return found


def _bad_exception(name: str, reason: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_EXCEPTION_TYPE, f"exception_type {name!r} {reason}", exception_type=name
    )
