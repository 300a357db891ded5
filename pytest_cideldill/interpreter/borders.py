"""Borders: end failures of our own, so that they reach neither pytest nor the program.

Hooks of pytest, its cleanups, forks, hooks of the interpreter and events call our code through a
border, which reports a failure once. Exceptions of the program and of pytest pass it.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from enum import Enum
from functools import partial
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, TypeVar

from pytest_cideldill.interpreter.frame_locals import read_locals

_T = TypeVar("_T")

Report = Callable[[str], object]
"""Takes one sentence about a failure."""

INCOMPLETE: Final = "incomplete"
"""Key of a report; its sentence says which part is missing, and why."""

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_IS_FUNCTION: Final = 0x1 | 0x2  # CO_OPTIMIZED | CO_NEWLOCALS
_HAS_ARGS: Final = 0x4  # CO_VARARGS


def is_ours(file: str) -> bool:
    """Whether a `co_filename` is one of this package."""
    return file.startswith(_PACKAGE)


def passes(error: BaseException, is_ours: Callable[[str], bool] = is_ours) -> bool:
    """Whether an exception that arrives at a border belongs to the program or to pytest.

    Ctrl-C, exits and outcomes are no `Exception`. `pytest.exit` raises one, and so may a signal
    handler of the program, which runs inside the function that it interrupts.

    Args:
        error: With its traceback from the border inwards.
        is_ours: Whether the functions of a file are ours, and so no handlers of the program.
    """
    if not issubclass(type(error), Exception):
        return True
    leaving = getattr(sys.modules.get("_pytest.outcomes"), "Exit", None)
    return (leaving is not None and issubclass(type(error), leaving)) or _came_by_a_signal(
        error.__traceback__, is_ours
    )


def began_here(error: BaseException) -> bool:
    """Whether a failure started in our code, or in the standard library called by our code."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file = "" if place is None else place.tb_frame.f_code.co_filename
    is_library = file.startswith((_LIBRARY, "<frozen ")) and "site-packages" not in file
    return is_library or is_ours(file)


def text_of(error: BaseException) -> str:
    """The class, message and place of a failure; no code of its arguments runs."""
    said = error.args[0] if error.args and type(error.args[0]) is str else ""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" at {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"
    return f"{type(error).__name__}{f': {said}' if said else ''}{where}"


def contained(what: str, work: Callable[[], _T], report: Report, instead: _T) -> _T:
    """The result of a function of ours; if it fails, report that and return `instead`.

    Args:
        what: The name of the work in the report.
        instead: The result after a failure.
    """
    try:
        return work()
    except Exception as error:
        if passes(error):
            raise
        report_failure(what, error, report)
        return instead


def report_failure(what: str, error: BaseException, report: Report) -> None:
    """Report a failure; if the report fails, that is not reported again."""
    try:
        report(f"pytest-cideldill: {what} failed: {text_of(error)}")
    except Exception as further:
        if passes(further):
            raise


def every(what: str, steps: Iterable[Callable[[], object]], report: Report) -> None:
    """Take all steps, even if some fail; exceptions of the program are raised afterwards.

    Args:
        what: The name of the steps in the report.
        report: Called with a sentence about each step that fails.
    """
    with ExitStack() as stack:
        for step in reversed(list(steps)):
            stack.callback(contained, what, step, report, None)


def add_to(report: dict[str, Any], *parts: Callable[[], Mapping[str, Any]]) -> None:
    """Add the results of parts to a report; a part that fails is left out, and the report says so.

    A test without a report would count as passed, or be waited for. So a report must be sent, even
    if parts are missing.
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
    """Add a sentence about a missing part to a report."""
    before = report.get(INCOMPLETE)
    report[INCOMPLETE] = f"{before}; {sentence}" if type(before) is str else sentence


def at_fork(report: Report | None = None, **hooks: Callable[[], object]) -> None:
    """`os.register_at_fork` with borders; does nothing where processes can't fork.

    Args:
        report: Called with sentences about failures. Failures in a child are not reported: its link
            is gone, and its output is the program's.
        hooks: `before`, `after_in_parent`, `after_in_child`.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            **{
                when: partial(contained, f"a fork ({when})", hook, report or _drop, None)
                for when, hook in hooks.items()
            }
        )


def at_exit(what: str, end: Callable[[], object]) -> None:
    """`atexit.register` with a border; at that time there is no way to report failures.

    Args:
        what: The name of the thing that ends.
        end: Ends it; must do nothing if it has ended already.
    """
    atexit.register(contained, what, end, _drop, None)


def _drop(_message: str) -> None:
    return


def _came_by_a_signal(place: TracebackType | None, is_ours: Callable[[str], bool]) -> bool:
    """Whether a frame of a traceback is that of a signal handler of the program.

    Python passes to a handler the frame that it interrupts, which is the one before its own.
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
        return False  # the namespace of a class or a module may have any object as key
    count = code.co_argcount + bool(code.co_flags & _HAS_ARGS) + code.co_kwonlyargcount
    values = read_locals(frame)
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if value is other or (type(value) is tuple and any(each is other for each in value)):
            return True
    return False


class Verdict(Enum):
    """What to do with an exception that left a handler."""

    FOREIGN = "raise it"
    OVERFLOW = "swallow it"
    BUG = "swallow it and disarm"


class Border:
    """Separates failures of our own from exceptions of the program, and reports each once.

    Every callback of an event source uses it, on the thread of the program; it holds no lock.
    """

    __slots__ = ("_is_ours", "_on_failure", "_reported")

    def __init__(self, is_ours: Callable[[str], bool], on_failure: Callable[[str], None]) -> None:
        self._is_ours = is_ours
        self._on_failure = on_failure
        self._reported: set[str] = set()

    def judge(self, error: BaseException, what: str, code: CodeType) -> Verdict:
        """The verdict on an exception; called where it arrives, before anything else is done."""
        if passes(error, self._is_ours):
            return Verdict.FOREIGN
        overflow = issubclass(type(error), RecursionError)
        end = "this event was lost" if overflow else "it was removed"
        self.report(f"{what} in {code.co_qualname} failed and {end}: {text_of(error)}")
        return Verdict.OVERFLOW if overflow else Verdict.BUG

    def report(self, message: str) -> None:
        """Report a message, once."""
        if message in self._reported:
            return
        self._reported.add(message)
        try:
            self._on_failure(message)
        except Exception:  # noqa: BLE001 - the report of a failure must not become the next one
            return
