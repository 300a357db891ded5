"""A client that does not read for a while, beside a tracepoint that is hot.

Nothing waits for it, and memory is bounded; later it gets notifications in the order of `seq`, with
a count of those that were left out; the log has everything. Recorded calls are in
`test_notifications.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cideldill_mcp.tools.control import EVENT_TYPES
from tests.together.conftest import MakeProject
from tests.together.frontend import FrontEnd, front_end, wait_until
from tests.together.tracing import line_of, tracepoint

HITS = 50_000

HOT = f"""
import pathlib


def test_hot():
    for number in range({HITS}):
        number += 1  # hot
    pathlib.Path("done").touch()
    assert number == 0
"""

MEMORY = 250 * 2**20
"""Bytes of a front end: about 70 MB of code, 20,000 events, 10,000 messages, 4 MB of lines."""


def peak_memory(end: FrontEnd) -> int:
    """Bytes that the front end had resident at most."""
    status = Path(f"/proc/{end.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.split("\n") if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def logged(end: FrontEnd) -> int:
    """How many hits are in the log: its events without the others, which are few."""
    others = [each for each in EVENT_TYPES if each != "hit"]
    reported = end.call("timeline_get", types=others)
    assert "truncated" not in reported
    count = end.call("debug_state")["counts"]["events"]
    assert isinstance(count, int)
    return count - len(reported["events"])


@pytest.mark.full
def test_a_client_that_reads_late_is_sent_in_order_what_was_left_out(
    make_project: MakeProject,
) -> None:
    """The test ends its work and pauses; the stop is not left out."""
    project = make_project(test_it=HOT)
    with front_end(project, "-p", "no:cacheprovider") as end:
        end.initialize()
        end.request("resources/subscribe", {"uri": "debugger://breakpoints"})
        id = tracepoint(end, line_of(HOT, "hot"), "{number}")["id"]
        end.start("test_run")
        wait_until((project / "done").exists, "the test has done its work")
        while not end.pushed or end.pushed[-1][0]["type"] == "tracepoint":
            end.receive()
        assert peak_memory(end) < MEMORY
        assert logged(end) == HITS
        for after in (0, HITS // 2, HITS - 100):
            page = end.call("timeline_get", types=["hit"], after=after)
            first = int(page["events"][0]["message"])
            assert abs(first - after) < 20
            shown = [event["message"] for event in page["events"]]
            assert shown == [str(first + n) for n in range(len(shown))]
        assert end.call("debug_state")["counts"]["dropped"] == 0
        (started,) = end.call("timeline_get", types=["test_started"])["events"]
        assert started["seq"] < end.pushed[0][0]["seq"]
    *hits, stop = (reported for reported, _ in end.pushed)
    assert Counter(reported["breakpointId"] for reported in hits) == {id: len(hits)}
    seqs = [reported["seq"] for reported in (*hits, stop)]
    assert seqs == sorted(set(seqs))
    left_out = [reported.get("coalesced", 0) for reported in hits]
    assert 0 < sum(left_out) == HITS - len(hits)
    # Each count stands on the one that is told next.
    counts = [reported["hitCount"] for reported in hits]
    assert [n - before - 1 for before, n in zip([0, *counts], counts, strict=False)] == left_out
    assert stop["pauseId"] is not None
    # One waited all the time; the others came while the client read.
    assert 0 < end.written.count(b'"notifications/resources/updated"') < 100
