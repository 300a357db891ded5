"""Records of calls: complete over all runs of the server's life, behind filters.

Lives on the event loop. A record is a row of type `call` as a process sends it, with its run and
worker. A call that is sent again stays one record: as running first and then with its end, or with
an end that a client changed.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cideldill_mcp.callrecords.call_store import Choice, Entry, Kind, Store, open_store

RUNNING = "running"
STATUSES = ("success", "exception", RUNNING)

_KEYS = (
    "call_id",
    "method_name",
    "qualified_name",
    "status",
    "pretty_args",
    "pretty_kwargs",
    "pretty_result",
    "exception",
    "started_at",
    "completed_at",
    "parent_id",
    "nodeid",
    "run_id",
    "worker",
    "thread",
    "call_site",
    "cids",
)
"""Keys that every record has."""

_BLANK: dict[str, Any] = dict.fromkeys(_KEYS)
_NUMBER = re.compile(r"\d{1,18}$")  # SQLite's integers end at 19 digits

Row = dict[str, Any]


class CalledFunction(NamedTuple):
    """A function whose calls are recorded.

    Attributes:
        module: Where the module ends in its qualified name; None if its process does not know.
        file: Where it is defined, relative to the rootdir; None as for `module`.
    """

    method_name: str
    qualified_name: str
    module: str | None = None
    file: str | None = None

    @property
    def qualname(self) -> str | None:
        """The part behind the module, as in sources."""
        if self.module is None:
            return None
        return self.qualified_name[len(self.module) + 1 :].replace(".<locals>", "")


IsMeant = Callable[[CalledFunction], bool]
"""Whether a function is asked for."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which records a reader wants; None: all."""

    function: IsMeant | None = None
    nodeid: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True)
class CallPage:
    """What a reader gets.

    Attributes:
        calls: The newest by start, oldest of them first.
        total: How many records are wanted, wherever the page ends. Those that were let go are
            among them; those that a process had to drop are when everything is wanted, since
            nobody knows what they were.
        is_first: Whether no older one that is wanted is kept.
    """

    calls: list[dict[str, Any]]
    total: int
    is_first: bool


class Records:
    """All call records. Nothing is opened before the first one comes.

    Args:
        directory: A private folder; without one only the newest records are kept, in memory.

    Attributes:
        on_change: Called when there are other ones, or more were lost.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._store: Store | None = None
        self._functions: dict[CalledFunction, int] = {}
        # File and qualified name there → the numbers of the functions.
        self._defined: dict[tuple[str | None, str | None], list[int]] = {}
        self._nodes: dict[str | None, int] = {}
        self._running: dict[str, Kind] = {}
        self._lost = 0
        self.on_change: Callable[[], None] = lambda: None

    @property
    def total(self) -> int:
        """How many calls were recorded, whether they are still kept or not."""
        return self._lost + (self._store.total(Choice()) if self._store else 0)

    @property
    def dropped(self) -> int:
        """How many of them are not kept: too many at once, or too many in all."""
        return self._lost + (self._store.gone if self._store else 0)

    def add(self, run_id: str, worker: str, rows: Sequence[Row], lost: int = 0) -> None:
        """Add what a process sent; rows of other types than `call` are passed over.

        A row that is no record counts as dropped: it must not cost its process the connection.

        Args:
            lost: How many more calls were recorded, and are not kept.
        """
        before = self._lost
        self._lost += lost
        new: dict[str, Entry] = {}
        changed: dict[str, tuple[Kind, Entry]] = {}  # with the kind that is kept
        for row in rows:
            if row["type"] != "call":
                continue
            try:
                entry = self._entry(run_id, worker, row)
            except (AttributeError, KeyError, TypeError, ValueError):
                self._lost += 1
                continue
            id = entry.call_id
            kept = changed[id][0] if id in changed else self._kept(row)
            if id in new or kept is None:
                new[id] = entry
            else:
                changed[id] = kept, entry
        if new or changed:
            self._write(list(new.values()), list(changed.values()))
        if new or changed or self._lost > before:
            self.on_change()

    def lost(self, count: int) -> None:
        """So many calls were recorded, and are not kept."""
        self._lost += count

    async def page(self, wanted: CallFilter, limit: int, before: str | None = None) -> CallPage:
        """The newest `limit` (at least one) wanted records that started before the call `before`.

        Lets the event loop run now and then.

        Raises:
            LookupError: The call `before` has no record (any more).
        """
        choice = self._choice(wanted)
        if self._store is None:
            if before is not None:
                raise LookupError(before)
            return CallPage([], self._lost if choice.is_everything else 0, is_first=True)
        bodies = await self._store.newest(limit + 1, choice, before)
        total = self._store.total(choice) + (self._lost if choice.is_everything else 0)
        calls = [marshal.loads(body) for body in reversed(bodies[:limit])]
        return CallPage(calls, total, is_first=len(bodies) <= limit)

    def count(self, file: str, qualname: str) -> int:
        """How many calls of the functions of that name in a file were recorded."""
        numbers = self._defined.get((file, qualname))
        if numbers is None or self._store is None:
            return 0
        return self._store.total(Choice(frozenset(numbers)))

    def close(self) -> None:
        """Forget everything."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _kept(self, row: Row) -> Kind | None:
        """The kind of a call that is kept already.

        After its end only a call that a client changed comes again.
        """
        id = row["call_id"]
        if "altered" in row and id not in self._running and self._store is not None:
            return self._store.kind_of(id)
        return self._running.get(id)

    def _write(self, new: list[Entry], changed: list[tuple[Kind, Entry]]) -> None:
        if self._store is None:
            self._store = open_store(self._directory)
        if not self._store.write(new, changed):
            self._lost += len(new)
            return
        for entry in (*new, *(entry for _, entry in changed)):
            if entry.kind.status == RUNNING:
                self._running[entry.call_id] = entry.kind
            else:
                self._running.pop(entry.call_id, None)

    def _entry(self, run_id: str, worker: str, row: Row) -> Entry:
        record = {**_BLANK, **row, "run_id": run_id, "worker": worker}
        for of_the_event in ("type", "ts"):
            record.pop(of_the_event, None)
        module, file = record.pop("defined_in", (None, None))
        call_id: str = record["call_id"]
        call_id.encode()  # ValueError: no text that SQLite takes
        if row["status"] not in STATUSES:
            raise ValueError(row["status"])
        kind = Kind(
            self._number_of(
                CalledFunction(row["method_name"], row["qualified_name"], module, file)
            ),
            self._nodes.setdefault(row["nodeid"], len(self._nodes)),
            row["status"],
        )
        # Calls that started in the same tick of a coarse clock: their process numbers them.
        found = _NUMBER.search(call_id)
        number = int(found[0]) if found else 0
        return Entry(call_id, float(row["started_at"]), number, kind, marshal.dumps(record))

    def _number_of(self, function: CalledFunction) -> int:
        number = self._functions.get(function)
        if number is None:
            number = self._functions[function] = len(self._functions)
            self._defined.setdefault((function.file, function.qualname), []).append(number)
        return number

    def _choice(self, wanted: CallFilter) -> Choice:
        is_meant = wanted.function
        functions = None
        if is_meant is not None:
            functions = {n for function, n in self._functions.items() if is_meant(function)}
        node = None if wanted.nodeid is None else self._nodes.get(wanted.nodeid, -1)
        return Choice(functions, node, wanted.status)
