"""The socket of the HTTP transports; it opens before their libraries are imported."""

from __future__ import annotations

import os
import socket


class CannotListen(Exception):
    """The server can't listen on the address; the message is a sentence."""


def listen(address: str) -> socket.socket:
    """Open a socket that accepts connections from now on.

    Args:
        address: As `parsers.loopback` returns it; port 0 means any free port.

    Raises:
        CannotListen: The address is in use, or this machine doesn't have it.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let others take the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), int(port)))
        listener.listen()
    except OSError as error:
        listener.close()
        raise CannotListen(
            f"--cideldill-http-address: can't listen on {address} ({error.strerror}); choose "
            "another port, or 0 for any free one"
        ) from error
    return listener
