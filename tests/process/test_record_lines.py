"""Lines of a record: every message that is written comes back, in order, whatever was cut off."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.protocol import Hello
from pytest_cideldill.records.format import EVENTS, PART, Line, line_of, part
from pytest_cideldill.records.manifest import summarize, write_manifest, write_summaries
from pytest_cideldill.records.merge import merge_run, raw_lines, run_folder
from pytest_cideldill.records.reader import NoRecord, refuse_newer, run_folders
from tests.each_case import for_each
from tests.record_schema import ROWS, written
from tests.wire.test_wire import messages

# --- one line -----------------------------------------------------------------------------------


def made_whole(message: Any) -> Any:
    """With what the objects in it must have."""
    parts = {"exception": {"type": "", "message": ""}, "location": {"file": "", "line": 1}}
    found = {name: part for name, part in parts.items() if getattr(message, name, None) is not None}
    return dataclasses.replace(message, **found)


@for_each("type", written())
def test_every_kind_comes_back_as_it_was_said(type: str) -> None:
    """By its type, with the worker that told it; one line of ASCII."""
    for message in map(made_whole, messages(written()[type])):
        worker = message.worker if isinstance(message, Hello) else "gw1"
        line = line_of(3, 5.5, worker, message)
        text = line.text.encode("ascii")
        assert text.endswith(b"}\n")
        assert text.count(b"\n") == 1
        assert line.type == type
        read = Line.decoded(text)
        assert read == line
        assert (read.n, read.worker) == (3, worker)
        assert read.message == message
        assert list(json.loads(text))[:4] == ["n", "ts", "type", "worker"]


def test_what_is_none_is_left_out() -> None:
    """Lines are many."""
    for cls in written().values():
        plain = json.loads(line_of(1, 1.0, "main", next(messages(cls))).text)
        assert None not in plain.values()


@for_each(
    "text",
    [
        b"",
        b"\n",
        b"null\n",
        b"[]\n",
        b"3\n",
        b"{}\n",
        b'{"n":1,"ts":1.0,"type":"hit"}\n',
        b'{"n":1,"ts":1.0,"type":"hit","worker":"main"',
        b'{"n":1,"ts":"soon","type":"hit","worker":"main"}\n',
        b"\xff\xfe{}\n",
        b'{"n":1,"ts":null,"type":"hit","worker":"main"}\n',
        b"[" * 100_000,
    ],
)
def test_what_is_no_line_is_shown_as_such(text: bytes) -> None:
    """`ValueError`, and nothing else."""
    with pytest.raises(ValueError, match=r"."):
        Line.decoded(text)


@pytest.mark.parametrize(
    ("worker", "name"),
    [
        ("main", "main-7"),
        ("gw0", "gw0-7"),
        ("../../etc/x y", ".._.._etc_x_y-7"),
        ("a/b\\c:d", "a_b_c_d-7"),
        ("größe", "größe-7"),
    ],
)
def test_the_name_of_a_worker_stays_within_the_folder(
    tmp_path: Path, worker: str, name: str
) -> None:
    """Whatever it is called."""
    assert part(tmp_path, worker, 7) == tmp_path / f"{name}{PART}"


# --- files --------------------------------------------------------------------------------------


def line(n: int, ts: float, worker: str = "main", type: str = "warning", **values: Any) -> bytes:
    """One of a file; of a type that is no row if nothing else is said."""
    reported = {"message": f"{worker} {n}"} if type == "warning" else {}
    return Line(n, ts, type, worker, {**reported, **values}).text.encode()


def write(folder: Path, worker: str, *lines: bytes, pid: int = 7) -> Path:
    path = part(folder, worker, pid)
    path.write_bytes(b"".join(lines))
    return path


def reported(folder: Path) -> list[tuple[str, int]]:
    """Worker and number of each line, in order."""
    lines = [Line.decoded(each.text) for each in raw_lines(folder)]
    return [(each.worker, each.n) for each in lines]


def test_the_names_of_runs_are_in_their_order(tmp_path: Path) -> None:
    """Runs of quick tests begin several times in a second; their ids are drawn at random."""
    moments = [1_769_851_800 + after for after in (0.0, 0.001, 0.999, 1.0, 1.5)]
    names = [run_folder(tmp_path, f"c{9 - n}", at).name for n, at in enumerate(moments)]
    assert names == sorted(names)
    assert names[-1] == "run-20260131T093001.500Z-c5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "rec" / "run-20260101T000000Z-c1"
    made.mkdir(parents=True)
    return made


def test_one_part_becomes_the_file_of_all(folder: Path) -> None:
    """It is not written again."""
    path = write(folder, "main", line(1, 1.0), line(2, 2.0))
    inode = path.stat().st_ino
    merge_run(folder)
    assert (folder / EVENTS).stat().st_ino == inode
    assert [each.name for each in folder.iterdir()] == [EVENTS]


def test_several_parts_are_merged_by_time_and_in_the_order_of_each(folder: Path) -> None:
    """Clocks of processes may differ, and a call is told when it ends, by its start."""
    write(folder, "main", line(1, 1.0), line(2, 5.0), line(3, 6.0))
    write(folder, "gw0", line(1, 2.0, "gw0"), line(2, 7.0, "gw0"), line(3, 1.5, "gw0"))
    write(folder, "gw1", line(1, 5.5, "gw1"), line(2, 5.0, "gw1"), line(3, 8.0, "gw1"))
    order = [
        ("main", 1), ("gw0", 1), ("main", 2), ("gw1", 1), ("gw1", 2), ("main", 3),
        ("gw0", 2), ("gw0", 3), ("gw1", 3),
    ]  # fmt: skip
    assert reported(folder) == order
    merge_run(folder)
    assert reported(folder) == order
    assert [each.name for each in folder.iterdir()] == [EVENTS]


def test_what_is_put_together_is_for_the_same_eyes_as_the_parts(folder: Path) -> None:
    """Whatever the umask leaves to others."""
    write(folder, "main", line(1, 1.0))
    write(folder, "gw0", line(1, 2.0, "gw0"))
    before = os.umask(0)
    try:
        merge_run(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / EVENTS).stat().st_mode) == 0o600


def test_the_order_within_each_process_is_exact(folder: Path) -> None:
    """Whatever the times are."""
    chance = random.Random(7)
    workers = ["main", "gw0", "gw1", "gw2"]
    for worker in workers:
        write(folder, worker, *(line(n, chance.random() * 9, worker) for n in range(1, 200)))
    for _ in range(2):
        found = reported(folder)
        for worker in workers:
            assert [n for name, n in found if name == worker] == list(range(1, 200))
        merge_run(folder)


def test_a_last_line_that_was_cut_off_is_left_out(folder: Path) -> None:
    """At every byte; the line feed is what makes it a line."""
    whole, last = line(1, 1.0), line(2, 2.0)
    for size in range(len(last)):
        write(folder, "main", whole, last[:size])
        assert reported(folder) == [("main", 1)]
    write(folder, "main", whole, last)
    assert reported(folder) == [("main", 1), ("main", 2)]


GARBAGE = [b"\n", b"garbage\n", b"\x00\xff\n", b"{}\n", b'{"n":1}\n', b"[" * 5_000 + b"\n"]


def test_garbage_between_lines_is_left_out(folder: Path) -> None:
    """And what a disk took of a line before it was full."""
    cut = line(2, 2.0)[:-30] + b" \n"
    parts = itertools.chain.from_iterable(
        (line(n, float(n)), each) for n, each in enumerate([*GARBAGE, cut], 1)
    )
    write(folder, "main", *parts, b"\xff" * 100_000)
    assert reported(folder) == [("main", n) for n in range(1, len(GARBAGE) + 2)]
    merge_run(folder)
    assert summarize(folder).events == len(GARBAGE) + 1


def test_a_damaged_line_that_looks_like_one_stops_nothing(folder: Path) -> None:
    """It can't be decoded, and is passed over."""
    damaged = b'{"n":2,"ts":2.0,"type":"test_outcome","worker":"main",}}\n'
    hello = line(1, 1.0, type="warning")
    write(folder, "main", hello, damaged, line(3, 3.0, type="run_finished", exit_code=3))
    assert summarize(folder).exit_code == 3


def test_parts_that_a_killed_run_left_are_read_and_merged(folder: Path) -> None:
    """By whoever opens it; the one that was put together counts, not the parts beside it."""
    write(folder, "main", line(1, 1.0), line(2, 2.0)[:-9])
    write(folder, "gw0", line(1, 1.5, "gw0"))
    assert run_folders(folder.parent) == run_folders(folder) == [folder]
    (folder / f"{EVENTS}.tmp").write_bytes(line(1, 1.0)[:10])  # killed while putting together
    assert reported(folder) == [("main", 1), ("gw0", 1)]
    kept = [path.read_bytes() for path in sorted(folder.glob(f"*{PART}"))]
    merge_run(folder)
    write(folder, "main", kept[1])  # killed before all parts were removed
    assert reported(folder) == [("main", 1), ("gw0", 1)]
    merge_run(folder)
    assert reported(folder) == [("main", 1), ("gw0", 1)]
    assert [each.name for each in folder.iterdir()] == [EVENTS]


def test_an_empty_run_is_merged(folder: Path) -> None:
    """Nothing was told, nothing breaks."""
    merge_run(folder)
    assert reported(folder) == []
    write(folder, "main")
    merge_run(folder)
    assert reported(folder) == []


# --- summaries ----------------------------------------------------------------------------------

HELLO: dict[str, Any] = {
    "protocol": 1, "run_id": "c1", "pid": 7, "python": "3.12.1", "executable": "python",
    "pytest": "9.0", "rootdir": "/shop", "cwd": "/shop", "argv": [], "engine": {}, "format": 1,
}  # fmt: skip


def hit(n: int, worker: str = "main", **values: Any) -> bytes:
    return line(n, float(n), worker, "hit", **{"breakpoint_id": "tp-1", "message": "m", **values})


@pytest.mark.parametrize("count", [0, 1, 5, 2_000])
def test_hits_are_counted_between_other_lines(folder: Path, count: int) -> None:
    """They are not looked at one by one; texts that look like them are not counted."""
    lines = [line(1, 1.0, type="worker_up", **HELLO)]
    trap = ',"type":"hit","worker":"main"'
    lines += [hit(n, message=trap) for n in range(2, 2 + count)]
    lines += [line(9_001, 9.0, type="warning", message=trap)]
    lines += [hit(9_002), line(9_003, 9.1, type="call", qualified_name="a.b", status=trap)]
    lines += [hit(n) for n in range(9_004, 9_004 + count)]
    lines += [hit(99_999)[:-5]]
    write(folder, "main", *lines)
    summary = summarize(folder)
    assert (summary.hits, summary.calls) == (2 * count + 1, 1)
    assert summary.events == 2 * count + 4


def test_a_summary_reports_what_is_missing(folder: Path) -> None:
    """Rows beyond a limit, what a disk refused, the ends of processes."""
    write(
        folder,
        "main",
        line(1, 1.0, type="worker_up", **HELLO),
        line(4, 2.0, type="dropped", rows={"hit": 2}),
        line(5, 3.0, type="run_finished", exit_code=1),
        line(6, 3.0, type="worker_down"),
    )
    write(
        folder,
        "gw0",
        line(1, 1.0, "gw0", "worker_up", **HELLO),
        line(9, 2.0, "gw0", "dropped", rows={"hit": 5, "test_phase": 1}),
    )
    summary = summarize(folder)
    assert (summary.dropped, summary.cut_off, summary.workers) == (8, ["gw0"], ["gw0", "main"])
    assert (summary.finished_at, summary.exit_code) == (3.0, 1)
    assert summary.sentence.endswith("8 dropped, the end of gw0 is missing")


def test_the_manifest_is_there_before_a_run_is_over(folder: Path) -> None:
    """So that the format of one that is killed is told."""
    write_manifest(folder.parent)
    manifest = folder.parent / "manifest.json"
    assert json.loads(manifest.read_text()) == {
        "format": 1,
        "tool": "pytest-cideldill",
        "runs": [],
    }
    write(folder, "main", line(1, 1.0, type="worker_up", **HELLO))
    write_summaries(folder)
    (run,) = json.loads(manifest.read_text())["runs"]
    assert (run["folder"], run["cut_off"]) == (folder.name, ["main"])
    assert sorted(each.name for each in folder.parent.iterdir()) == ["manifest.json", folder.name]


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ('{"format": 1}', False),
        ('{"format": 2}', True),
        ('{"format": 99}', True),
        ("", False),
        ("garbage", False),
        ("[]", False),
        ('{"format": null}', False),
        ('{"format": [2]}', False),
    ],
)
def test_a_newer_format_is_refused_with_a_sentence(
    folder: Path, text: str, is_refused: bool
) -> None:
    """A manifest that says nothing is no reason."""
    write(folder, "main", line(1, 1.0))
    (folder.parent / "manifest.json").write_text(text)
    for look in (refuse_newer, run_folders):
        if is_refused:
            with pytest.raises(NoRecord, match=r"has format \d+, and this pytest-cideldill reads"):
                look(folder.parent)
        else:
            look(folder.parent)


def test_a_run_of_a_newer_format_is_refused_where_its_record_is_not_there(folder: Path) -> None:
    """It may be sent alone; of several one is enough."""
    write(folder, "main", line(1, 1.0, type="worker_up", **HELLO | {"format": 99}))
    for look in (folder, folder.parent):
        with pytest.raises(NoRecord, match="has format 99, and this pytest-cideldill reads"):
            run_folders(look)


def test_rows_are_no_messages() -> None:
    """The types of the two tables don't overlap."""
    assert not set(ROWS) & set(written())
