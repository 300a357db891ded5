"""Writes the events of one process to its file of a recorded run, within limits.

By one thread at a time. What was written survives the process, however it ends: every batch is
handed to the system at once. Rows beyond a limit are counted, and lines of type `dropped` have
their number; everything else is always written, as far as the disk takes it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.descriptors import MOST_WAITING, HeldFile
from pytest_cideldill.protocol import Message
from pytest_cideldill.protocol.encoding import repaired
from pytest_cideldill.protocol.rows import Batch, Row
from pytest_cideldill.records.call_lines import lines_of_calls
from pytest_cideldill.records.format import DROPPED, Line, line_of
from pytest_cideldill.records.hit_blocks import Stretch, Stretches
from pytest_cideldill.records.hit_lines import HitLines
from pytest_cideldill.records.quota import Share, Shares
from pytest_cideldill.redaction.record_filter import Hiding
from pytest_cideldill.redaction.redactor import Redactor

_DROPPED_S: Final = 1.0
"""How long a number of dropped rows may wait to be written: a process may be killed."""

_TYPE: Final = re.compile(rb'^\{"n":\d+,"ts":[^,]+,"type":"(\w+)"', re.MULTILINE)

_ASKED: Final = "add_"
"""How types of lines begin that are about the breakpoints of a run."""

_TORN: Final = b" \n"
"""Ends a line that the disk took a part of, so that it ends like no other."""


class PartWriter:
    """Writes the events of one process to a file, and counts the rows beyond its limits.

    Args:
        path: Of the file, which is made.
        max_bytes: From here on rows are dropped.

    Attributes:
        error: Why the disk did not take something; None: it took everything.
    """

    def __init__(self, path: Path, worker: str, max_bytes: int, redactor: Redactor) -> None:
        self.error: str | None = None
        self._worker = worker
        self._left = self._max_bytes = max_bytes
        self._written = 0
        self._stretches = Stretches()
        self._hiding = Hiding(redactor)
        self._number = 0
        self._shares = Shares()
        self._hits = HitLines(worker, self._hiding, self._shares)
        self._dropped: Counter[str] = Counter()
        self._dropped_at = clock.monotonic()
        self._is_torn = False
        self._pid = os.getpid()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = HeldFile(path, flags)
        self._waiting = bytearray()

    @property
    def stretches(self) -> list[Stretch]:
        """Where most hits are in the file; empty if the disk did not take all lines."""
        is_whole = self.error is None and self._written == self._max_bytes - self._left
        return self._stretches.all() if is_whole else []

    def lines(self, ts: float, event: Message | Batch) -> bytes:
        """What an event of these epoch seconds is written as: one line, or one for each row."""
        if not isinstance(event, Batch):
            line = line_of(self._next(), ts, self._worker, event)
            is_asked = line.type.startswith(_ASKED)
            try:
                self._hiding.hide(line.values, is_asked=is_asked)
            except Exception as error:  # noqa: BLE001 - a border: no plain data, a bug of ours
                line = line._replace(values=repaired(line.values, error))
                self._hiding.hide(line.values, is_asked=is_asked)
            return self._line(line)
        for loss, count in event.dropped.items():
            self._number += count
            self._dropped["hit" if loss == "hit" else "call"] += count
        text = self._rows(event).encode("ascii")
        if self._dropped and clock.monotonic() - self._dropped_at > _DROPPED_S:
            text += self._dropped_line()
        return text

    def write(self, text: bytes | memoryview) -> None:
        """Hand lines to the system; what it does not take is counted, and later lines are tried.

        A file that the program has closed is opened again; while that fails they wait.
        """
        if self._waiting:
            text = bytes(self._waiting) + text
            self._waiting.clear()
        try:
            descriptor = self._file.number
        except OSError as error:
            if len(text) <= MOST_WAITING:
                self._waiting += text
            else:
                self._lose(text, 0, error)
            return
        if self._is_torn and text:
            text = _TORN + bytes(text)
        written = 0
        try:
            while written < len(text):
                written += os.write(descriptor, text[written:] if written else text)
        except OSError as error:
            self._lose(text, written, error)
        self._written += written
        if written:
            self._is_torn = text[written - 1] != b"\n"[0]

    def close(self) -> None:
        """Write what was dropped and close the file; in a forked child, close it only."""
        if self._file.is_closed:
            return
        if os.getpid() == self._pid:
            if self._dropped or self._waiting:
                self.write(self._dropped_line() if self._dropped else b"")
            if self._waiting:
                self._lose(self._waiting, 0, OSError(0, "the program has closed its file"))
        self._file.close()

    def _lose(self, text: bytes | bytearray | memoryview, written: int, error: OSError) -> None:
        """Count what was not written, from the line on that has so many bytes of it before it."""
        self.error = error.strerror or str(error)
        lost = bytes(text)
        begun = lost.rfind(b"\n", 0, written) + 1
        self._dropped.update(each.decode() for each in _TYPE.findall(lost, begun))

    def _rows(self, batch: Batch) -> str:
        """The lines of rows that may be written; the others are counted."""
        if together := self._hits.together(batch, self._number + 1, self._left):
            text, ids = together
            start = self._max_bytes - self._left
            self._stretches.add(start, start + len(text), ids)
            self._number += len(batch.rows)
        else:
            text = self._alike(batch) or "".join(self._each(batch))
        self._left -= len(text)
        return text

    def _alike(self, batch: Batch) -> str:
        """The lines of calls of one kind; empty: others are there, or not all may be written."""
        if len(batch.calls) != 1 or len((calls := batch.calls[0]).at) != len(batch.rows):
            return ""
        share, count = self._shares.of(calls.common["qualified_name"]), len(batch.rows)
        first, last = (clock.wall_at(find(calls.ended)) for find in (min, max))
        if not share.has(count, first, last):
            return ""
        lines = lines_of_calls(calls, self._worker, self._hiding)
        text = "".join(
            [f'{{"n":{number}{line}' for number, (_, _, line) in enumerate(lines, self._number + 1)]
        )
        if len(text) > self._left:
            return ""
        share.take(count)
        self._number += count
        return text

    def _each(self, batch: Batch) -> Iterator[str]:
        is_plain, left = self._hits.are_plain(batch), self._left
        calls = self._calls(batch)
        for index, row in enumerate(batch.rows):
            number, hit_format = self._next(), batch.formats.get(row[0])
            if index in calls:
                share, ended_at, text = calls[index]
                if share.takes(ended_at) and left > 0:
                    line = f'{{"n":{number}{text}'
                else:
                    line = ""
                    self._dropped["call"] += 1
            elif hit_format is None:
                line = self._call(number, row, left)
            else:
                line = ""
                if left > 0:
                    line = self._hits.alone(hit_format, row, number, is_plain=is_plain)
                if not line:
                    self._dropped["hit"] += 1
            left -= len(line)
            yield line

    def _calls(self, batch: Batch) -> dict[int, tuple[Share, float, str]]:
        """Of the calls of a batch that can be handled together: place among the rows → line."""
        lines: dict[int, tuple[Share, float, str]] = {}
        for calls in batch.calls:
            share = self._shares.of(calls.common["qualified_name"])
            for at, ended_at, text in lines_of_calls(calls, self._worker, self._hiding):
                lines[at] = share, ended_at, text
        return lines

    def _call(self, number: int, row: Row, left: int) -> str:
        """The line of any other row; empty: it was dropped."""
        values = row[0](row)
        type, ts = values.pop("type"), values.pop("ts")
        share = self._shares.of(values.get("qualified_name") or values.get("breakpoint_id") or "")
        if not share.takes(values.get("completed_at") or ts) or left <= 0:
            self._dropped[type] += 1
            return ""
        values["nodeid"] = self._hiding.name(values.get("nodeid"))
        return Line(number, ts, type, self._worker, values).text

    def _dropped_line(self) -> bytes:
        values, self._dropped_at = {"rows": dict(self._dropped)}, clock.monotonic()
        self._dropped.clear()
        return self._line(Line(self._next(), clock.wall(), DROPPED, self._worker, values))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _line(self, line: Line) -> bytes:
        text = line.text.encode("ascii")
        self._left -= len(text)
        return text
