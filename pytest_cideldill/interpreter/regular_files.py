"""Opens files that strangers may have made: regular ones only, and nothing is waited for.

For sources and for records, in both processes.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Final

NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""Of a real path, which is none unless it has just become one."""

_NEVER_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
"""A pipe without a writer is not waited for."""


def open_regular(path: str, flags: int = 0) -> BinaryIO:
    """A regular file, opened to read its bytes.

    Args:
        path: Of the file.
        flags: Further ones for `os.open`.

    Raises:
        OSError: It can't be opened, or is something else: a pipe, a device.
    """

    def opener(path: str, own: int) -> int:
        return os.open(path, own | flags | _NEVER_WAIT)

    file = open(path, "rb", opener=opener)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(0, "it is no regular file", path)
    return file
