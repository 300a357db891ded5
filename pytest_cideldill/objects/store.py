"""CIDs to snapshots and pickles: one SQLite file of a run that is over; reads all kinds of files.

One thread at a time. While a process runs it writes another file (`object_file`), for SQLite holds
descriptors and locks that programs take away. Those of a run are put together when it is over. No
method raises for what a disk, a file or a row does: what can't be stored is forgotten and counted.
Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal
from weakref import WeakSet

from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.interpreter.clock import monotonic
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.objects.database import connect, is_rolled_back, never_close, number, sqlite3
from pytest_cideldill.objects.object_file import (
    MAX_STORE_BYTES,
    CorruptObject,
    Row,
    checked,
    find,
    is_object_file,
    rows,
)
from pytest_cideldill.objects.object_log import BATCH_BYTES, Counts, StoredObject

READ_S: Final = 5.0
READ_ALL_S: Final = 60.0
"""How long a reader may take for one object, or for all; the file may be a stranger's."""

_MOST_FAILURES: Final = 3
"""Batches in a row that fail before nothing more is tried."""

_INSERT: Final = """
INSERT INTO objects VALUES (?, ?, ?) ON CONFLICT (cid)
DO UPDATE SET data = excluded.data WHERE data IS NULL AND excluded.data IS NOT NULL"""
_COUNT: Final = "SELECT count(*) FROM objects"
_SIZE: Final = "SELECT total(length(description)) + total(length(data)) FROM objects"
_SELECT: Final = "SELECT description, data FROM objects WHERE cid = ?"

_ALL: Final = "SELECT cid, description, data FROM objects ORDER BY rowid"

State = Literal["idle", "open", "unavailable", "failed", "closed"]

_open_stores: WeakSet[CIDStore] = WeakSet()


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of the objects of another file.

    Attributes:
        objects: How many were new.
        problem: Why not all were read, if so.
        missing: How many were read and not taken over.
    """

    objects: int
    problem: str | None = None
    missing: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the other file is not needed any more."""
        return self.problem is None and not self.missing


class CIDStore:
    """The objects of a run, by content id. The file is made with the first object.

    Args:
        path: The file; its folder must exist.
        max_bytes: Of the whole file, about; objects beyond it are not stored.
        max_object_bytes: Of one pickle; larger ones are left out.
        is_reader: Never write, nor make the file; it may come into being later.

    Attributes:
        state: `idle`: not needed yet. `unavailable`: this Python has no sqlite3. `failed`: see
            `problem`; nothing is stored any more.
        problem: Why something was not stored, or read; with `unavailable` and `failed`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_STORE_BYTES,
        max_object_bytes: int = 1_048_576,
        is_reader: bool = False,
    ) -> None:
        self.path = Path(path)
        self.state: State = "idle" if sqlite3 is not None else "unavailable"
        self.problem: str | None = None
        if sqlite3 is None:
            self.problem = "this Python has no sqlite3 module"
        self.counts = Counts()
        self._max_bytes = max_bytes
        self._max_object_bytes = max_object_bytes
        self._is_reader = is_reader
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._bytes: int | None = None
        self._failures = 0
        self._until = 0.0  # when what is asked of a reader has taken too long

    # --- writing ----------------------------------------------------------------------------

    def put(self, cid: str, description: Mapping[str, Any], data: bytes | None = None) -> None:
        """Store an object unless it is there; a missing pickle is added to it."""
        self.put_many([StoredObject(cid, json.dumps(description), data)])

    def put_many(self, objects: Iterable[StoredObject]) -> None:
        """Like `put`, in one transaction."""
        self._store([(bytes.fromhex(cid), text.encode(), data) for cid, text, data in objects])

    def merge(
        self, other_path: str | os.PathLike[str], may_go_on: Callable[[], bool] = lambda: True
    ) -> Merged:
        """Take over the objects of another file, as far as it can be read. May take seconds.

        Args:
            other_path: The file; damaged rows stay there.
            may_go_on: Asked after some megabytes; if not, that is a problem.
        """
        other = CIDStore(other_path, is_reader=True)
        before, damaged = replace(self.counts), 0
        try:
            held = other._rows()
            if held is None:
                return Merged(0, other.problem or "it can't be read")
            while batch := _batch(held):
                if not may_go_on():
                    other.problem = "not all of it was read"
                    break
                intact = [row for row in batch if _is_intact(*row)]
                damaged += len(batch) - len(intact)
                self._store(intact)
        except (OSError, CorruptObject, sqlite3.Error) as error:
            other._fail(error)
        other.close()
        self.counts.lost += damaged
        return Merged(
            self.counts.stored - before.stored,
            None if other.problem is None else f"{other.path}: {other.problem}",
            self.counts.lost + self.counts.dropped - before.lost - before.dropped,
        )

    def _store(self, rows: list[Row]) -> None:
        connection = None if self._is_reader else self._opened()
        if connection is None:
            self.counts.lost += len(rows)
            return
        counts = Counts()
        try:
            size = number(connection, _SIZE) if self._bytes is None else self._bytes
            connection.execute("BEGIN")
            for row in rows:
                size = self._insert(connection, row, size, counts)
            connection.execute("COMMIT")
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            self.counts.lost += len(rows)
            self._failures += 1
            self.problem = _why(error)
            if self._failures >= _MOST_FAILURES or not is_rolled_back(connection):
                self._fail(error)
            return
        self._failures = 0
        self._bytes = size
        self.counts.add(counts)

    def _insert(self, connection: sqlite3.Connection, row: Row, size: int, counts: Counts) -> int:
        """Returns how many bytes there are then."""
        cid, description, data = row
        if data is not None and len(data) > self._max_object_bytes:
            data = None
            counts.oversized += 1
        needed = len(description) + len(data or b"")
        if size + needed > self._max_bytes:
            counts.dropped += 1
            return size
        is_new = connection.execute(_INSERT, (cid, description, data)).rowcount > 0
        counts.stored += is_new
        return size + needed if is_new else size

    # --- reading ----------------------------------------------------------------------------

    def get(self, cid: str) -> bytes | None:
        """The pickle of an object; None if the object or its pickle is not there, or is damaged."""
        try:
            return self.intact(cid)
        except CorruptObject:
            return None

    def intact(self, cid: str) -> bytes | None:
        """The pickle of an object; None if the object or its pickle is not there.

        Raises:
            CorruptObject: It is damaged.
        """
        row = self._row(cid)
        return None if row is None else row[1]

    def description(self, cid: str) -> dict[str, Any] | None:
        """The snapshot of an object; None if it is not there.

        Of a damaged one: `type` `unknown`, `repr` `<deserialization failed: ValueError>`, no
        `attributes`, `error` `deserialization_failed`.
        """
        try:
            row = self._row(cid)
            if row is None:
                return None
            description = json.loads(row[0])
            if type(description) is not dict:
                raise CorruptObject(cid)
        except (ValueError, TypeError, RecursionError) as error:
            return _placeholder(error)
        return description

    def __len__(self) -> int:
        connection = self._opened()
        try:
            return 0 if connection is None else number(connection, _COUNT)
        except sqlite3.Error:
            return 0

    def _row(self, cid: str) -> tuple[bytes, bytes | None] | None:
        """
        Raises:
            CorruptObject: The row can't be read, or its pickle is another one.
        """
        try:
            digest = bytes.fromhex(cid)
        except ValueError:
            return None
        row = self._found(digest)
        if row is None:
            return None
        description, data = row
        if not _is_intact(digest, b"", data):
            raise CorruptObject(cid)
        return description, None if data is None else checked(digest, data)

    def _found(self, digest: bytes) -> tuple[Any, Any] | None:
        """As it is in the file. Raises CorruptObject: it can't be read."""
        if self._is_reader and is_object_file(self.path):
            try:
                found = find(self.path, digest)
            except OSError:  # gone
                return None
            return None if found is None else found[1:]
        connection = self._opened()
        if connection is None:
            return None
        try:
            row: tuple[Any, Any] | None = connection.execute(_SELECT, (digest,)).fetchone()
        except sqlite3.OperationalError as error:  # gone, or slower than it may be
            if self._is_reader:  # the next object would take as long
                self._fail(error)
            return None
        except sqlite3.DatabaseError as error:
            raise CorruptObject(str(error)) from error
        return row

    def _rows(self) -> Iterator[Row] | None:
        """All of them; None: it can't be opened. Raises sqlite3.Error: it can't be read."""
        if is_object_file(self.path):
            return rows(self.path)
        connection = self._opened(READ_ALL_S)
        return None if connection is None else iter(connection.execute(_ALL))

    # --- the file ---------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file; nothing is stored or found any more."""
        connection, self._connection = self._connection, None
        if self.state in ("idle", "open"):
            self.state = "closed"
        if connection is not None and self._pid == os.getpid():
            try:
                connection.close()
            except sqlite3.Error:
                return

    def _opened(self, within_s: float = READ_S) -> sqlite3.Connection | None:
        self._until = monotonic() + within_s
        if self._pid != os.getpid() or self.state not in ("idle", "open"):
            return None
        if self._connection is not None:
            return self._connection
        is_over = (lambda: monotonic() > self._until) if self._is_reader else None
        try:
            connection = connect(self.path, is_reader=self._is_reader, is_over=is_over)
        except (sqlite3.Error, OSError, ValueError) as error:
            self._fail(error)
            return None
        if connection is not None:
            self._connection = connection
            self.state = "open"
            _open_stores.add(self)
        return connection

    def _fail(self, error: BaseException) -> None:
        self.state = "failed"
        self.problem = _why(error)

    def _forget_in_child(self) -> None:
        connection, self._connection = self._connection, None
        self.state = "closed"
        if connection is not None:
            never_close(connection)


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


def _batch(rows: Iterable[Row]) -> list[Row]:
    """The next of them, about `BATCH_BYTES`."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(each) for each in row if type(each) is bytes)
        if size >= BATCH_BYTES:
            break
    return batch


def _is_intact(cid: bytes, description: object, data: object) -> bool:
    if type(description) is not bytes or type(data) is not bytes:
        return type(description) is bytes and data is None
    try:
        checked(cid, data)
    except CorruptObject:
        return False
    return True


def _placeholder(error: BaseException) -> dict[str, Any]:
    shown = f"<deserialization failed: {type(error).__name__}>"
    return {"type": "unknown", "repr": shown, "attributes": {}, "error": "deserialization_failed"}


def _after_fork_in_child() -> None:
    for store in tuple(_open_stores):
        store._forget_in_child()


at_fork(after_in_child=_after_fork_in_child)
