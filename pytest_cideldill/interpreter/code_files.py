"""Which file code is from, by its own name for it and by that of the module that it runs in.

Runs in the process under test, on any thread; runs no code of the program.
"""

from __future__ import annotations

import linecache
import os
from types import CodeType, FrameType
from typing import Any, Final

_REACH: Final = 20
"""Lines from the first one of a code object, its decorators, to the one that has its name."""

_WORDS: Final = {"<lambda>": "lambda"}

_moved: dict[tuple[str, str, str, int], bool] = {}
_now: dict[str, str] = {}


def file_of(code: CodeType, names: dict[str, Any]) -> str:
    """The file of code, or its name in angle brackets.

    That is the `co_filename`, unless that is stale: pytest up to 9.0.3 keeps the old name in its
    caches when a project with cached code was moved. Then it is the file of the module.

    Args:
        code: The code.
        names: The globals that it runs with.
    """
    file, told = dict.get(names, "__file__"), code.co_filename
    if type(file) is not str or file == told:
        return told
    key = (file, told, code.co_name, code.co_firstlineno)
    found = _moved.get(key)
    if found is None:
        found = _moved[key] = _is_moved(code, file, told)
        if found:
            _now[told] = file
    return file if found else told


def frame_file(frame: FrameType) -> str:
    """The same of a frame."""
    return file_of(frame.f_code, frame.f_globals)


def file_now(filename: str) -> str:
    """What `file_of` answered for code with this `co_filename`, if it was asked; else the name."""
    return _now.get(filename, filename)


def _is_moved(code: CodeType, file: str, told: str) -> bool:
    # Text that a module executes has the module's globals, but a name of its own.
    if os.path.basename(file) != os.path.basename(told):
        return False
    if not os.path.exists(told):
        return True
    if not os.path.exists(file) or os.path.samefile(file, told):
        return False
    return code.co_name == "<module>" or _holds(file, code)


def _holds(file: str, code: CodeType) -> bool:
    """Whether a file has the name of a code object where that begins."""
    name = _WORDS.get(code.co_name, code.co_name)
    first = code.co_firstlineno
    lines = linecache.getlines(file)[first - 1 : first + _REACH]
    return bool(lines) if name.startswith("<") else any(name in line for line in lines)
