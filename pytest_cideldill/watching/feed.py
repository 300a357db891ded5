"""The source of a watch's events: `sysmon` or `settrace`."""

from __future__ import annotations

import sys
from typing import Protocol

from pytest_cideldill.calltraces.feed import Fail
from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.calltraces.user_code import CodeTable
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.protocol.trace_rows import TraceRequest
from pytest_cideldill.watching.recorder import Arming, WatchRecorder


class WatchFeed(Arming, Protocol):
    """Calls the recorder for the events of the program."""

    def start(self) -> None:
        """A phase of a test begins."""

    def stop(self) -> None:
        """It is over; what is watched is followed on."""

    def abandon(self) -> None:
        """Watch nothing any more: in a forked child, and after a failure of ours."""

    def close(self) -> None:
        """Stop for good."""


def watching(
    request: TraceRequest, rows: RowFile, table: CodeTable, values: Values, fail: Fail
) -> tuple[WatchRecorder, WatchFeed]:
    """What records a watch, and what feeds it.

    Raises:
        SourceUnavailable: There can be no events here.
        ValueError: An expression can't be compiled.
    """
    if sys.version_info >= (3, 12):
        from pytest_cideldill.watching.sysmon import MonitoringFeed as Source
    else:
        from pytest_cideldill.watching.settrace import TracingFeed as Source
    recorder = WatchRecorder(request, rows, table, values)
    recorder.source = feed = Source(recorder, table, fail)
    return recorder, feed
