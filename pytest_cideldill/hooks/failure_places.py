"""The place of a failure: in the user's code, or that of its test; never a plugin's or a runner's.

Runs on pytest's main thread, in xdist's controller too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

import pytest

from pytest_cideldill.frames.failure import Place
from pytest_cideldill.rendering.display import Lens

_MOST_DECORATORS: Final = 50
"""Lines that are looked through for the `def` of a test."""

_DEFINES: Final = ("def ", "async def ", "class ")


def place_in_code(places: Iterable[Place], lens: Lens) -> dict[str, Any] | None:
    """The innermost of these places that is in the user's code; None: there is none."""
    return next((lens.place(*place) for place in places if lens.project.has(place[0])), None)


def place_in_report(report: pytest.TestReport, lens: Lens) -> dict[str, Any] | None:
    """The same of a report that came from another process, as far as it is pytest's own."""
    crash = getattr(report.longrepr, "reprcrash", None)
    path, line = (getattr(crash, name, None) for name in ("path", "lineno"))
    if type(report.longrepr) is str:  # pytest-forked's: it ends with `file:line: class`
        path, line = _place_at_end(report.longrepr)
    if not isinstance(path, str) or not isinstance(line, int) or line < 1:
        return None
    if not os.path.isabs(path) or not lens.project.is_user(path):
        return None
    return _at(path, line, lens)


def _place_at_end(text: str) -> tuple[str | None, int]:
    path, _, line = text.rstrip().rpartition("\n")[2].rpartition(": ")[0].rpartition(":")
    if not line.isdecimal() or not os.path.isfile(path):
        return None, 0
    return os.path.abspath(path), int(line)


def place_of_test(
    node: pytest.Item | pytest.TestReport, lens: Lens, error: BaseException | None = None
) -> dict[str, Any] | None:
    """Where a test is defined, or the example of a doctest that failed; None: it has no line.

    With the name of the test as `function`, and the `source` of the line.
    """
    file, line, function = node.location
    path = os.path.join(lens.project.rootdir, file)
    example = _line_of_example(error)
    if example is not None:
        return _at(path, example, lens, function)
    return None if line is None else _at(path, _definition(path, line + 1, lens), lens, function)


def _at(path: str, line: int, lens: Lens, function: str | None = None) -> dict[str, Any]:
    place = {"file": lens.project.relative(path), "line": line}
    named = {} if function is None else {"function": lens.text(function)}
    return place | named | {"source": lens.line_of(path, line)}


def _definition(path: str, line: int, lens: Lens) -> int:
    """The line of the definition whose first decorator is in `line`; else that line."""
    if not lens.line_of(path, line).startswith("@"):
        return line
    lines = range(line, line + _MOST_DECORATORS)
    found = (each for each in lines if lens.line_of(path, each).startswith(_DEFINES))
    return next(found, line)


def _line_of_example(error: Any) -> int | None:
    """From 1 on, in the file of the test."""
    module: Any = sys.modules.get("doctest")
    first = error
    if type(error).__name__ == "MultipleDoctestFailures":  # pytest's, made in a function
        first = next(iter(vars(error).get("failures") or ()), None)
    if module is None or type(first) not in (module.DocTestFailure, module.UnexpectedException):
        return None
    start, offset = first.test.lineno, first.example.lineno
    return None if start is None else start + offset + 1
