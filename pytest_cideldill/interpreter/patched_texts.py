"""The patched texts of this process: source files that are compiled from another text than theirs.

In a process of an experiment `pytest_cideldill.experiments` fills it before anything else is
imported; everywhere else it stays empty. The sealed room shares this one module with the program,
so that our own texts show the lines that run. Any thread may ask; it runs no code of the program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BytesIO, StringIO
from os.path import realpath
from tokenize import detect_encoding
from typing import Any


class _Patched:
    """A patched text.

    Attributes:
        data: The text in the encoding that it declares.
        lines: The text for `linecache`: line feeds end all lines.
        is_compiled: Whether code was made of it.
    """

    __slots__ = ("data", "is_compiled", "lines")

    def __init__(self, text: str) -> None:
        encoded = text.encode()
        encoding, _ = detect_encoding(BytesIO(encoded).readline)
        self.data = encoded if encoding.startswith("utf-8") else text.encode(encoding)
        # A file that begins with a byte order mark has none in its lines.
        self.lines = StringIO(text.removeprefix("\ufeff"), newline=None).readlines() or ["\n"]
        if not self.lines[-1].endswith("\n"):
            self.lines[-1] += "\n"
        self.is_compiled = False


# By real path. Filled once, before the first import, and never changed later: readers need no lock.
_texts: dict[str, _Patched] = {}
_real: dict[str, str] = {}


def add(patches: Mapping[str, str]) -> None:
    """Add patched texts by the paths of their files.

    Raises:
        SyntaxError, LookupError, UnicodeError: A text can't be encoded as it declares.
    """
    _texts.update((realpath(file), _Patched(text)) for file, text in patches.items())


def is_patched(file: object) -> bool:
    """Whether a file's text is patched."""
    return _patched(file) is not None


def data_of(file: object) -> bytes | None:
    """The bytes that are compiled in the place of a file's; None if it is not patched."""
    patched = _patched(file)
    return None if patched is None else patched.data


def lines_of(file: object) -> list[str] | None:
    """The lines of a patched file, each with its line feed; None if it is not patched."""
    patched = _patched(file)
    return None if patched is None else list(patched.lines)


def note_compiled(file: object) -> None:
    """Note that a file's patched text was taken to compile it."""
    patched = _patched(file)
    if patched is not None:
        patched.is_compiled = True


def loaded() -> list[str]:
    """The real paths of patched files of which code was made in this process, in their order."""
    return [file for file, patched in _texts.items() if patched.is_compiled]


def missing() -> list[str]:
    """The real paths of patched files that were never imported: their patches are not applied."""
    return [file for file, patched in _texts.items() if not patched.is_compiled]


def serve_lines(linecache: Any) -> None:
    """Have a copy of `linecache` give the lines of patched files, also after `clearcache`."""
    if not _texts:
        return
    original = linecache.updatecache

    def updatecache(filename: Any, module_globals: Any = None) -> list[str]:
        lines = lines_of(filename)
        if lines is None:
            found: list[str] = original(filename, module_globals)
            return found
        # Without a time `checkcache` keeps it, as it does for lines that a loader gave.
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
        return lines

    linecache.updatecache = updatecache


def _patched(file: object) -> _Patched | None:
    if not _texts or not isinstance(file, str | os.PathLike):
        return None
    name = str(file)
    # The name itself comes first: tests may fake the file system by which links are followed.
    if name in _texts:
        return _texts[name]
    if name.startswith("<"):
        return None
    if name not in _real:
        try:
            _real[name] = realpath(name)
        except (OSError, ValueError):
            return None
    return _texts.get(_real[name])
