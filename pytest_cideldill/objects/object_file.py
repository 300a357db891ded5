"""The objects of one process while it runs: a file that only grows, which others read meanwhile.

Rows follow each other: a mark, two lengths, the content id, the snapshot, the pickle. Written on
the I/O thread, through one descriptor; `store` puts the files of a run together. No method raises
for what a disk or a file does: what can't be stored waits and is tried again, as far as there is
room for it; the rest is forgotten and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha512
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from pytest_cideldill.interpreter.clock import monotonic, sleep
from pytest_cideldill.interpreter.descriptors import MOST_WAITING, HeldFile
from pytest_cideldill.objects.object_log import Counts, Recent, StoredObject, unsealed

MAX_STORE_BYTES: Final = 268_435_456
"""Of all snapshots and pickles in one file."""

LOST: Final = "could not be kept"
"""What a warning says of objects."""

_MAGIC: Final = b"cideldill objects 1\n"
_MARK: Final = b"\nobj"
_HEAD: Final = Struct(">4sII64s")
_NONE: Final = 2**32 - 1
"""Length of a pickle that is not there."""

AGAIN_S: Final = 0.1
"""After a disk took nothing: how long it is left alone."""

LAST_S: Final = 1.0
"""How long it is tried at the end of a run: what is full, or used up, may be so for a moment."""

_BLOCK: Final = 65_536
_REMEMBERED: Final = 200_000
"""Objects of which at least so many are written once."""

Read = Callable[[int, int], bytes]
"""From this byte on so many, or fewer at the end."""

Row = tuple[bytes, bytes, bytes | None]
"""Content id, snapshot, pickle."""


class CorruptObject(ValueError):
    """A row is not what was stored."""


class _Place(NamedTuple):
    at: int
    cid: bytes
    described: int
    copied: int


class ObjectFile:
    """The file of objects that this process writes.

    Args:
        path: The file, which must not be there; its folder must.
        max_bytes: Of the whole file, about; objects beyond it are not stored.
        max_object_bytes: Of one pickle; larger ones are left out.

    Attributes:
        problem: Why something was lost, or has to wait.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_STORE_BYTES,
        max_object_bytes: int = 1_048_576,
    ) -> None:
        self.counts = Counts()
        self.problem: str | None = None
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._max_object_bytes = max_object_bytes
        self._file: HeldFile | None = None
        self._size = 0
        self._is_over = False
        self._waiting = bytearray()
        self._rows_waiting = 0
        self._again_at = 0.0
        # Part of an id → whether its pickle was written.
        self._written: Recent[bytes, bool] = Recent(_REMEMBERED)

    def open(self) -> None:
        """Make the file, unless it is there; else that is done for the first object."""
        if self._file is not None or self._is_over:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            self._file = HeldFile(self._path, flags)
        except OSError as error:
            self.problem = error.strerror or str(error)  # tried again with the next objects

    def put_many(self, objects: Iterable[StoredObject]) -> None:
        """Store objects unless they are there; a missing pickle is added."""
        self.open()
        rows: list[bytes] = []
        new: list[tuple[bytes, bool]] = []
        left = self._max_bytes - self._size - len(self._waiting)
        counts = Counts()
        for cid, description, pickled in objects:
            digest, data = bytes.fromhex(cid), pickled
            if data is not None and len(data) > self._max_object_bytes:
                data = None
                counts.oversized += 1
            key = digest[:16]
            before = self._written.get(key)
            if before is not None and before >= (data is not None):
                continue
            row = _row(digest, description.encode(), data)
            left -= len(row)
            if left < 0:
                left += len(row)
                counts.dropped += 1
                continue
            counts.stored += 1
            rows.append(row)
            new.append((key, data is not None))
        lost = self._write(b"".join(rows), len(rows)) if rows else 0
        if lost:
            counts, new = Counts(lost=lost), []
        self.counts.add(counts)
        for key, is_copied in new:
            self._written.put(key, is_copied)

    def intact(self, cid: str) -> bytes | None:
        """The pickle of an object; None if the object or its pickle is not there. Any thread.

        Raises:
            CorruptObject: It is damaged.
        """
        if self._file is None:
            return None
        try:
            number = self._file.number
            row = _find(lambda at, count: os.pread(number, count, at), bytes.fromhex(cid))
        except (OSError, ValueError) as error:
            if isinstance(error, CorruptObject):
                raise
            return None
        return None if row is None or row[2] is None else checked(row[0], row[2])

    def settle(self, within_s: float = LAST_S) -> None:
        """Write what waits, or count it as lost when that could not be done for so long."""
        until = monotonic() + within_s
        while self._waiting and not self._is_over:
            self.open()
            if self._is_written():
                return
            if monotonic() > until:
                break
            sleep(AGAIN_S)
        self.counts.lost += self._rows_waiting
        self.counts.stored -= self._rows_waiting
        self._waiting.clear()
        self._rows_waiting = 0

    def close(self) -> None:
        """Close the file; one without objects goes."""
        self.settle(0)
        file, self._file = self._file, None
        self._is_over = True
        self.problem = self.problem or "the file is closed"
        if file is None:
            return
        if not self._size:
            with suppress(OSError):
                self._path.unlink()
        file.close()

    def forget(self) -> None:
        """In a forked child: the file is the parent's."""
        file, self._file = self._file, None
        self._is_over = True
        self.problem = "the file is the parent's"
        if file is not None:
            file.close()

    def _write(self, text: bytes, rows: int) -> int:
        """How many rows were lost: what can't be written now waits."""
        if self._is_over:
            return rows
        self._waiting += text
        self._rows_waiting += rows
        may_wait = len(self._waiting) <= MOST_WAITING
        if may_wait and monotonic() < self._again_at:
            return 0
        if self._is_written() or may_wait:
            return 0
        del self._waiting[len(self._waiting) - len(text) :]
        self._rows_waiting -= rows
        return rows

    def _is_written(self) -> bool:
        """What waits; of what is not taken as a whole nothing stays in the file."""
        file = self._file
        if file is None:
            return False
        try:
            number = file.number
        except OSError as error:
            self.problem = error.strerror or str(error)
            return False
        text = bytes(self._waiting) if self._size else _MAGIC + self._waiting
        written = 0
        try:
            try:
                while written < len(text):
                    written += os.write(number, text[written:])
            except OSError:
                os.ftruncate(number, self._size)
                raise
        except OSError as error:
            self.problem = error.strerror or str(error)
            self._again_at = monotonic() + AGAIN_S
            return False
        self._size += written
        self._waiting.clear()
        self._rows_waiting = 0
        return True


def is_object_file(path: Path) -> bool:
    """Whether a file is one of these."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) in (b"", _MAGIC)  # nothing is written before a row is
    except OSError:
        return False


def find(path: Path, cid: bytes) -> Row | None:
    """An object of a file that may be growing.

    Raises:
        CorruptObject: Nothing says where rows begin.
        OSError: It can't be read.
    """
    with path.open("rb", buffering=0) as file:
        return _find(_reading(file), cid)


def rows(path: Path) -> Iterator[Row]:
    """All objects; raises what `find` does."""
    with path.open("rb", buffering=0) as file:
        read = _reading(file)
        for place in _places(read):
            if (row := _at(read, place)) is not None:
                yield row


def checked(cid: bytes, data: bytes) -> bytes:
    """The pickle of a row. Raises CorruptObject: it is another one."""
    digest, pickled = unsealed(cid, data)
    if sha512(pickled).digest() != digest:
        raise CorruptObject(cid.hex())
    return pickled


def _row(cid: bytes, description: bytes, data: bytes | None) -> bytes:
    length = _NONE if data is None else len(data)
    return _HEAD.pack(_MARK, len(description), length, cid) + description + (data or b"")


def _reading(file: Any) -> Read:
    def read(at: int, count: int) -> bytes:
        file.seek(at)
        data: bytes = file.read(count)
        return data

    return read


def _find(read: Read, cid: bytes) -> Row | None:
    """Of several rows the first, unless a later one has the pickle that it lacks."""
    found: _Place | None = None
    for place in _places(read):
        if place.cid == cid and (found is None or (found.copied == _NONE != place.copied)):
            found = place
            if place.copied != _NONE:
                break
    return None if found is None else _at(read, found)


def _places(read: Read) -> Iterator[_Place]:
    """Where the rows are; a last one may be cut off.

    Raises:
        CorruptObject: There is something else.
    """
    at, start, block = len(_MAGIC), 0, b""
    while True:
        if at + _HEAD.size > start + len(block):
            start, block = at, read(at, _BLOCK)
            if len(block) < _HEAD.size:
                return
        mark, described, copied, cid = _HEAD.unpack_from(block, at - start)
        if mark != _MARK:
            raise CorruptObject(f"no row at {at}")
        yield _Place(at, cid, described, copied)
        at += _HEAD.size + described + (0 if copied == _NONE else copied)


def _at(read: Read, place: _Place) -> Row | None:
    """None: it is cut off."""
    has_copy = place.copied != _NONE
    length = place.described + place.copied * has_copy
    data = read(place.at + _HEAD.size, length)
    if len(data) < length:
        return None
    return place.cid, data[: place.described], data[place.described :] if has_copy else None
