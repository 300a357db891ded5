"""TCP connections: nothing waits in them, and one to a machine that is gone ends.

For both sides of the wire; a Unix socket needs none of it.
"""

from __future__ import annotations

import socket

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
