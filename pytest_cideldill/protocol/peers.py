"""The other end of a connection, for both sides of the wire.

TCP: nothing waits in it, and one to a machine that is gone ends. A Unix socket, and the folder in
which it lies, are of the same user: one who may rename the private folder could put another one
with a socket of their own there, which would get the token. Where the system gives no owner,
nothing is refused.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct

_SILENT_S = 30
"""After so long without a byte the other machine is asked whether it is there."""

_PROBES = 4
"""It is gone when it has not answered so often."""

_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", _SILENT_S),
    ("TCP_KEEPINTVL", _SILENT_S // _PROBES),
    ("TCP_KEEPCNT", _PROBES),
)


def look_after(connected: socket.socket) -> None:
    """Send at once, and notice a cut cable, about which nobody says anything."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


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
    """The same as an error. Raises PermissionError: it is of another user."""
    if not is_same_user(connected):
        raise PermissionError(errno.EPERM, "another user listens there")
