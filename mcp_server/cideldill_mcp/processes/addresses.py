"""The line with a server's address over HTTP and its token: written at its start, read again.

It stands on stderr and in a file of the server's private folder, which goes with the server.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_PREFIX = "cideldill-"
"""Begins the names of private folders, among the temporary files."""

PATH = "/mcp"
"""Of the address; there is Streamable HTTP."""

_FILE = "http"
_MAX_BYTES = 1024
_CONNECT_S = 1.0

_LINE = re.compile(
    rf"cideldill: http://(127(?:\.[0-9]{{1,3}}){{3}}|\[::1\]):([0-9]{{1,5}}){PATH}"
    r" token [A-Za-z0-9_-]+\n"
)


def announce(listener: socket.socket, token: str, directory: Path) -> None:
    """Announce where the server is and the token: one line on stderr, and the same in a file.

    Fd 2 is that of the process that started us: pytest captured nothing before it handed over.
    """
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    line = f"cideldill: http://{shown}:{port}{PATH} token {token}\n".encode()
    fd = os.open(directory / _FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        file.write(line)
    with suppress(OSError):  # no stderr: the file has it
        os.write(2, line)


def announced() -> list[str]:
    """The lines of this user's servers that run, without the line feeds.

    Only of folders and files that no other user can have made or can read; a server runs if its
    address accepts connections.
    """
    found = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*")):
        with suppress(OSError, UnicodeDecodeError):
            line = _LINE.fullmatch(_read(folder))
            if line is not None and _is_listening(line[1].strip("[]"), int(line[2])):
                found.append(line[0].rstrip("\n"))
    return found


def _read(folder: Path) -> str:
    """What the file in a folder says.

    Raises:
        OSError: There is none, or it is not this user's alone.
        UnicodeDecodeError: It is none of ours.
    """
    if os.name != "posix":  # temporary files are in the user's own profile
        with open(folder / _FILE, encoding="ascii", newline="") as file:
            return file.read(_MAX_BYTES)
    with (
        _opened(folder, os.O_DIRECTORY, 0o700) as directory,
        _opened(_FILE, os.O_NONBLOCK, 0o600, directory) as fd,  # a pipe would block
    ):
        return os.read(fd, _MAX_BYTES).decode("ascii")


@contextmanager
def _opened(path: Path | str, flags: int, mode: int, directory: int | None = None) -> Iterator[int]:
    """Open a file or folder for reading that is no link, this user's, and has this mode."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=directory)
    try:
        status = os.fstat(fd)
        is_kind = stat.S_ISDIR if flags & os.O_DIRECTORY else stat.S_ISREG
        is_private = status.st_uid == os.geteuid() and status.st_mode & 0o777 == mode
        if not (is_kind(status.st_mode) and is_private):
            raise PermissionError(f"{path} is not this user's alone")
        yield fd
    finally:
        os.close(fd)


def _is_listening(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _CONNECT_S):
            return True
    except (OSError, OverflowError):  # the latter: there is no such port
        return False
