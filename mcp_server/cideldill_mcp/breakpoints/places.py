"""The place of a breakpoint on a line, and the stamp by which edits of its file are noticed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1

from pytest_cideldill.protocol import AddLine
from pytest_cideldill.sourcecode.reading import Unreadable, source_bytes


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file at one moment: when it was changed (ns), its size, the digest of its bytes."""

    changed: int
    size: int
    digest: bytes

    @classmethod
    def of(cls, file: str, known: Stamp | None = None) -> Stamp | None:
        """The present one, `known` itself if nothing changed since; None: it is no source.

        The file is only read when its time or size are not those of `known`, or when it was last
        read.
        """
        try:
            now = os.stat(file)
            if known is not None and (now.st_mtime_ns, now.st_size) == (known.changed, known.size):
                return known
            digest = _digest(file, now.st_mtime_ns, now.st_size)
        except (OSError, Unreadable):
            return None
        return cls(now.st_mtime_ns, now.st_size, digest)


@lru_cache(maxsize=64)
def _digest(file: str, _changed: int, _size: int) -> bytes:
    """Of a file that has this time and size."""
    return sha1(source_bytes(file), usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class Place:
    """A line that has code, as `sourcecode.helper` answers it.

    Attributes:
        file: Absolute, as `Project.named`.
        shown: As clients see it: relative to the rootdir when inside it.
        function: Qualified name of the code object.
        key: See `sourcecode.codes.CodeKey.to_plain`.
        source: The line's text, stripped.
        column: The one that was asked for, 1-based.
        offset: The same, counted from the first character of that text.
        stamp: Of the file when this was found out; None: it was no source.
    """

    file: str
    shown: str
    line: int
    function: str
    key: list[str | int]
    source: str
    column: int | None = None
    offset: int | None = None
    stamp: Stamp | None = None

    @property
    def spec(self) -> AddLine:
        """What stops there at every pass; request and id are to be filled in."""
        return AddLine(0, "", self.file, self.line, self.key)
