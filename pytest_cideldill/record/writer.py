"""Writes the events of one process to its file of a recorded run, within limits.

On the link's I/O thread. What was written survives the process, however it ends: every batch is
handed to the system at once. Rows beyond a limit are counted, and told by lines of type `dropped`;
everything else is always written, as far as the disk takes it.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any
from typing import Final

from pytest_cideldill import clock
from pytest_cideldill.record.format import DROPPED
from pytest_cideldill.record.format import Line
from pytest_cideldill.record.format import line_of
from pytest_cideldill.wire import Message
from pytest_cideldill.wire import Recorded

MAX_HITS: Final = 100_000
"""Hits of one breakpoint in one process; as many calls of one function."""

_TELL_S: Final = 1.0
"""How long a number of dropped rows may wait to be told: a process may be killed."""

_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid  # tests patch `os`


class PartWriter:
    """See the module.

    Args:
        path: Of the file, which is made.
        worker: Name of the process.
        max_bytes: From here on rows are dropped.

    Attributes:
        error: Why the disk took no more; None: it takes everything.
    """

    def __init__(self, path: Path, worker: str, max_bytes: int) -> None:
        self.error: str | None = None
        self._worker = worker
        self._max_bytes = max_bytes
        self._bytes = 0
        self._number = 0
        self._counts: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._told_at = clock.monotonic()
        self._pid = _getpid()
        self._descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def lines(self, ts: float, event: Message) -> bytes:
        """What an event of these epoch seconds is written as: one line, or one for each row."""
        if not isinstance(event, Recorded):
            return self._line(line_of(self._next(), ts, self._worker, event))
        text = b"".join(map(self._row, event.rows))
        if self._dropped and clock.monotonic() - self._told_at > _TELL_S:
            text += self._tell_dropped()
        return text

    def write(self, text: bytes) -> None:
        """Hand lines to the system."""
        while text and self.error is None:
            try:
                text = text[_write(self._descriptor, text) :]
            except OSError as error:
                self.error = error.strerror or str(error)

    def close(self) -> None:
        """Tell what was dropped and close the file; in a forked child, close it only."""
        if self._descriptor < 0:
            return
        if _getpid() == self._pid and self._dropped:
            self.write(self._tell_dropped())
        _close(self._descriptor)
        self._descriptor = -1

    def _row(self, row: dict[str, Any]) -> bytes:
        type = row["type"]
        name = row.get("breakpoint_id") or row.get("qualified_name") or ""
        lost = row.pop("dropped", 0)
        if lost:
            self._dropped[type] += lost
        self._counts[name] += 1
        if self._counts[name] > MAX_HITS or self._bytes > self._max_bytes:
            self._dropped[type] += 1
            return b""
        values = {key: value for key, value in row.items() if key not in ("type", "ts")}
        return self._line(Line(self._next(), row["ts"], type, self._worker, values))

    def _tell_dropped(self) -> bytes:
        told, self._told_at = dict(self._dropped), clock.monotonic()
        self._dropped.clear()
        return self._line(Line(self._next(), clock.wall(), DROPPED, self._worker, {"rows": told}))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _line(self, line: Line) -> bytes:
        text = line.encoded()
        self._bytes += len(text)
        return text
