"""Finds the file of code, and recognizes installed files.

The file is found by the code's `co_filename` and by the `__file__` of the module it runs in. Runs
in the process under test, on any thread; runs no code of the program.
"""

from __future__ import annotations

import linecache
import os
from types import CodeType, FrameType
from typing import Any, Final

from pytest_cideldill.interpreter.patched_texts import serve_lines

_REACH: Final = 20
"""Most lines between the first line of a code object, a decorator, and the line with its name."""

_WORDS: Final = {"<lambda>": "lambda"}

serve_lines(linecache)  # in the sealed room: the copy of `linecache` that all our texts use

_moved: dict[tuple[str, str, str, int], bool] = {}
_now: dict[str, str] = {}

_LIBRARY: Final = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


def file_of(code: CodeType, names: dict[str, Any]) -> str:
    """The file of code, or its name in angle brackets.

    It is the `co_filename`, unless that is stale: pytest up to 9.0.3 keeps the old name in its
    caches when a project with cached code is moved. Then it is the file of the module.

    Args:
        names: The globals that it runs with.
    """
    file, filename = dict.get(names, "__file__"), code.co_filename
    if type(file) is not str or file == filename:
        return filename
    key = (file, filename, code.co_name, code.co_firstlineno)
    is_moved = _moved.get(key)
    if is_moved is None:
        is_moved = _moved[key] = _is_moved(code, file, filename)
        if is_moved:
            _now[filename] = file
    return file if is_moved else filename


def has_one_file(filename: str, names: dict[str, Any]) -> bool:
    """Whether `file_of` finds one file for all code of a `co_filename` with these globals."""
    file = dict.get(names, "__file__")
    return type(file) is not str or file == filename


def frame_file(frame: FrameType) -> str:
    """The file of a frame's code, as from `file_of`."""
    return file_of(frame.f_code, frame.f_globals)


def file_now(filename: str) -> str:
    """The file that `file_of` has found for a `co_filename`; the name itself if it found none."""
    return _now.get(filename, filename)


def _is_moved(code: CodeType, file: str, filename: str) -> bool:
    # Text that a module executes has the module's globals, but a name of its own.
    if os.path.basename(file) != os.path.basename(filename):
        return False
    if not os.path.exists(filename):
        return True
    if not os.path.exists(file) or os.path.samefile(file, filename):
        return False
    return code.co_name == "<module>" or _holds(file, code)


def _holds(file: str, code: CodeType) -> bool:
    """Whether a file has the name of a code object near the code's first line."""
    name = _WORDS.get(code.co_name, code.co_name)
    first = code.co_firstlineno
    lines = linecache.getlines(file)[first - 1 : first + _REACH]
    return bool(lines) if name.startswith("<") else any(name in line for line in lines)


def is_installed(path: str) -> bool:
    """Whether a file or folder is installed, by its real path."""
    return f"{path}{os.sep}".startswith(_LIBRARY) or not _FOLDERS.isdisjoint(path.split(os.sep))
