"""Files of a record: read as what strangers may have made, written under names that are fresh.

A record is a folder that somebody sends. What is no regular file of it, as a link that leads out,
a pipe or a device, is refused before anything is read, and a line or a manifest has a bound.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from pytest_cideldill.interpreter.regular_files import NO_LINK, open_regular

MAX_LINE: Final = 8 << 20
"""Bytes of a line; ours are 2 MB at most."""

MAX_MANIFEST: Final = 1 << 20
"""Bytes of a manifest, and of the summary of a run."""

_TOO_LONG: Final = b"too long\n"


def open_inside(path: Path) -> BinaryIO:
    """A regular file of a run or a record for reading; links are followed inside its folder.

    Raises:
        OSError: It is none, leads out, or can't be read.
    """
    real, folder = os.path.realpath(path), os.path.realpath(path.parent)
    if os.path.dirname(real) != folder:
        raise OSError(errno.EPERM, "leads out of the record", str(path))
    return open_regular(real, NO_LINK)


def is_regular(path: Path) -> bool:
    """Whether `open_inside` would take it."""
    try:
        open_inside(path).close()
    except OSError:
        return False
    return True


def read_bounded(path: Path) -> bytes:
    """All of a manifest.

    Raises:
        OSError: As `open_inside`; or it is too large.
    """
    with open_inside(path) as file:
        found = file.read(MAX_MANIFEST + 1)
    if len(found) > MAX_MANIFEST:
        raise OSError(errno.EFBIG, f"has more than {MAX_MANIFEST:,} bytes", str(path))
    return found


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines; in the place of one that is too long something that is no line of events."""
    while line := file.readline(MAX_LINE):
        yield line if _is_whole(line) else _skipped(file)


def rest_of_line(file: BinaryIO) -> bytes:
    """What follows up to the end of a line, in which something was read; as `lines_of`."""
    rest = file.readline(MAX_LINE)
    return rest if _is_whole(rest) else _skipped(file)


def _is_whole(line: bytes) -> bool:
    return len(line) < MAX_LINE or line[-1:] == b"\n"


def _skipped(file: BinaryIO) -> bytes:
    while not _is_whole(file.readline(MAX_LINE)):
        pass
    return _TOO_LONG


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file that takes the place of another at once when it is written; it follows no link.

    Args:
        path: Of the file; a link there is replaced itself.
        mode: For whose eyes it is, before the umask.

    Raises:
        OSError: It can't be written; then nothing has changed.
    """
    unfinished = path.with_name(f"{path.name}.{os.urandom(6).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    number = os.open(unfinished, flags, mode)
    try:
        with open(number, "wb") as file:
            yield file
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # others need the room
        raise
