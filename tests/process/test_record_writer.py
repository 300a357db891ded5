"""The file of one process of a recorded run: what is written, what is dropped and counted."""

from __future__ import annotations

import errno
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.interpreter import clock
from pytest_cideldill.protocol import Departed, NodeFinished, PhaseReported, Warned
from pytest_cideldill.protocol.rows import Batch, HitFormat, Row
from pytest_cideldill.records import hit_lines as hitlines_module
from pytest_cideldill.records import quota as share_module
from pytest_cideldill.records import writer as writer_module
from pytest_cideldill.records.format import Line
from pytest_cideldill.records.merge import raw_lines
from pytest_cideldill.records.quota import Share, Shares
from pytest_cideldill.records.writer import PartWriter
from pytest_cideldill.redaction.redactor import Redactor
from tests.each_case import for_each
from tests.process.parts import PLACE, Disk, Part, system_with

FAILED = PhaseReported("t::x", "call", "failed", "failed", 0.1)
FINISHED = NodeFinished("t::x", 0.1, {})
WARNED = Warned("something")


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Part]:
    made = Part(tmp_path)
    yield made
    made.writer.close()


def call_row(number: int, name: str = "till.total", ts: float = 5.0) -> Row:
    def reported(row: Row) -> dict[str, Any]:
        return {"type": "call", "ts": ts, "qualified_name": name, "call_id": f"c.main.c{row[1]}"}

    return (reported, number)


@for_each("text", ["price=2", "", 'a "quoted" \\ text', "é\ud800\x00\n\u2028", "x" * 1_000])
@for_each("nodeid", ["t::x", None, 't::x["\\é]'])
@for_each("condition_error", [False, True])
def test_a_hit_is_written_as_it_would_be_sent(
    part: Part, text: str, nodeid: str | None, condition_error: bool
) -> None:
    """The quick way to a line and the event say the same."""
    format = part.of("tp-1", condition_error=condition_error)
    row = (format, 5.25, nodeid, 7, 3, text)
    before = len(part.lines)
    part.add(row)
    (line,) = part.lines[before:]
    reported = part.formats[format](row)
    assert line.pop("ts") == pytest.approx(reported.pop("ts"), abs=1e-6)
    assert line == {"n": before + 1, "worker": "main", **reported}
    assert list(line)[-2 - condition_error :][:2] == ["hit_count", "message"]


def a_microsecond_apart(rows: Sequence[Row]) -> list[Row]:
    """The rows as a hot line leaves them."""
    return [(*row[:1], 5.0 + at / 1e6, *row[2:]) for at, row in enumerate(rows)]


ODD = {
    "other": lambda part, row: (part.of("tp-2"), *row[1:]),
    "test": lambda part, row: (*row[:2], "t::y", *row[3:]),
    "no test": lambda part, row: (*row[:2], None, *row[3:]),
    "thread": lambda part, row: (*row[:3], 8, *row[4:]),
    "quoted": lambda part, row: (*row[:5], 'a "b"'),
    "escaped": lambda part, row: (*row[:5], "a\\b"),
    "line feed": lambda part, row: (*row[:5], "a\nb"),
    "wide": lambda part, row: (*row[:5], "é"),
    "secret": lambda part, row: (*row[:5], "token=zq81-7751-aa"),
    "raised": lambda part, row: (part.of("tp-3", condition_error=True), *row[1:]),
    "empty": lambda part, row: (*row[:5], ""),
    "second": lambda part, row: (row[0], row[1] + 1.5, *row[2:]),
}
"""What makes a row one that may not go together with others."""


@for_each("odd", [None, *ODD])
def test_hits_are_written_together_as_they_are_one_by_one(tmp_path: Path, odd: str | None) -> None:
    """The quick way for many rows, whatever is among them."""
    written = []
    for size in (20, 1):
        folder = tmp_path / f"{odd} {size}"
        folder.mkdir()
        part = Part(folder)
        rows = a_microsecond_apart([part.hit(number, f"price={number}") for number in range(20)])
        if odd is not None:
            rows[11] = ODD[odd](part, rows[11])
        for at in range(0, 20, size):
            part.add(*rows[at : at + size])
        part.writer.close()
        lines = part.lines
        for line, row in zip(lines, rows, strict=True):
            assert line.pop("ts") == pytest.approx(clock.wall_at(row[1]), abs=2e-6)
        written.append(lines)
    assert written[0] == written[1]


@pytest.mark.parametrize("fraction", [0.0, 0.0000085, 0.00995, 0.0999985, 0.1, 0.5, 0.9999985])
def test_times_of_hits_are_those_of_their_moments(part: Part, fraction: float) -> None:
    """Whatever digits they begin with, and when a second ends."""
    moment = 7.0 - clock.wall_at(7.0) % 1 + fraction
    rows = [(part.hit_format, moment + n / 1e6, "t::x", 7, n, f"{n}") for n in range(4)]
    part.add(*rows)
    for line, row in zip(part.lines, rows, strict=True):
        assert line["ts"] == pytest.approx(clock.wall_at(row[1]), abs=2e-6)
    for each in raw_lines(part.path.parent):
        assert re.match(rb'\{"n":\d+,"ts":\d+\.\d{6},', each.text)


def test_hits_of_several_tracepoints_tests_and_threads_are_distinguished(part: Part) -> None:
    """What lines have in common is made once; it must not be that of another one."""
    formats = [part.of(f"tp-{n}") for n in range(3)]
    rows = [(formats[n % 3], 5.0, f"t::{n % 4}", n % 5, n, f"m{n}") for n in range(100)]
    part.add(*rows)
    assert [
        (each["breakpoint_id"], each["nodeid"], each["thread"], each["hit_count"], each["message"])
        for each in part.lines
    ] == [(part.formats[row[0]].breakpoint_id, *row[2:]) for row in rows]


def test_what_is_kept_of_hits_is_bounded(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests and names come and go."""
    monkeypatch.setattr(hitlines_module, "_MOST_MIDDLES", 10)
    monkeypatch.setattr(share_module, "_MOST_NAMES", 10)
    for number in range(50):
        part.add((part.of(f"tp-{number}"), 5.0, f"t::{number}", 7, number, "m"))
    assert len(part.writer._hits._middles) <= 10
    assert len(part.writer._hits._commons) <= 10
    assert len(part.writer._shares._shares) <= 11
    assert [each["nodeid"] for each in part.lines] == [f"t::{number}" for number in range(50)]


def test_a_secret_in_one_message_of_many_is_hidden(part: Part) -> None:
    """One look at all of them says whether each must be looked at."""
    texts = ["price=2", "token=zq81-7751-aa", "plain", "postgresql://a:un1ikely-pg@db/x"]
    part.add(*(part.hit(number, text) for number, text in enumerate(texts)))
    reported = [each["message"] for each in part.lines]
    assert (reported[0], reported[2]) == ("price=2", "plain")
    assert reported[1].startswith("token=<redacted:token#")
    assert "un1ikely" not in part.path.read_text()


def test_of_one_breakpoint_only_so_many_hits_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on; what is dropped is counted and leaves a gap."""
    monkeypatch.setattr(share_module, "MAX_ROWS", 5)
    part = Part(tmp_path)
    other = part.of("tp-2")
    for number in range(1, 11):
        part.add(part.hit(number), (other, 5.0, "t::x", 7, number, "m")) if number < 4 else None
        part.add(part.hit(number)) if number >= 4 else None
    part.say(FAILED, FINISHED, WARNED)
    part.writer.close()
    hits = Counter(each["breakpoint_id"] for each in part.of_type("hit"))
    assert hits == {"tp-1": 5, "tp-2": 3}
    assert [each["rows"] for each in part.of_type("dropped")] == [{"hit": 5}]
    for type in ("test_phase", "test_outcome", "warning"):
        assert len(part.of_type(type)) == 1
    part.assert_gaps_are_reported()


def test_of_one_function_only_so_many_calls_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for records of calls."""
    monkeypatch.setattr(share_module, "MAX_ROWS", 5)
    part = Part(tmp_path)
    part.add(*map(call_row, range(8)), call_row(9, "till.other"))
    part.say(FAILED)
    part.writer.close()
    names = Counter(each["qualified_name"] for each in part.of_type("call"))
    assert names == {"till.total": 5, "till.other": 1}
    assert [each["rows"] for each in part.of_type("dropped")] == [{"call": 3}]
    assert len(part.of_type("test_phase")) == 1
    part.assert_gaps_are_reported()


def test_a_hot_line_leaves_something_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many in any second: what a later test tells is not lost to the first one."""
    monkeypatch.setattr(share_module, "MAX_ROWS", 10)
    monkeypatch.setattr(share_module, "MAX_ROWS_PER_S", 4)
    part = Part(tmp_path)
    part.add(*(part.hit(number, moment=5.0 + number / 100) for number in range(20)))
    part.add(*(part.hit(number, moment=7.0) for number in range(20, 23)))
    part.add(*(part.hit(number, moment=9.0) for number in range(23, 30)))
    part.writer.close()
    counts = [each["hit_count"] for each in part.of_type("hit")]
    assert counts == [0, 1, 2, 3, 20, 21, 22, 23, 24, 25]
    part.assert_gaps_are_reported()


def test_a_share_never_gives_more_than_it_has() -> None:
    """What a second leaves over is not lost to the next ones."""
    share = Share(10, 4)
    taken = [share.takes(moment) for moment in (0, 0.5, 1.5, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5)]
    assert taken == [True] * 7 + [False] + [True] * 3 + [False] * 2


def test_shares_of_too_many_names_are_one() -> None:
    """Bounded memory."""
    shares = Shares()
    of = {id(shares.of(f"f{number}")) for number in range(share_module._MOST_NAMES + 50)}
    assert len(of) == share_module._MOST_NAMES + 1


def test_beyond_its_bytes_rows_are_dropped_and_nothing_else(tmp_path: Path) -> None:
    """Outcomes, failures and warnings are always written."""
    part = Part(tmp_path, max_bytes=2_000)
    part.add(*(part.hit(number) for number in range(100)))
    part.add(*(call_row(number) for number in range(100)))
    for _ in range(50):
        part.say(FAILED, FINISHED, WARNED)
    part.writer.close()
    hits = len(part.of_type("hit"))
    assert 2_000 < sum(len(json.dumps(each)) for each in part.of_type("hit")) < 3_000
    assert part.of_type("call") == []
    (reported,) = part.of_type("dropped")
    assert reported["rows"] == {"hit": 100 - hits, "call": 100}
    for type in ("test_phase", "test_outcome", "warning"):
        assert len(part.of_type(type)) == 50
    part.assert_gaps_are_reported()


def test_what_was_lost_before_it_came_here_is_counted_by_what_it_was(part: Part) -> None:
    """Rows that the log dropped, since too many waited."""
    part.add(part.hit(1), hit=5, call=2, record=3)
    part.writer.close()
    assert [each["rows"] for each in part.of_type("dropped")] == [{"hit": 5, "call": 5}]
    part.assert_gaps_are_reported()


def test_dropped_rows_are_reported_while_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be killed: at the latest a second after."""
    monkeypatch.setattr(share_module, "MAX_ROWS", 1)
    part = Part(tmp_path)
    part.add(part.hit(1), part.hit(2))
    assert part.of_type("dropped") == []
    part.writer._dropped_at -= 2
    part.add(part.hit(3))
    assert [each["rows"] for each in part.of_type("dropped")] == [{"hit": 2}]
    part.add(part.hit(4))
    assert len(part.of_type("dropped")) == 1
    part.writer.close()
    assert [each["rows"] for each in part.of_type("dropped")] == [{"hit": 2}, {"hit": 1}]


def test_a_full_disk_is_reported_and_does_not_raise(
    part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written before a line that was cut off opens."""
    monkeypatch.setattr(writer_module, "os", system_with(Disk(room=500).write))
    part.add(*(part.hit(number) for number in range(10)))
    part.say(FAILED, FINISHED)
    part.writer.close()
    assert part.writer.error == os.strerror(errno.ENOSPC)
    assert [each["hit_count"] for each in part.lines] == [0, 1]
    assert part.path.stat().st_size == 500


@pytest.mark.parametrize("room", [0, 1, 300, 500])
def test_what_a_disk_refused_for_a_while_is_counted(
    part: Part, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """It is written on when there is room again, behind the line that was cut off."""
    monkeypatch.setattr(writer_module, "os", system_with(Disk(room, failures=2).write))
    part.add(*(part.hit(number) for number in range(5)))
    part.say(FAILED, FINISHED)
    part.say(Departed())
    part.writer.close()
    written = len(part.of_type("hit"))
    assert written == {0: 0, 1: 0, 300: 1, 500: 2}[room]
    (reported,) = part.of_type("dropped")
    assert reported["rows"] == {"hit": 5 - written, "test_phase": 1}
    assert len(part.of_type("worker_down")) == 1
    part.assert_gaps_are_reported()


def test_a_forked_child_writes_nothing(part: Part) -> None:
    """What the parent dropped is the parent's to tell."""
    part.writer._dropped["hit"] += 1
    part.writer._pid += 1
    part.writer.close()
    part.writer.close()
    assert part.lines == []


def test_a_file_that_is_there_is_never_written_into(part: Part, tmp_path: Path) -> None:
    """Two processes of one name and number are none of ours."""
    with pytest.raises(FileExistsError):
        PartWriter(part.path, "main", 1, part.redactor)


def test_any_other_message_is_one_line(part: Part) -> None:
    """And reads back as what was said."""
    part.say(FAILED, FINISHED, WARNED)
    read = [Line.decoded(each.text).message for each in raw_lines(part.path.parent)]
    assert read == [FAILED, FINISHED, WARNED]


SECRET = "env-val-90125-deploy"


def test_secrets_in_names_of_tests_are_hidden_everywhere_alike(tmp_path: Path) -> None:
    """In rows, in messages and deep inside of them; other values stay as they are."""
    nodeid = f"test_it.py::test_x[{SECRET}]"
    redactor = Redactor(environ={"DEPLOY_TOKEN": SECRET})
    writer = PartWriter(tmp_path / "main-1.part.jsonl", "main", 10**9, redactor)
    hit_format = HitFormat("tp-1", PLACE, redactor.redact_text)
    (report_call, number) = call_row(1)
    rows = [
        (0, 5.0, nodeid, 7, 1, "m"),
        (lambda row: {**report_call(row), "nodeid": nodeid}, number),
        (lambda row: {**report_call(row), "nodeid": None}, number),
    ]
    writer.write(writer.lines(5.0, Batch(rows, {}, {0: hit_format})))
    autopsy = {"siblings": [{"nodeid": nodeid, "of": (1, None, True)}], nodeid: 2.5}
    failed = PhaseReported(nodeid, "call", "failed", "failed", 0.1, autopsy=autopsy)
    writer.write(writer.lines(5.0, failed))
    writer.close()
    lines = [json.loads(each.text) for each in raw_lines(tmp_path)]
    (name,) = {each["nodeid"] for each in lines} - {None}
    assert name.startswith("test_it.py::test_x[<redacted:env:DEPLOY_TOKEN#")
    reported = {"siblings": [{"nodeid": name, "of": [1, None, True]}], name: 2.5}
    assert lines[3]["autopsy"] == reported


def test_what_can_not_be_written_for_now_is_written_later(part: Part) -> None:
    """The program has closed the file, and there is no descriptor left to open it again."""
    part.say(FAILED)
    away = part.path.with_suffix(".away")
    os.close(part.writer._file.number)
    part.path.rename(away)
    part.say(FINISHED)
    part.say(WARNED)
    away.rename(part.path)
    part.say(Departed())
    part.writer.close()
    assert part.writer.error is None
    reported = ["test_phase", "test_outcome", "warning", "worker_down"]
    assert [each["type"] for each in part.lines] == reported


def test_what_can_never_be_written_is_reported(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    part.say(FAILED)
    os.close(part.writer._file.number)
    part.path.unlink()
    part.say(FINISHED)
    part.writer.close()
    assert part.writer.error == "the program has closed its file"
    monkeypatch.setattr(writer_module, "MOST_WAITING", 10)
    other = Part(part.path.parent)
    os.close(other.writer._file.number)
    other.path.unlink()
    other.say(FINISHED)
    assert other.writer.error == "No such file or directory"
    other.writer.close()
