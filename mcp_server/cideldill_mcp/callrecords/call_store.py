"""Where call records are kept: a table in a private file, else the newest ones in memory.

Lives on the event loop. Knows keys, numbers and bytes, not what a record says; no step takes longer
than some milliseconds. The file is for this process only and needs to survive nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import sqlite3

MAX_RECORDS = 1_000_000
MAX_BYTES = 512 * 1024 * 1024
"""Of the file, where all records are; what is free in it is used again and not counted."""

MAX_IN_MEMORY = 20_000
"""Records, when there is no file for them."""

SLICE = 20_000
"""Records that a search looks through between two looks at the event loop; some milliseconds."""

STEP = 1_000
"""Records that leave at once when there are too many bytes."""

_SETUP = """
PRAGMA page_size = 16384;
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16000;
PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, call_id TEXT, started_at REAL, number INTEGER,
    function INTEGER, node INTEGER, status TEXT, body BLOB
);
CREATE INDEX named ON calls (call_id);
CREATE INDEX narrow ON calls (started_at, number, id, function, node, status);
CREATE TABLE tally (
    function INTEGER, node INTEGER, status TEXT, calls INTEGER,
    PRIMARY KEY (function, node, status)
) WITHOUT ROWID;
"""
_INSERT = "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = "UPDATE calls SET function = ?, node = ?, status = ?, body = ? WHERE call_id = ?"
_COUNT = """
INSERT INTO tally VALUES (?, ?, ?, ?)
ON CONFLICT (function, node, status) DO UPDATE SET calls = calls + excluded.calls
"""
_PLACE = "(started_at, number, id)"
_NEWEST_FIRST = "ORDER BY started_at DESC, number DESC, id DESC"


class Kind(NamedTuple):
    """What records are chosen by. `function` and `node` are numbers that the caller gave."""

    function: int
    node: int
    status: str


class Entry(NamedTuple):
    """One record. `started_at` and then `number` say where it stands among the others."""

    call_id: str
    started_at: float
    number: int
    kind: Kind
    body: bytes


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records are meant; None: all."""

    functions: Collection[int] | None = None
    node: int | None = None
    status: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.functions is None and self.node is None and self.status is None

    def admits(self, kind: Kind) -> bool:
        """Whether records of this kind are meant."""
        return (
            (self.functions is None or kind.function in self.functions)
            and (self.node is None or kind.node == self.node)
            and (self.status is None or kind.status == self.status)
        )

    def to_sql(self) -> str:
        """The same as a condition. Texts that came from others are not in it."""
        wanted = ["1"]
        if self.functions is not None:
            wanted.append(f"function IN ({', '.join(map(str, self.functions))})")
        if self.node is not None:
            wanted.append(f"node = {self.node}")
        if self.status is not None:
            wanted.append("status = :status")
        return " AND ".join(wanted)


class Store(Protocol):
    """What both ways of keeping records can do. `gone`: how many were kept and are not any more."""

    gone: int

    def write(self, new: Sequence[Entry], changed: Sequence[tuple[Kind, Entry]]) -> bool:
        """Add records, and replace others in place (with the kind that they had).

        Returns:
            Whether it was done; else nothing was.
        """

    def kind_of(self, call_id: str) -> Kind | None:
        """The kind of a record that is kept."""

    def total(self, choice: Choice) -> int:
        """How many were ever added; those that are gone count as far as it is known."""

    async def newest(self, limit: int, choice: Choice, before: str | None) -> list[bytes]:
        """The bodies of the `limit` newest by start, newest first, started before a call.

        Raises:
            LookupError: The record of that call is not kept.
        """

    def close(self) -> None:
        """Let go of everything."""


def open_store(directory: Path | None) -> Store:
    """A table in a file of its own in a private folder; memory when that can't be had."""
    if directory is not None:
        with suppress(ImportError):  # Pythons are built without it, too
            import sqlite3

            with suppress(sqlite3.Error):
                return Table(directory / "records.db", MAX_RECORDS, MAX_BYTES)
    return Memory(MAX_IN_MEMORY)


class Table:
    """Records in an SQLite file.

    A search walks the narrow index backwards in slices, so that it holds up the loop in small
    pieces only, whatever it looks for. A tally per kind counts also what is gone.

    Args:
        path: Of the file, which does not exist yet.
        max_records: Beyond it the oldest go, in the order in which they came.
        max_bytes: The same, of the file.

    Raises:
        sqlite3.Error: The file can't be made.
    """

    def __init__(self, path: Path, max_records: int, max_bytes: int) -> None:
        import sqlite3

        self.gone = 0
        self._error = sqlite3.Error
        self._max_records, self._max_bytes = max_records, max_bytes
        self._first = self._next = 1  # ids have no gaps
        self._database: sqlite3.Connection = sqlite3.connect(path, isolation_level=None)
        try:
            self._database.executescript(_SETUP)
        except sqlite3.Error:
            self._database.close()
            raise

    def write(self, new: Sequence[Entry], changed: Sequence[tuple[Kind, Entry]]) -> bool:
        """Write in one transaction. A full disk takes nothing; the next write tries again."""
        counts = Counter(entry.kind for entry in new)
        counts.update(entry.kind for _, entry in changed)
        counts.subtract(kind for kind, _ in changed)
        rows = [
            (id, entry.call_id, entry.started_at, entry.number, *entry.kind, entry.body)
            for id, entry in enumerate(new, self._next)
        ]
        try:
            with self._database:
                self._database.execute("BEGIN")
                self._database.executemany(_INSERT, rows)
                self._database.executemany(
                    _UPDATE, [(*entry.kind, entry.body, entry.call_id) for _, entry in changed]
                )
                self._database.executemany(_COUNT, [(*kind, n) for kind, n in counts.items() if n])
        except self._error:
            return False
        self._next += len(rows)
        with suppress(self._error):
            self._make_room()
        return True

    def kind_of(self, call_id: str) -> Kind | None:
        """Read the kind of a record from the table."""
        query = "SELECT function, node, status FROM calls WHERE call_id = ?"
        found = self._database.execute(query, (call_id,)).fetchone()
        return found and Kind(*found)

    def total(self, choice: Choice) -> int:
        """Add up the tally, which is exact and has also what is gone."""
        if choice.is_everything:
            return self._next - 1
        return self._number(
            f"SELECT sum(calls) FROM tally WHERE {choice.to_sql()}", {"status": choice.status}
        )

    async def newest(self, limit: int, choice: Choice, before: str | None) -> list[bytes]:
        """Search the narrow index in slices, and let the event loop run between two of them."""
        above = (float("inf"), 0, 0) if before is None else self._place_of(before)
        limit = min(limit, self.total(choice))
        bodies: list[bytes] = []
        while len(bodies) < limit:
            below = self._database.execute(
                f"SELECT started_at, number, id FROM calls INDEXED BY narrow "
                f"WHERE {_PLACE} < (?, ?, ?) {_NEWEST_FIRST} LIMIT 1 OFFSET ?",
                (*above, SLICE - 1),
            ).fetchone()
            low = below or (float("-inf"), 0, 0)
            found = self._database.execute(
                f"SELECT body FROM calls INDEXED BY narrow "
                f"WHERE {_PLACE} < (:a, :b, :c) AND {_PLACE} >= (:d, :e, :f) "
                f"AND {choice.to_sql()} {_NEWEST_FIRST} LIMIT :limit",
                dict(zip("abcdef", (*above, *low), strict=True))
                | {"status": choice.status, "limit": limit - len(bodies)},
            )
            bodies += [body for (body,) in found]
            if below is None:
                break
            above = below
            await asyncio.sleep(0)
        return bodies

    def close(self) -> None:
        """Close the file; its folder is removed by its owner."""
        self._database.close()

    def _place_of(self, call_id: str) -> tuple[float, int, int]:
        query = "SELECT started_at, number, id FROM calls WHERE call_id = ?"
        place: tuple[float, int, int] | None = None
        with suppress(UnicodeEncodeError):  # lone surrogates are in no id
            place = self._database.execute(query, (call_id,)).fetchone()
        if place is None:
            raise LookupError(call_id)
        return place

    def _make_room(self) -> None:
        """Let the oldest go, in the order in which they came."""
        while self._first < self._next:
            kept = self._next - self._first
            leave = kept - self._max_records
            if leave <= 0:
                if self._used_bytes() <= self._max_bytes:
                    return
                leave = max(1, min(STEP, kept // 10))
            last = self._first + leave - 1
            self._database.execute("DELETE FROM calls WHERE id <= ?", (last,))
            self.gone += leave
            self._first = last + 1

    def _used_bytes(self) -> int:
        pages = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
        return pages * self._number("PRAGMA page_size")

    def _number(self, query: str, values: dict[str, str | None] | None = None) -> int:
        ((number,),) = self._database.execute(query, values or {})
        return number or 0


class Memory:
    """The newest records in memory. Of those that are gone only their number is known."""

    def __init__(self, max_records: int) -> None:
        self.gone = 0
        self._max_records = max_records
        self._kept: dict[str, Entry] = {}  # the oldest first

    def write(self, new: Sequence[Entry], changed: Sequence[tuple[Kind, Entry]]) -> bool:
        """Keep the records in memory; the oldest go beyond the limit. Always succeeds."""
        self._kept.update((entry.call_id, entry) for entry in new)
        for _, entry in changed:
            if entry.call_id in self._kept:
                self._kept[entry.call_id] = entry
        while len(self._kept) > self._max_records:
            del self._kept[next(iter(self._kept))]
            self.gone += 1
        return True

    def kind_of(self, call_id: str) -> Kind | None:
        """The kind of a record that is still in memory."""
        entry = self._kept.get(call_id)
        return entry and entry.kind

    def total(self, choice: Choice) -> int:
        """Count the kept records; those that are gone count when everything is meant."""
        kept = sum(choice.admits(entry.kind) for entry in self._kept.values())
        return kept + (self.gone if choice.is_everything else 0)

    async def newest(self, limit: int, choice: Choice, before: str | None) -> list[bytes]:
        """Sort the kept records by start, and choose from those before the call."""
        if before is not None and before not in self._kept:
            raise LookupError(before)
        ordered = sorted(self._kept.values(), key=lambda entry: (entry.started_at, entry.number))
        names = [entry.call_id for entry in ordered]
        end = None if before is None else names.index(before)
        wanted = [entry.body for entry in ordered[:end] if choice.admits(entry.kind)]
        return wanted[::-1][:limit]

    def close(self) -> None:
        """Forget everything."""
        self._kept.clear()
