"""The link of a run that is only recorded: no thread, nothing lost. See `test_link` as well."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.protocol import Event, Warned
from pytest_cideldill.protocol.rows import Batch, Row
from pytest_cideldill.records import writer
from pytest_cideldill.records.format import Line
from tests.process.parts import system_with
from tests.wire.linked import DEADLINE_S, FileLinked, system_threads

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")


def test_what_is_reported_of_a_recorded_run_is_written_at_once(filed: FileLinked) -> None:
    """Nothing is lost with the process."""
    for event in [Warned("first"), Warned("second")]:
        filed.link.send(event)
        assert filed.receive(1) == [event]
    filed.link.send(Batch([(row_reported, 1.5, "t::x")], {}, {}))
    (line,) = map(Line.decoded, filed.lines(1))
    values = {"nodeid": "t::x", "thread": 1, "message": "", "values": {}}
    assert (line.n, line.type, line.values) == (3, "log", values)


@needs_proc
def test_a_run_that_is_only_recorded_has_no_thread_of_ours(filed: FileLinked) -> None:
    before = system_threads()
    filed.link.start()
    filed.link.send(Warned("first"))
    assert system_threads() == before


def row_reported(row: Row) -> dict[str, Any]:
    reported = {"thread": 1, "message": "", "values": {}}
    return {"type": "log", "ts": row[1], "nodeid": row[2], **reported}


def test_what_a_finalizer_reports_while_something_is_written_comes_behind_it(
    filed: FileLinked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run anywhere, on the thread that is writing."""
    write = filed.outlet.encode

    def encode(ts: float, event: Event | Batch) -> None:
        if event == Warned("first"):
            filed.link.send(Warned("second"))
            assert filed.link.flush(0.0) is False
        write(ts, event)

    monkeypatch.setattr(filed.outlet, "encode", encode)
    filed.link.send(Warned("first"))
    assert filed.receive(2) == [Warned("first"), Warned("second")]


def test_a_line_that_ctrl_c_interrupts_is_not_written_twice(
    filed: FileLinked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come when the system has taken a line already. What follows is written."""
    taken = os.write

    def interrupted(descriptor: int, data: bytes) -> int:
        taken(descriptor, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(writer, "os", system_with(interrupted))
        with pytest.raises(KeyboardInterrupt):
            filed.link.send(Warned("first"))
    filed.link.send(Warned("second"))
    assert filed.receive(2) == [Warned("first"), Warned("second")]


def test_a_bug_of_ours_ends_the_record_and_not_the_test(
    filed: FileLinked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`send` never raises."""

    def encode(ts: float, event: Event | Batch) -> None:
        raise LookupError

    monkeypatch.setattr(filed.outlet, "encode", encode)
    filed.link.send(Warned("first"))
    filed.link.send(Warned("second"))
    assert filed.link.flush(DEADLINE_S) is False


def test_what_is_reported_while_the_link_is_closed_is_not_written_to_another_file(
    filed: FileLinked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that goes on behind the end of a run; its file's number may be another's by then."""
    close = filed.outlet.close

    def closing() -> None:
        close()
        filed.link.send(Warned("late"))

    filed.link.send(Warned("first"))
    monkeypatch.setattr(filed.outlet, "close", closing)
    filed.link.close(DEADLINE_S)
    filed.link.send(Warned("later"))
    assert (tmp_path / "part").read_bytes().count(b"\n") == 1
    assert filed.outlet.error is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_nothing_to_a_record(filed: FileLinked) -> None:
    """It is another process, which nobody asked to record."""
    filed.link.send(Warned("parent"))
    with warnings.catch_warnings(action="ignore"):
        pid = os.fork()
    if not pid:
        filed.link.send(Warned("child"))
        filed.link.close(DEADLINE_S)
        os._exit(0)
    os.waitpid(pid, 0)
    filed.link.send(Warned("behind"))
    assert filed.receive(2) == [Warned("parent"), Warned("behind")]
