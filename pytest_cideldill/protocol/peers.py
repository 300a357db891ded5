"""Whether the other end of a Unix socket, and the folder in which it lies, are of the same user.

For both sides of the wire: a user who may rename the private folder could put another one with a
socket of their own there, which would get the token. Where the system gives no owner, nothing is
refused.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct

# When we are imported: a test may take another user's part for a while.
_OURS = (os.geteuid(), 0) if hasattr(os, "geteuid") else ()


def refuse_folder(path: str) -> None:
    """Check that a private folder is ours alone.

    Raises:
        PermissionError: It belongs to others, or others may write into it.
    """
    if not _OURS:
        return
    found = os.lstat(path)
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    if not is_private or found.st_uid not in _OURS:
        raise PermissionError(errno.EPERM, "is not the private folder of this user", path)


def is_same_user(connected: socket.socket) -> bool:
    """Whether the process at the other end is of this user, or of root."""
    if not hasattr(socket, "SO_PEERCRED") or connected.family != socket.AF_UNIX:
        return True
    size = struct.calcsize("iII")
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, uid, _ = struct.unpack("iII", credentials)
    return uid in _OURS


def refuse_peer(connected: socket.socket) -> None:
    """The same as an error.

    Raises:
        PermissionError: It is of another user.
    """
    if not is_same_user(connected):
        raise PermissionError(errno.EPERM, "another user listens there")
