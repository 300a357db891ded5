"""The last known position of a process: a small memory-mapped file that survives its death.

Written by the main thread of the process under test at every test and phase (half a microsecond, no
system call); read by the front end when the process ended without saying so.
"""

from __future__ import annotations

import mmap
import os
from struct import Struct

_SIZE = 4096
_LENGTH = Struct(">I")


class PositionFile:
    """The writing side. Methods never raise for long node ids: the text is cut to the file."""

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self.path = path

    def write(self, phase: str, nodeid: str) -> None:
        """Note that `phase` of `nodeid` is under way; both empty between tests."""
        text = f"{phase}\n{nodeid}".encode("utf-8", "backslashreplace")[: _SIZE - _LENGTH.size]
        # The length goes to 0 first: a reader never takes half of a new text for a whole one.
        self._map[: _LENGTH.size] = _LENGTH.pack(0)
        self._map[_LENGTH.size : _LENGTH.size + len(text)] = text
        self._map[: _LENGTH.size] = _LENGTH.pack(len(text))

    def close(self) -> None:
        """Unmap the file; it stays on disk for the reader."""
        self._map.close()


def read_position(path: str) -> tuple[str, str] | None:
    """`(phase, nodeid)` as last written, or None when there was none or no file."""
    try:
        with open(path, "rb") as file:
            data = file.read(_SIZE)
    except OSError:
        return None
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    phase, _, nodeid = (
        data[_LENGTH.size : _LENGTH.size + length].decode("utf-8", "replace").partition("\n")
    )
    return (phase, nodeid) if nodeid else None
