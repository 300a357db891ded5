"""Makes the folder of a run, and puts together what its processes wrote when it is over.

Lines stay as they were written: of each process in its order, of several by their time. Whoever
opens a record does the same with parts that nobody put together (`reader`).
"""

from __future__ import annotations

import heapq
import re
import sys
import time
from collections.abc import Iterable
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from typing import NamedTuple

from pytest_cideldill.record.database import remove
from pytest_cideldill.record.database import settle
from pytest_cideldill.record.database import sqlite3
from pytest_cideldill.record.format import EVENTS
from pytest_cideldill.record.format import OBJECTS
from pytest_cideldill.record.format import PART
from pytest_cideldill.record.format import PART_OBJECTS
from pytest_cideldill.record.format import RUN
from pytest_cideldill.record.store import CIDStore

_HEAD: Final = re.compile(rb'\{"n":(\d+),"ts":([^,]+),"type":"(\w+)","worker":"([^"]*)"')


class Raw(NamedTuple):
    """A line as it was written; lines compare as they are to be read.

    Attributes:
        at: Its time, or that of a line before it of the same process, if that is later.
        worker: Its process.
        n: Its number there.
        type: What it is.
        text: All of it, with the line feed.
    """

    at: float
    worker: bytes
    n: int
    type: bytes
    text: bytes


def run_folder(record: Path, run_id: str) -> Path:
    """The folder of a run that begins now; whoever writes there makes it."""
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return record / f"{RUN}{began}-{run_id}"


def merge_run(folder: Path) -> None:
    """Put the parts of a run together; they go when all of it is there.

    Raises:
        OSError: The disk is full, say; the parts stay.
    """
    parts = sorted(folder.glob(f"*{PART}"))
    if len(parts) == 1 and not (folder / EVENTS).exists():
        parts[0].replace(folder / EVENTS)
    elif parts:
        unfinished = folder / f"{EVENTS}.tmp"
        with unfinished.open("wb") as file:
            file.writelines(each.text for each in raw_lines(folder))
        unfinished.replace(folder / EVENTS)
        for each in parts:
            each.unlink()
    _merge_objects(folder)


def raw_lines(folder: Path) -> Iterator[Raw]:
    """All lines of a run in order, whether it was put together or not.

    A last line that was cut off when its process was killed is left out, and so is what is no line.

    Raises:
        OSError: A file can't be read.
    """
    paths = [*sorted(folder.glob(EVENTS)), *sorted(folder.glob(f"*{PART}"))]
    with ExitStack() as files:
        opened = [files.enter_context(path.open("rb")) for path in paths]
        yield from heapq.merge(*map(_in_order, opened))


def _in_order(lines: Iterable[bytes]) -> Iterator[Raw]:
    """Each process's lines keep their order, though their times may not."""
    latest: dict[bytes, float] = {}
    for text in lines:
        head = _HEAD.match(text)
        if head is None or not text.endswith(b"}\n"):
            continue
        n, ts, type, worker = head.groups()
        at = latest[worker] = max(float(ts), latest.get(worker, 0.0))
        yield Raw(at, worker, int(n), type, text)


def _merge_objects(folder: Path) -> None:
    parts = sorted(folder.glob(f"*{PART_OBJECTS}"))
    if sqlite3 is None or not parts:
        return
    # Whoever wrote the parts has seen to the limits.
    whole = CIDStore(folder / OBJECTS, max_bytes=sys.maxsize, max_object_bytes=sys.maxsize)
    merged = [whole.merge(part) for part in parts]
    whole.close()
    try:
        settle(whole.path)
    except (sqlite3.Error, ValueError) as error:
        raise OSError(str(error)) from error
    for part, each in zip(parts, merged, strict=True):
        if each.is_complete:
            remove(part)
