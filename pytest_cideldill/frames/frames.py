"""Frames to plain values: which ones a user cares about, where they are, what their locals hold.

Runs on the thread that stopped. Values pass through `snapshot`; no user code runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType, FrameType, MappingProxyType, TracebackType
from typing import Any

from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.interpreter.code_files import frame_file
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.project import Project
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import cause_of, context_of, traceback_of, type_name

NOT_SHOWN = "<not shown: out of time>"
"""Stands for a value when showing those before it took too long."""

_MOST_NOTICED = 40
"""Locals per frame in which secrets are looked for, if their own names are none."""

_NOTICE_S = 0.05
"""Seconds that looking for secrets behind an exception may take."""

_NOTHING: Mapping[str, object] = MappingProxyType({})

_TOOLS = frozenset({"_pytest", "doctest", "pluggy", "pytest", "pytest_cideldill"})

_EMPTY = 6
"""Bytes of the code that `PyCode_NewEmpty` makes."""

_HIDDEN = frozenset({"__tracebackhide__", "__class__", "__builtins__"})


def visible_stack(frame: FrameType | None, project: Project) -> list[FrameType]:
    """The frames from `frame` outwards without those of this plugin, innermost first."""
    frames = []
    while frame is not None:
        if not project.is_ours(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames


def user_side(
    frames: list[FrameType],
    project: Project,
    is_hidden: Callable[[CodeType], bool] = lambda _: False,
) -> list[FrameType]:
    """A stack without what runs the user's code: pytest and its like, and all that called them.

    The innermost frame stays, whosever it is; without any of the user's all of them do.

    Args:
        frames: Innermost first.
        is_hidden: Which code is left out further up although it looks like the user's.
    """
    shown = frames[:1] + [
        frame for frame in frames[1:] if not is_of_tools(frame) and not is_hidden(frame.f_code)
    ]
    users = [at for at, frame in enumerate(shown) if project.has(frame)]
    return shown[: users[-1] + 1] if users else frames


def is_of_tools(frame: FrameType) -> bool:
    """Whether a frame is that of a test tool, ours included; pytest leaves them out as well."""
    return module_of(frame).partition(".")[0] in _TOOLS or "__unittest" in frame.f_globals


def visible_traceback(error: BaseException, project: Project) -> list[tuple[FrameType, int]]:
    """`(frame, line)` of an exception's traceback without those of test tools, innermost first."""
    return visible_places(traceback_of(error), project)


def has_run(frame: FrameType) -> bool:
    """Whether a frame ran Python code: C code (Cython, mypyc) makes others for tracebacks.

    Their code is that of `PyCode_NewEmpty`, three instructions, of which none was passed.
    """
    return frame.f_lasti > 0 or len(frame.f_code.co_code) != _EMPTY


def was_raised(error: BaseException) -> bool:
    """Whether an exception has a traceback."""
    return traceback_of(error) is not None


def visible_places(place: TracebackType | None, project: Project) -> list[tuple[FrameType, int]]:
    """The same of a traceback."""
    places = []
    while place is not None:
        frame = place.tb_frame
        if not project.is_ours(frame.f_code.co_filename) and not is_of_tools(frame):
            places.append((frame, place.tb_lineno))
        place = place.tb_next
    return places[::-1]


def top_user_frame(frames: list[FrameType], project: Project) -> int:
    """Index of the innermost frame of user code; 0 when there is none."""
    return next((index for index, frame in enumerate(frames) if project.has(frame)), 0)


def module_of(frame: FrameType) -> str:
    """The dotted module name of a frame, `?` when it has none."""
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else "?"


def place_of(frames: list[FrameType], lens: Lens) -> dict[str, Any]:
    """`{file, line, function, module}` of the innermost frame of user code, else of any."""
    frame = frames[top_user_frame(frames, lens.project)]
    return {
        **lens.place(frame, frame.f_lineno),
        "function": frame.f_code.co_qualname,
        "module": module_of(frame),
    }


def line_of(frame: FrameType, lens: Lens) -> str:
    """`file:line function`."""
    place = lens.place(frame, frame.f_lineno)
    return f"{place['file']}:{place['line']} {frame.f_code.co_qualname}"


def location(frame: FrameType, line: int, lens: Lens) -> dict[str, Any]:
    """`{file, line, function, module, source}` of a place in a frame."""
    return {
        **lens.place(frame, line),
        "function": frame.f_code.co_qualname,
        "module": module_of(frame),
        **lens.source(frame, line),
    }


def user_stack(
    frames: Sequence[FrameType],
    lines: Sequence[int] | None,
    lens: Lens,
    is_hidden: Callable[[CodeType], bool],
) -> list[dict[str, Any]]:
    """Where a stack stands, and its places in user code, innermost first; bounded.

    Args:
        frames: Innermost first.
        lines: The current line of each where it is not the frame's own.
        lens: Decides what is user code, and how many are described.
        is_hidden: Which code is left out further up although it looks like the user's.
    """
    shown = (
        (frame, lines[index] if lines else frame.f_lineno)
        for index, frame in enumerate(frames)
        if not index or (lens.project.has(frame) and not is_hidden(frame.f_code))
    )
    return [location(*place, lens) for place in islice(shown, lens.limits.max_frames)]


def describe_frame(
    place: tuple[FrameType, int],
    index: int,
    lens: Lens,
    *,
    with_locals: bool,
    deadline: Deadline | None = None,
    first: Sequence[str] = (),
) -> dict[str, Any]:
    """One entry of `frames` in a reply; `variables` and `arguments` only `with_locals`.

    `place`: the frame and its current line. `deadline`, `first`: as for `locals_of`.
    """
    frame, line = place
    code = frame.f_code
    described: dict[str, Any] = {
        "index": index,
        "function": code.co_qualname,
        "module": module_of(frame),
        "isExternal": not lens.project.has(frame),
        "location": lens.place(frame, line),
        **lens.source(frame, line),
    }
    if (hint := lens.project.beside(frame_file(frame))) is not None:
        described["hint"] = hint
    if with_locals:
        variables = locals_of(frame, lens, deadline, first)
        names = set(_parameter_names(code))
        described["arguments"] = [entry for entry in variables if entry["name"] in names]
        described["variables"] = {
            "locals": [entry for entry in variables if entry["name"] not in names]
        }
    return described


def locals_of(
    frame: FrameType, lens: Lens, deadline: Deadline | None = None, first: Sequence[str] = ()
) -> list[dict[str, str]]:
    """`[{name, type, value}]` of a frame's locals, in the order of their definition.

    Names that only the interpreter or pytest's assertion rewriting made are left out.

    Args:
        frame: Of a function; the globals of a module are left out.
        lens: Shows the values, and knows how many there may be.
        deadline: Behind it values are left out; default: in `capture_ms`.
        first: Names that come before the others, if they are locals.
    """
    if deadline is None:
        deadline = Deadline(lens.limits.capture_ms / 1000)
    shown: list[dict[str, str]] = []
    held = dict(_named_locals(frame))
    ordered = {name: held[name] for name in first if name in held} | held
    for name, value in islice(ordered.items(), lens.limits.max_locals):
        text = NOT_SHOWN if deadline.is_over() else lens.show(value, name)
        shown.append({"name": name, "type": type_name(value), "value": text})
    return shown


def _named_locals(frame: FrameType) -> Iterator[tuple[str, object]]:
    if frame.f_code.co_name != "<module>":  # a module's globals are not news
        for name, value in list(read_locals(frame).items()):
            if is_shown(name):
                yield name, value


def is_shown(name: str) -> bool:
    """Whether a variable is the user's: not made by the interpreter or by assertion rewriting."""
    return type(name) is str and not name.startswith("@") and name not in _HIDDEN


def short_locals(frame: FrameType, lens: Lens) -> dict[str, str]:
    """`{name: value}`, for a pause."""
    return {entry["name"]: entry["value"] for entry in locals_of(frame, lens)}


def notice_secrets(frame: FrameType, lens: Lens, more: Mapping[str, object] = _NOTHING) -> None:
    """Make the secrets that a frame and `more` hold known to the lens.

    Texts that others make of them (reports, a `repr`) have the value without its name.
    """
    if frame.f_code.co_name != "<module>":
        for count, (name, value) in enumerate(_named_locals(frame)):
            if count < _MOST_NOTICED or lens.is_sensitive(name):
                lens.notice(value, name)
    else:
        more = {**frame.f_globals, **more}
    for name, value in list(more.items()):
        if lens.is_sensitive(name):
            lens.notice(value, name)


def notice_secrets_behind(error: BaseException, lens: Lens) -> None:
    """The same for the user frames of an exception and of those behind it."""
    deadline = Deadline(_NOTICE_S)
    waiting, seen = [error], {id(error)}
    while waiting:
        error = waiting.pop()
        place = traceback_of(error)
        while place is not None and not deadline.is_over():
            if lens.project.has(place.tb_frame):
                notice_secrets(place.tb_frame, lens)
                lens.source(place.tb_frame, place.tb_lineno)  # compared with a literal, say
            place = place.tb_next
        for other in (cause_of(error), context_of(error)):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)


def _parameter_names(code: CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    return code.co_varnames[:count]
