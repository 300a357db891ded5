"""The lines of source files, as they are on disk; of generated code, as the program keeps them.

Any thread. No user code runs.
"""

from __future__ import annotations

import linecache
import sys
from typing import Any
from typing import Final

_ENTRY: Final = 4
"""Items of an entry of `linecache.cache` that holds lines; a shorter one would call a loader."""


def source_lines(filename: str) -> list[str]:
    """The lines of a `co_filename`; none where they are unknown."""
    return linecache.getlines(filename) or _kept_by_program(filename)


def line_of_source(filename: str, line: int) -> str:
    """One of them, numbered from 1; empty where it is unknown."""
    lines = source_lines(filename)
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _kept_by_program(filename: str) -> list[str]:
    """What doctest, attrs and consoles put into the cache for code that has no file."""
    cache: Any = getattr(sys.modules.get("linecache"), "cache", None)
    entry = cache.get(filename) if type(cache) is dict else None
    if type(entry) is not tuple or len(entry) != _ENTRY or type(entry[2]) is not list:
        return []
    return [each for each in entry[2] if type(each) is str]
