"""Lines of hits in a file of events: what is written most, and has to cost least."""

from __future__ import annotations

from collections import Counter
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import Final, NamedTuple

from pytest_cideldill.interpreter import clock
from pytest_cideldill.protocol.encoding import standard
from pytest_cideldill.protocol.rows import Batch, HitFormat, Row
from pytest_cideldill.records.quota import Share, Shares
from pytest_cideldill.redaction.record_filter import Hiding

_MOST_MIDDLES: Final = 1_000
_MICROSECONDS: Final = 1_000_000

_quoted: Final = encode_basestring_ascii
_first: Final = itemgetter(0)

_END: Final = "}\n"
_RAISED: Final = ',"condition_error":true}\n'


class _Common(NamedTuple):
    """What the hits of a breakpoint have in common, in a test and a thread.

    Attributes:
        hit_format: What they have in common as events.
        middle: Of a line, from behind its time up to the number of the pass.
        end: Of a line, behind its message.
        thread: Its ident.
    """

    hit_format: HitFormat
    share: Share
    middle: str
    end: str
    nodeid: str | None
    thread: int


class HitLines:
    """Makes the lines of hits for the file of events of one process.

    Args:
        hiding: Takes secrets out of what is written.
        shares: How many of each breakpoint may be written.
    """

    def __init__(self, worker: str, hiding: Hiding, shares: Shares) -> None:
        self._worker = worker
        self._hiding = hiding
        self._shares = shares
        self._commons: dict[HitFormat, _Common] = {}
        self._middles: dict[tuple[HitFormat, str | None, int], str] = {}

    def together(self, batch: Batch, number: int, room: int) -> tuple[str, dict[str, int]] | None:
        """The lines of a batch that nothing but hits are in, if none needs a look of its own.

        Args:
            number: Of the first line.
            room: How many characters there may be.

        Returns:
            The lines, and how many there are of which breakpoint. None: rows of other kinds, tests,
            threads or seconds are among them, texts that can't be written as they are, or not all
            may be written. Then each is to be written by itself.
        """
        counts = Counter(map(_first, batch.rows))
        if not counts.keys() <= batch.formats.keys():
            return None
        _, moments, nodeids, threads, _, texts = zip(*batch.rows, strict=True)
        if {nodeids.count(nodeids[0]), threads.count(threads[0])} != {len(texts)}:
            return None
        middles: dict[int, str] = {}
        shares: dict[Share, int] = {}
        ids: dict[str, int] = {}
        for format, count in counts.items():
            common = self._common(batch.formats[format], nodeids[0], threads[0])
            if common.end is not _END:
                return None
            middles[format] = common.middle
            shares[common.share] = shares.get(common.share, 0) + count
            id = common.hit_format.breakpoint_id
            ids[id] = ids.get(id, 0) + count
        first, last = min(moments), max(moments)  # a signal handler's come before an earlier one
        if not all(each.has(count, first, last) for each, count in shares.items()):
            return None
        since, ts = _second(first, last)
        if not ts or not self._is_as_written(texts):
            return None
        numbered = enumerate(batch.rows, number)
        lines = "".join(
            [
                f'{{"n":{n}{ts}{int((moment - since) * _MICROSECONDS)}{middles[format]}{passed}'
                f',"message":"{text}"}}\n'
                for n, (format, moment, _, _, passed, text) in numbered
            ]
        )
        if len(lines) > room:
            return None
        for share, count in shares.items():
            share.take(count)
        return lines, ids

    def alone(self, hit_format: HitFormat, row: Row, number: int, *, is_plain: bool) -> str:
        """The line of one hit; empty if it must not be written.

        Args:
            is_plain: There is certainly no secret in its text.
        """
        _, moment, nodeid, thread, passed, text = row
        common = self._common(hit_format, nodeid, thread)
        if not common.share.takes(moment):
            return ""
        stamp = str(int(clock.wall_at(moment) * _MICROSECONDS))
        message = _quoted(text if is_plain else hit_format.text_of(text))
        return (
            f'{{"n":{number},"ts":{stamp[:-6]}.{stamp[-6:]}{common.middle}{passed}'
            f',"message":{message}{common.end}'
        )

    def are_plain(self, batch: Batch) -> bool:
        """Whether there is certainly no secret in the texts of hits."""
        texts = [row[5] for row in batch.rows if row[0] in batch.formats]
        return self._hiding.is_plain("\n".join(texts))

    def _is_as_written(self, texts: tuple[str, ...]) -> bool:
        """Whether JSON has them as they are, and there is no secret in them."""
        text = "\n".join(texts)
        is_json = len(_quoted(text)) == len(text) + len(texts) + 1  # of line feeds; two quotes
        return is_json and self._hiding.is_plain(text)

    def _common(self, hit_format: HitFormat, nodeid: str | None, thread: int) -> _Common:
        """What lines of the hits of a breakpoint share, in a test and a thread."""
        common = self._commons.get(hit_format)
        if common is not None and common.nodeid is nodeid and common.thread == thread:
            return common
        key = (hit_format, nodeid, thread)
        if (middle := self._middles.get(key)) is None:
            if len(self._middles) >= _MOST_MIDDLES:
                self._middles.clear()
                self._commons.clear()
            values = {
                "type": "hit",
                "worker": self._worker,
                "nodeid": self._hiding.name(nodeid),
                "thread": thread,
                "breakpoint_id": hit_format.breakpoint_id,
                "location": hit_format.location,
                "hit_count": 0,
            }
            middle = self._middles[key] = f",{standard(values)[1:-2]}"
        share = self._shares.of(hit_format.breakpoint_id)
        end = _RAISED if hit_format.condition_error else _END
        common = self._commons[hit_format] = _Common(hit_format, share, middle, end, nodeid, thread)
        return common


def _second(first: float, last: float) -> tuple[float, str]:
    """What the times of moments from one to another have in common.

    Returns:
        The moment at which their second began, and what a line has in front of the microseconds;
        nothing if the second changes, or how many digits these have.
    """
    epoch = clock.wall_at(0.0)
    second = int(epoch + first)
    since = second - epoch
    begun, ended = (int((moment - since) * _MICROSECONDS) for moment in (first, last))
    digits = len(str(begun))
    if begun < 0 or ended >= _MICROSECONDS or len(str(ended)) != digits:
        return since, ""
    return since, f',"ts":{second}.{"0" * (6 - digits)}'
