"""Writes the events of one process to its file of a recorded run, within limits.

On the link's I/O thread. What was written survives the process, however it ends: every batch is
handed to the system at once. Rows beyond a limit are counted, and told by lines of type `dropped`;
everything else is always written, as far as the disk takes it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Final
from typing import NamedTuple

from pytest_cideldill import clock
from pytest_cideldill.record.format import DROPPED
from pytest_cideldill.record.format import Line
from pytest_cideldill.record.format import encoded
from pytest_cideldill.record.format import line_of
from pytest_cideldill.record.hiding import Hiding
from pytest_cideldill.record.share import Share
from pytest_cideldill.record.share import Shares
from pytest_cideldill.redact import Redactor
from pytest_cideldill.rows import Batch
from pytest_cideldill.rows import HitTelling
from pytest_cideldill.rows import Row
from pytest_cideldill.wire import Message

_TELL_S: Final = 1.0
"""How long a number of dropped rows may wait to be told: a process may be killed."""

_MOST_MIDDLES: Final = 1_000
_MICROSECONDS: Final = 1_000_000
_TYPE: Final = re.compile(rb'^\{"n":\d+,"ts":[^,]+,"type":"(\w+)"', re.MULTILINE)

_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid  # tests patch `os`
_quoted: Final = encode_basestring_ascii
_TORN: Final = b" \n"
"""Ends a line that the disk took a part of, so that it ends like no other."""

_END: Final = "}\n"
_RAISED: Final = ',"condition_error":true}\n'


class _Hits(NamedTuple):
    """What the hits of a breakpoint have in common, in a test and a thread.

    Attributes:
        share: How many may be written.
        middle: Of a line, from its type up to the number of the pass.
        end: Of a line, behind its message.
        nodeid: Of the test.
        thread: Its ident.
    """

    share: Share
    middle: str
    end: str
    nodeid: str | None
    thread: int


class PartWriter:
    """See the module.

    Args:
        path: Of the file, which is made.
        worker: Name of the process.
        max_bytes: From here on rows are dropped.
        redactor: Knows secrets.

    Attributes:
        error: Why the disk did not take something; None: it took everything.
    """

    def __init__(
        self,
        path: Path,
        worker: str,
        max_bytes: int,
        redactor: Redactor,
    ) -> None:
        self.error: str | None = None
        self._worker = worker
        self._left = max_bytes
        self._hiding = Hiding(redactor)
        self._number = 0
        self._shares = Shares()
        self._hits: dict[HitTelling, _Hits] = {}
        self._middles: dict[tuple[HitTelling, str | None, int], str] = {}
        self._dropped: Counter[str] = Counter()
        self._told_at = clock.monotonic()
        self._is_torn = False
        self._pid = _getpid()
        self._descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def lines(self, ts: float, event: Message | Batch) -> bytes:
        """What an event of these epoch seconds is written as: one line, or one for each row."""
        if not isinstance(event, Batch):
            line = line_of(self._next(), ts, self._worker, event)
            return self._line(replace(line, values=self._hiding.values(line.values)))
        for loss, count in event.dropped.items():
            self._drop("hit" if loss == "hit" else "call", count)
        text = "".join(self._rows(event.rows)).encode("ascii")
        if self._dropped and clock.monotonic() - self._told_at > _TELL_S:
            text += self._tell_dropped()
        return text

    def write(self, text: bytes | bytearray) -> None:
        """Hand lines to the system; what it does not take is counted, and later lines are tried."""
        if self._is_torn and text:
            text = _TORN + text
        written = 0
        try:
            while written < len(text):
                written += _write(self._descriptor, text[written:] if written else text)
        except OSError as error:
            self.error = error.strerror or str(error)
            begun = text.rfind(b"\n", 0, written) + 1
            self._dropped.update(each.decode() for each in _TYPE.findall(text, begun))
        if written:
            self._is_torn = text[written - 1] != b"\n"[0]

    def close(self) -> None:
        """Tell what was dropped and close the file; in a forked child, close it only."""
        if self._descriptor < 0:
            return
        if _getpid() == self._pid and self._dropped:
            self.write(self._tell_dropped())
        _close(self._descriptor)
        self._descriptor = -1

    def _rows(self, rows: list[Row]) -> list[str]:
        """The lines of rows; those of hits are the hot path of this thread."""
        is_plain = self._hiding.is_plain(
            "\n".join([row[5] for row in rows if type(row[0]) is HitTelling])
        )
        epoch, find, lines, dropped = clock.wall_at(0.0), self._hits.get, [], 0
        number, left = self._number, self._left
        for row in rows:
            number += 1
            telling = row[0]
            if type(telling) is not HitTelling:
                line = self._call(number, row, left)
                left -= len(line)
                lines.append(line)
                continue
            _, moment, nodeid, thread, passed, text = row
            hits = find(telling)
            if hits is None or hits.nodeid is not nodeid or hits.thread != thread:
                hits = self._hits_of(telling, nodeid, thread)
            share = hits.share
            if moment >= share.until:
                share.renew(moment)
            share.left -= 1
            if share.left < 0 or left <= 0:
                dropped += 1
                continue
            stamp = str(int((epoch + moment) * _MICROSECONDS))
            line = (
                f'{{"n":{number},"ts":{stamp[:-6]}.{stamp[-6:]},{hits.middle}{passed},"message":'
                f"{_quoted(text if is_plain else telling.text_of(text))}{hits.end}"
            )
            left -= len(line)
            lines.append(line)
        self._number, self._left = number, left
        if dropped:
            self._dropped["hit"] += dropped
        return lines

    def _hits_of(self, telling: HitTelling, nodeid: str | None, thread: int) -> _Hits:
        """Of a breakpoint, in another test or thread than before."""
        key = (telling, nodeid, thread)
        if (middle := self._middles.get(key)) is None:
            if len(self._middles) >= _MOST_MIDDLES:
                self._middles.clear()
                self._hits.clear()
            values = {
                "type": "hit",
                "worker": self._worker,
                "nodeid": self._hiding.name(nodeid),
                "thread": thread,
                "breakpoint_id": telling.breakpoint_id,
                "location": telling.location,
                "hit_count": 0,
            }
            middle = self._middles[key] = encoded(values)[1:-2]
        share = self._shares.of(telling.breakpoint_id)
        end = _RAISED if telling.condition_error else _END
        hits = self._hits[telling] = _Hits(share, middle, end, nodeid, thread)
        return hits

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

    def _drop(self, type: str, count: int) -> None:
        self._number += count
        self._dropped[type] += count

    def _tell_dropped(self) -> bytes:
        told, self._told_at = {"rows": dict(self._dropped)}, clock.monotonic()
        self._dropped.clear()
        return self._line(Line(self._next(), clock.wall(), DROPPED, self._worker, told))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _line(self, line: Line) -> bytes:
        text = line.text.encode("ascii")
        self._left -= len(text)
        return text
