"""Puts the objects of a run's processes together when it is over; `records.merge` does their lines.

In a file of a fresh name that gets its own when it is whole: nobody reads what is not, nobody locks
it, and whatever a disk or a limit refuses meanwhile, the objects are where they were.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_cideldill.interpreter.clock import monotonic, sleep
from pytest_cideldill.objects.database import remove
from pytest_cideldill.objects.store import CIDStore

AGAIN_S: Final = 0.1
LAST_S: Final = 2.0
"""How often and how long it is tried: a disk may be full, or descriptors used up, for a moment."""

_UNFINISHED: Final = ".tmp"


def merge_objects(
    parts: Sequence[Path], path: Path, may_go_on: Callable[[], bool] = lambda: True
) -> str | None:
    """Put the stores of several processes into one; they go when all of it is there.

    Args:
        path: The one, made if need be; what it holds stays in it.
        may_go_on: Asked now and then; if not, all stays as it was.

    Returns:
        Why they stay where they are; None: they don't, but for those that are damaged.
    """
    for left in path.parent.glob(f"{path.name}.*{_UNFINISHED}"):  # killed while putting together
        left.unlink(missing_ok=True)
    until = monotonic() + LAST_S
    while (problem := _merged(parts, path, may_go_on)) is not None:
        if not may_go_on() or monotonic() > until:
            break
        sleep(AGAIN_S)
    return problem


def _merged(parts: Sequence[Path], path: Path, may_go_on: Callable[[], bool]) -> str | None:
    unfinished = path.with_name(f"{path.name}.{os.urandom(6).hex()}{_UNFINISHED}")
    # The processes that wrote the parts have kept the limits.
    whole = CIDStore(unfinished, max_bytes=sys.maxsize, max_object_bytes=sys.maxsize)
    before = [path] if path.exists() else []
    merged = [(part, whole.merge(part, may_go_on)) for part in [*before, *parts]]
    whole.close()
    problem = whole.problem if may_go_on() else "there was no time"
    try:
        # An earlier one that can't be read to its end stays what it is.
        if problem is None and all(each.is_complete for part, each in merged if part == path):
            if unfinished.exists():  # else no process has kept any
                unfinished.replace(path)
            for part, each in merged:
                if each.is_complete and part != path:
                    remove(part)
    except OSError as error:
        problem = error.strerror or str(error)
    with suppress(OSError):
        unfinished.unlink()
    return problem
