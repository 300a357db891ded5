"""Borders: where a failure of our own ends, so that neither pytest nor the program meets it.

Whatever calls us – hooks of pytest, its cleanups, forks, hooks of the interpreter, events – calls a
border, which reports the failure once. What belongs to the program or to pytest passes it.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar

from pytest_cideldill.interpreter.frame_locals import read_locals

_T = TypeVar("_T")

Report = Callable[[str], object]
"""Takes one sentence about a failure."""

INCOMPLETE: Final = "incomplete"
"""Key of a report whose sentence says what is missing, and why."""

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_IS_FUNCTION: Final = 0x1 | 0x2  # CO_OPTIMIZED | CO_NEWLOCALS
_HAS_ARGS: Final = 0x4  # CO_VARARGS


def is_ours(file: str) -> bool:
    """Whether a `co_filename` is one of this package."""
    return file.startswith(_PACKAGE)


def passes(error: BaseException, is_ours: Callable[[str], bool] = is_ours) -> bool:
    """Whether an exception that arrives at a border belongs to the program or to pytest.

    Ctrl-C, exits and outcomes are no `Exception`. `pytest.exit` is one, and so is what the handler
    of a signal raises, which runs inside of whatever it interrupts.

    Args:
        error: With its traceback from the border inwards.
        is_ours: Tells files whose functions are no handlers of the program.
    """
    if not issubclass(type(error), Exception):
        return True
    leaving = getattr(sys.modules.get("_pytest.outcomes"), "Exit", None)
    return (leaving is not None and issubclass(type(error), leaving)) or _came_by_a_signal(
        error.__traceback__, is_ours
    )


def began_here(error: BaseException) -> bool:
    """Whether a failure started in our code, or in that of the standard library which we called."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file = "" if place is None else place.tb_frame.f_code.co_filename
    is_library = file.startswith((_LIBRARY, "<frozen ")) and "site-packages" not in file
    return is_library or is_ours(file)


def text_of(error: BaseException) -> str:
    """Class, message and place of a failure, without running code of what it holds."""
    said = error.args[0] if error.args and type(error.args[0]) is str else ""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" at {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"
    return f"{type(error).__name__}{f': {said}' if said else ''}{where}"


def contained(what: str, work: Callable[[], _T], report: Report, instead: _T) -> _T:
    """The result of our own work, or `instead` when it fails, which is reported.

    Args:
        what: Names the work in the report.
        work: Ours.
        report: Takes the sentence.
        instead: What the caller goes on with.
    """
    try:
        return work()
    except Exception as error:
        if passes(error):
            raise
        report_failure(what, error, report)
        return instead


def report_failure(what: str, error: BaseException, report: Report) -> None:
    """Report a failure; what fails in that is not reported again."""
    try:
        report(f"pytest-cideldill: {what} failed: {text_of(error)}")
    except Exception as further:
        if passes(further):
            raise


def every(what: str, steps: Iterable[Callable[[], object]], report: Report) -> None:
    """Take all steps, whichever of them fail, or raise what belongs to the program.

    Args:
        what: Names them in the report.
        steps: In this order.
        report: Takes a sentence about each that fails.
    """
    with ExitStack() as stack:
        for step in reversed(list(steps)):
            stack.callback(contained, what, step, report, None)


def add_to(report: dict[str, Any], *parts: Callable[[], Mapping[str, Any]]) -> None:
    """Add what parts make; one that fails is left out, which the report says.

    What is not told counts as passed, or is waited for: a report must leave, whatever it lacks.
    """
    for make in parts:
        try:
            report.update(make())
        except Exception as error:
            if passes(error):
                raise
            note(report, because(error))


def because(error: BaseException) -> str:
    """The sentence about a part of a report that could not be made."""
    return f"the report could not be made: {text_of(error)}"


def note(report: dict[str, Any], sentence: str) -> None:
    """Have a report say that something is missing."""
    before = report.get(INCOMPLETE)
    report[INCOMPLETE] = f"{before}; {sentence}" if type(before) is str else sentence


def at_fork(report: Report | None = None, **hooks: Callable[[], object]) -> None:
    """`os.register_at_fork` with borders; does nothing where processes can't fork.

    Args:
        report: Takes sentences about failures. Those in a child are for nobody: its link is gone,
            and its output is the program's.
        hooks: `before`, `after_in_parent`, `after_in_child`.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            **{
                when: partial(contained, f"a fork ({when})", hook, report or _to_nobody, None)
                for when, hook in hooks.items()
            }
        )


def at_exit(what: str, end: Callable[[], object]) -> None:
    """`atexit.register` with a border; by then nobody takes a report.

    Args:
        what: Names what ends.
        end: Must do nothing where that has ended already.
    """
    atexit.register(contained, what, end, _to_nobody, None)


def _to_nobody(_message: str) -> None:
    return


def _came_by_a_signal(place: TracebackType | None, is_ours: Callable[[str], bool]) -> bool:
    """Whether a frame of a traceback is that of a signal handler of the program.

    Python gives a handler the frame that it interrupts, which is the one before it.
    """
    while place is not None and place.tb_next is not None:
        interrupted, place = place.tb_frame, place.tb_next
        inner = place.tb_frame
        if not is_ours(inner.f_code.co_filename) and _was_given(inner, interrupted):
            return True
    return False


def _was_given(frame: FrameType, other: FrameType) -> bool:
    """Whether `other` is among the arguments of a function."""
    code = frame.f_code
    if code.co_flags & _IS_FUNCTION != _IS_FUNCTION:
        return False  # the names of a class or a module may be any object
    count = code.co_argcount + bool(code.co_flags & _HAS_ARGS) + code.co_kwonlyargcount
    held = read_locals(frame)
    for name in code.co_varnames[:count]:
        value = held.get(name)
        if value is other or (type(value) is tuple and any(each is other for each in value)):
            return True
    return False
