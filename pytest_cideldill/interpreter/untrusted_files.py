"""Opens sources and files of a record with care, as strangers may have made them.

Users get records from others. A file that is no regular file, like a pipe or a device, or a link
that leads out of the record, is refused before anything is read, and without waiting. Lines and
manifests have a bound. Used in both processes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""Refuse a link. For real paths, where there is a link only if it was made just now."""

_NEVER_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
"""Don't wait for the writer of a pipe."""

MAX_LINE: Final = 8 << 20
"""Bytes of a line; ours are 2 MB at most."""

MAX_MANIFEST: Final = 1 << 20
"""Bytes of a manifest, and of the summary of a run."""

_TOO_LONG: Final = b"too long\n"


def open_regular(path: str, flags: int = 0) -> BinaryIO:
    """A regular file, opened to read its bytes.

    Args:
        flags: Further ones for `os.open`.

    Raises:
        OSError: It can't be opened, or is no regular file: a pipe, a device.
    """

    def opener(path: str, own: int) -> int:
        return os.open(path, own | flags | _NEVER_WAIT)

    file = open(path, "rb", opener=opener)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(0, "it is no regular file", path)
    return file


def open_inside(path: Path) -> BinaryIO:
    """A regular file of a run or a record for reading; links are followed inside its folder.

    Raises:
        OSError: It is no regular file, leads out of the folder, or can't be read.
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
    """The content of a manifest. Raises OSError: as `open_inside`, or the file is too large."""
    with open_inside(path) as file:
        found = file.read(MAX_MANIFEST + 1)
    if len(found) > MAX_MANIFEST:
        raise OSError(errno.EFBIG, f"has more than {MAX_MANIFEST:,} bytes", str(path))
    return found


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; a line that is too long is replaced by one that is no event."""
    while line := file.readline(MAX_LINE):
        yield line if _is_whole(line) else _skipped(file)


def rest_of_line(file: BinaryIO) -> bytes:
    """The rest of a line of which a part was read; as `lines_of`."""
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
    """Open a new file, which atomically replaces another one once it is written.

    Args:
        path: The path of the other file; a link there is not followed but replaced.
        mode: The permissions, before the umask.

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
        unfinished.unlink(missing_ok=True)  # frees the space on the disk
        raise
