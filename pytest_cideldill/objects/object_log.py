"""Objects on their way to the store: each one once, as long as it is remembered.

Any thread adds; the thread that writes takes. Nobody waits for a lock: a signal or a fork at any
moment hangs nothing.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha512
from typing import Final, Generic, NamedTuple, TypeVar

from pytest_cideldill.interpreter.values import dataclass

_K = TypeVar("_K")
_V = TypeVar("_V")

REMEMBERED: Final = 8_192
"""How many objects, at least, the log remembers as logged already."""

MAX_WAITING_BYTES: Final = 32 * 1024 * 1024
"""Beyond it objects are dropped until the writer comes round."""

BATCH_BYTES: Final = 4 * 1024 * 1024
"""What is written at once: about 10 ms."""


class StoredObject(NamedTuple):
    """A row of the store.

    Attributes:
        cid: 128 hexadecimal digits.
        description: The snapshot, as JSON.
        data: The pickle, perhaps `sealed`; None if there is none.
    """

    cid: str
    description: str
    data: bytes | None


@dataclass(slots=True)
class Counts:
    """What became of the objects.

    Attributes:
        stored: New ones, and those whose pickle came later.
        dropped: Beyond the limit of the file.
        oversized: Stored without their pickle, which was too large.
        lost: Disk full, file gone, and so on.
    """

    stored: int = 0
    dropped: int = 0
    oversized: int = 0
    lost: int = 0

    def add(self, more: Counts) -> None:
        """Count what a batch did."""
        self.stored += more.stored
        self.dropped += more.dropped
        self.oversized += more.oversized
        self.lost += more.lost


_SEAL: Final = b"cideldill copy\n"
_DIGEST: Final = sha512().digest_size


def sealed(data: bytes) -> bytes:
    """A pickle that was made later than the name of its object, with a digest of its own."""
    return _SEAL + sha512(data).digest() + data


def unsealed(cid: bytes, data: bytes) -> tuple[bytes, bytes]:
    """The digest that a pickle must have, and the pickle. `data`: as in a row."""
    if not data.startswith(_SEAL):
        return cid, data
    start = len(_SEAL)
    return data[start : start + _DIGEST], data[start + _DIGEST :]


class Recent(Generic[_K, _V]):
    """The newest entries of a mapping: at least `size`, at most twice as many; no lock."""

    __slots__ = ("_old", "_size", "_young")

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._young: dict[_K, _V] = {}
        self._old: dict[_K, _V] = {}

    def get(self, key: _K) -> _V | None:
        """The value of a key; it counts as new then."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: _K, value: _V) -> None:
        """Remember a value, which must not be None."""
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = value


class Budget:
    """How many bytes are held, counted by many threads that don't wait for each other."""

    __slots__ = ("_changes", "_lock", "_most", "_sum")

    def __init__(self, most: int) -> None:
        self._most = most
        self._changes: deque[int] = deque()
        self._sum = 0
        self._lock = allocate_lock()  # never waited for

    def take(self, size: int) -> bool:
        """Hold so many more; False, and nothing changes, if those would be too many."""
        if self._lock.acquire(False):
            try:
                while self._changes:
                    self._sum += self._changes.popleft()
            finally:
                self._lock.release()
        if self._sum + size > self._most:
            return False
        self._changes.append(size)
        return True

    def give_back(self, size: int) -> None:
        """Hold so many less."""
        self._changes.append(-size)


class ObjectLog:
    """Objects that wait to be written, and which were logged before.

    Args:
        max_waiting_bytes: How much may wait to be written.
        remembered: How many objects are known to have been added.

    Attributes:
        dropped: Objects that were not kept because too many waited.
    """

    def __init__(
        self, max_waiting_bytes: int = MAX_WAITING_BYTES, remembered: int = REMEMBERED
    ) -> None:
        self.dropped = 0
        self._budget = Budget(max_waiting_bytes)
        self._added: Recent[str, bool] = Recent(remembered)
        self._rows: deque[StoredObject] = deque()

    def has(self, cid: str) -> bool:
        """Whether the object was added lately, so that it needn't be described again."""
        return self._added.get(cid) is not None

    def add(self, cid: str, description: str, data: bytes | None, *, is_late: bool = False) -> None:
        """Have an object stored, unless it was added lately; or its pickle, which comes late."""
        if self.has(cid) and not is_late:
            return
        if not self._budget.take(len(description) + len(data or b"")):
            self.dropped += 1
            return
        self._added.put(cid, True)
        self._rows.append(StoredObject(cid, description, data))

    def write(self, put: Callable[[Sequence[StoredObject]], object]) -> None:
        """Hand over what waits, in batches of about `BATCH_BYTES`; on the thread that writes."""
        left = len(self._rows)  # what comes meanwhile is for the next time
        while left > 0:
            batch: list[StoredObject] = []
            size = 0
            while left > 0 and size < BATCH_BYTES:
                left -= 1
                row = self._rows.popleft()
                size += len(row.description) + len(row.data or b"")
                batch.append(row)
            self._budget.give_back(size)
            put(batch)

    def forget(self) -> None:
        """In a forked child: what waits belongs to the parent, which writes it."""
        self._rows.clear()
