"""Makes the folder of a run, and puts together what its processes wrote when it is over.

Lines stay as they were written: of each process in its order, of several by their time. The
reader of a record does the same with parts that nobody put together (`reader`).
"""

from __future__ import annotations

import heapq
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pytest_cideldill.interpreter.untrusted_files import (
    is_regular,
    lines_of,
    open_inside,
    replacing,
    rest_of_line,
)
from pytest_cideldill.records.format import EVENTS, OBJECTS, PART, RUN, parts_of_objects
from pytest_cideldill.records.hit_blocks import HIT, HitBlock, Stretch, block_of

_BLOCK: Final = 65_536
# Of moments that a calendar has, as `float` writes them.
_HEAD: Final = re.compile(
    rb'\{"n":\d{1,15},"ts":(\d{1,11}(?:\.\d{1,20})?),"type":"(\w+)","worker":"([^"]*)"'
).match


PassOver = Callable[[], object]


def _nobody() -> None:
    """Nobody counts."""


class Raw(NamedTuple):
    """A line as it was written; lines of different processes compare as they are to be read.

    Attributes:
        at: Its time, or that of a line before it of the same process, if that is later.
        worker: Its process.
        type: What it is.
        text: All of it, with the line feed.
    """

    at: float
    worker: bytes
    type: bytes
    text: bytes


def run_folder(record: Path, run_id: str, began: float) -> Path:
    """The folder of a run that began at these epoch seconds; the writer makes it.

    Its name has milliseconds, as runs are sorted by name and many begin in a second.
    """
    seconds, milliseconds = divmod(round(began * 1000), 1000)
    at = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    return record / f"{RUN}{at}.{milliseconds:03}Z-{run_id}"


def merge_run(folder: Path) -> bool:
    """Put the parts of a run together; they go when all of it is there.

    Returns:
        Whether there was only one, whose lines are where they were.

    Raises:
        OSError: The disk is full, say; the parts stay.
    """
    parts, whole = _parts(folder), folder / EVENTS
    is_alone = len(parts) == 1 and not whole.exists()
    if is_alone:
        parts.pop().replace(whole)
    elif parts and not whole.exists():
        for path in folder.glob(f"{EVENTS}*.tmp"):  # killed while putting together
            path.unlink()
        with replacing(whole, 0o600) as file:  # as the parts are
            file.writelines(line.text for line in raw_lines(folder))
    for part in parts:  # if they were put together before, and left
        part.unlink()
    return is_alone


def merge_kept(folder: Path) -> str | None:
    """The same for its objects; why they stay in the files of its processes, if they do."""
    objects = parts_of_objects(folder)
    if not objects:
        return None
    from pytest_cideldill.objects.merge import merge_objects  # with sqlite3

    why = merge_objects(objects, folder / OBJECTS)
    left = len(parts_of_objects(folder))
    return why and f"objects in {left} file{'' if left == 1 else 's'} of its processes: {why}"


def raw_lines(folder: Path, pass_over: PassOver = _nobody) -> Iterator[Raw]:
    """All lines of a run in order, whether it was put together or not.

    A last line that was cut off when its process was killed is left out.

    Args:
        pass_over: Called for each line that is none of events.

    Raises:
        OSError: A file can't be read.
    """
    with ExitStack() as files:
        opened = [files.enter_context(open_inside(path)) for path in _files(folder)]
        yield from heapq.merge(*(_in_order(lines_of(each), pass_over) for each in opened))


def without_hits(
    folder: Path,
    take_hits: Callable[[HitBlock], object],
    stretches: Sequence[Stretch] = (),
    pass_over: PassOver = _nobody,
) -> Iterator[Raw]:
    """All lines of a run but for hits, of each process in order; quick where there are only hits.

    Args:
        take_hits: Gets the hits instead, one or many at once.
        stretches: Of them in its only file, if they are known; they are not read then.
        pass_over: As for `raw_lines`.

    Raises:
        OSError: A file can't be read.
    """
    for path in _files(folder):
        with open_inside(path) as file:
            for stretch in stretches:
                yield from _between(file, stretch.start, take_hits, pass_over)
                take_hits(stretch.block(path))
                file.seek(stretch.end)
            yield from _between(file, sys.maxsize, take_hits, pass_over)


def _between(
    file: BinaryIO, end: int, take_hits: Callable[[HitBlock], object], pass_over: PassOver
) -> Iterator[Raw]:
    """What is not known yet, up to the byte where a line ends that is."""
    while block := file.read(min(_BLOCK, end - file.tell())):
        block += rest_of_line(file) if block[-1:] != b"\n" else b""
        if block.count(HIT) == block.count(b"\n"):
            take_hits(block_of(block))
            continue
        for each in _in_order(block.splitlines(True), pass_over):
            if each.type == b"hit":
                take_hits(block_of(each.text))
            else:
                yield each


def _files(folder: Path) -> list[Path]:
    whole = folder / EVENTS
    return [path for path in ([whole] if whole.exists() else _parts(folder)) if is_regular(path)]


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{PART}"))


def _in_order(lines: Iterable[bytes], pass_over: PassOver) -> Iterator[Raw]:
    """Each process's lines keep their order, though their times may not."""
    latest: dict[bytes, float] = {}
    made = tuple.__new__  # there may be very many
    for text in lines:
        head = _HEAD(text) if text[-2:] == b"}\n" else None
        if head is None:
            if text[-1:] == b"\n":
                pass_over()
            continue
        ts, type, worker = head.groups()
        at, before = float(ts), latest.get(worker, 0.0)
        if at < before:
            at = before
        latest[worker] = at
        yield made(Raw, (at, worker, type, text))
