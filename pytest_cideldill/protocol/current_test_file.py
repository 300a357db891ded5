"""What pytest is doing: for threads, and in a small memory-mapped file that survives their process.

Written by the main thread of the process under test at every test and phase (half a microsecond, no
system call); read by the front end when the process ended without saying so, or says nothing. It
holds as well the tests whose ends have not left yet (`ended_tests`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import ended_tests
from pytest_cideldill.protocol.ended_tests import KeptRows, LeftBehind

_ROWS = 4096
"""Where the rows of tests that ended begin."""

_SIZE = 64 * 1024
_LENGTH = Struct(">I")
_HEAD = Struct(">Id")
_FIXED = 0x10
"""MAP_FIXED, on Linux and on macOS."""

TEXT = _HEAD.size
"""Where the text begins."""

ENDING = b"ending"
"""The end of the file while its process is on its way to its end; a shell reads it as well."""

_END = _SIZE - len(ENDING)
assert _ROWS + ended_tests.SIZE <= _END


class FilePosition(NamedTuple):
    """What is under way; `since` is on the monotonic clock, which all processes share."""

    phase: str
    nodeid: str
    since: float


class PositionFile:
    """The writing side. Methods never raise for long node ids: the text is cut to its place.

    Attributes:
        rows: Keeps the tests whose ends have not left yet.
    """

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = _mapped(descriptor)
        finally:
            os.close(descriptor)
        self.path = path
        self.rows = KeptRows(self._put_row)
        at_fork(after_in_child=self._forget)

    def write(self, phase: str, nodeid: str) -> None:
        """Note that `phase` of `nodeid` is under way; both empty between tests."""
        text = f"{phase}\n{nodeid}".encode("utf-8", "backslashreplace")[: _ROWS - TEXT]
        # The length goes to 0 first: a reader never takes half of a new text for a whole one.
        _HEAD.pack_into(self._map, 0, 0, clock.monotonic())
        self._map[TEXT : TEXT + len(text)] = text
        _LENGTH.pack_into(self._map, 0, len(text))

    def mark(self, *, ending: bool) -> None:
        """Note whether pytest was interrupted, or is done, and only has to clean up."""
        self._map[_END:] = ENDING if ending else bytes(len(ENDING))

    def _put_row(self, place: int, data: bytes) -> None:
        self._map[_ROWS + place : _ROWS + place + len(data)] = data

    def close(self) -> None:
        """Unmap the file; it stays on disk for the reader."""
        self._map.close()

    def _forget(self) -> None:
        """In a forked child: write into memory that nothing else reads."""
        if not self._map.closed:
            self._map.close()
            self._map = mmap.mmap(-1, _SIZE)


def _mapped(descriptor: int) -> mmap.mmap:
    """A mapping of the file that needs no descriptor, which a program could close or replace."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, _SIZE, trackfd=False)
    if not hasattr(mmap, "MAP_SHARED"):  # Windows
        return mmap.mmap(descriptor, _SIZE)
    # Before 3.13 `mmap` keeps a duplicate. So memory of nobody's is mapped, and the file over it.
    made = mmap.mmap(-1, _SIZE)
    place = ctypes.addressof(ctypes.c_char.from_buffer(made))
    over = ctypes.CDLL(None, use_errno=True).mmap
    over.restype = ctypes.c_void_p
    arguments = (place, _SIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _FIXED)
    kinds = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int)
    over.argtypes = (*kinds, ctypes.c_int, ctypes.c_long)
    if over(*arguments, descriptor, 0) != place:
        raise OSError(ctypes.get_errno(), "the file can't be mapped")
    return made


def read_position(path: str) -> FilePosition | None:
    """As last written, or None when there was none or no file."""
    data = _read(path)
    if len(data) < TEXT:
        return None
    length, since = _HEAD.unpack_from(data)
    text = data[TEXT : TEXT + length].decode("utf-8", "replace")
    phase, _, nodeid = text.partition("\n")
    return FilePosition(phase, nodeid, since) if nodeid else None


def read_left_behind(path: str) -> LeftBehind | None:
    """Tests whose ends may not have arrived; None when there was no file."""
    return ended_tests.read_rows(_read(path)[_ROWS:])


def is_ending(path: str) -> bool:
    """Whether a process tears down: its test, or all that is left behind an interrupt."""
    position = read_position(path)
    return _read(path)[_END:] == ENDING or (position is not None and position.phase == "teardown")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_SIZE)
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class During:
    """The test in which a thread does something, its phase and attempt; as in `Position`."""

    nodeid: str | None
    when: str | None
    attempt: int | None


@dataclass(slots=True)
class Position:
    """What pytest is doing; written by its main thread, read at stops and by recorded calls.

    The test and its phase, both None between tests; which attempt it is, if it has several.

    Attributes:
        around: What an autopsy has of the test, beside the exception; on any thread.
    """

    nodeid: str | None = None
    when: str | None = None
    attempt: int | None = None
    around: Callable[[], dict[str, Any]] = dict

    @property
    def during(self) -> During:
        """What a stop is reported with; to be read before anything else is done for it.

        That may wait for a disk, and the thread of the tests goes on meanwhile.
        """
        return During(self.nodeid, self.when, self.attempt)
