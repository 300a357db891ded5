"""The last known position of a process: a small memory-mapped file that survives its death.

Written by the main thread of the process under test at every test and phase (half a microsecond, no
system call); read by the front end when the process ended without saying so, or says nothing.
"""

from __future__ import annotations

import mmap
import os
from struct import Struct
from typing import NamedTuple

from pytest_cideldill import clock
from pytest_cideldill.borders import at_fork

_SIZE = 4096
_LENGTH = Struct(">I")
_SINCE = Struct(">d")
_TEXT = _LENGTH.size + _SINCE.size


class Position(NamedTuple):
    """What is under way; `since` is on the monotonic clock, which all processes share."""

    phase: str
    nodeid: str
    since: float


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
        at_fork(after_in_child=self._forget)

    def write(self, phase: str, nodeid: str) -> None:
        """Note that `phase` of `nodeid` is under way; both empty between tests."""
        text = f"{phase}\n{nodeid}".encode("utf-8", "backslashreplace")[: _SIZE - _TEXT]
        # The length goes to 0 first: a reader never takes half of a new text for a whole one.
        self._map[: _LENGTH.size] = _LENGTH.pack(0)
        self._map[_LENGTH.size : _TEXT] = _SINCE.pack(clock.monotonic())
        self._map[_TEXT : _TEXT + len(text)] = text
        self._map[: _LENGTH.size] = _LENGTH.pack(len(text))

    def close(self) -> None:
        """Unmap the file; it stays on disk for the reader."""
        self._map.close()

    def _forget(self) -> None:
        """In a forked child: what it writes is told to nobody."""
        if not self._map.closed:
            self._map.close()
            self._map = mmap.mmap(-1, _SIZE)


def read_position(path: str) -> Position | None:
    """As last written, or None when there was none or no file."""
    try:
        with open(path, "rb") as file:
            data = file.read(_SIZE)
    except OSError:
        return None
    if len(data) < _TEXT:
        return None
    (length,), (since,) = _LENGTH.unpack_from(data), _SINCE.unpack_from(data, _LENGTH.size)
    text = data[_TEXT : _TEXT + length].decode("utf-8", "replace")
    phase, _, nodeid = text.partition("\n")
    return Position(phase, nodeid, since) if nodeid else None
