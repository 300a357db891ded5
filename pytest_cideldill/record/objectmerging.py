"""Puts the objects of a run's processes together when it is over; `merging` does their lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_cideldill.record.database import remove
from pytest_cideldill.record.database import settle
from pytest_cideldill.record.database import sqlite3
from pytest_cideldill.record.store import CIDStore


def merge_objects(parts: Sequence[Path], path: Path) -> None:
    """Put the stores of several processes into one; they go when all of it is there.

    Args:
        parts: The stores.
        path: The one, made if need be.

    Raises:
        OSError: It can't be written.
    """
    if sqlite3 is None:
        return
    # Whoever wrote the parts has seen to the limits.
    whole = CIDStore(path, max_bytes=sys.maxsize, max_object_bytes=sys.maxsize)
    merged = [whole.merge(part) for part in parts]
    whole.close()
    try:
        if path.exists():  # else no process has kept any
            settle(path)
    except (sqlite3.Error, ValueError) as error:
        raise OSError(str(error)) from error
    for part, each in zip(parts, merged, strict=True):
        if each.is_complete:
            remove(part)
