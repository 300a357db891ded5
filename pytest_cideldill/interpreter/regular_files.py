"""Opens files that strangers may have made: only regular files, and without waiting.

Used for sources and for records, in both processes.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Final

NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""Refuse a link. For real paths, where there is a link only if it was made just now."""

_NEVER_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
"""Don't wait for the writer of a pipe."""


def open_regular(path: str, flags: int = 0) -> BinaryIO:
    """A regular file, opened to read its bytes.

    Args:
        path: Of the file.
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
