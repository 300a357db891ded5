"""Finds the runs of a record, and refuses what this version can't read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pytest_cideldill.interpreter.untrusted_files import is_regular, read_bounded
from pytest_cideldill.records.format import (
    EVENTS,
    FORMAT,
    MANIFEST,
    OBJECTS,
    PART,
    RUN,
    Line,
    parts_of_objects,
)
from pytest_cideldill.records.merge import raw_lines


class NoRecord(ValueError):
    """A folder is not a record that this version can read; the message says why."""


def run_folders(record: Path) -> list[Path]:
    """The folders of the runs in a record, oldest first; of a folder of one run, that.

    Raises:
        NoRecord: There is none, or it is of a newer version.
    """
    if not record.is_dir():
        raise NoRecord(f"{record} is no folder")
    real = os.path.realpath(record)
    inside = (
        path
        for path in sorted(record.glob(f"{RUN}*"))
        if os.path.dirname(os.path.realpath(path)) == real
    )
    paths = [path for path in inside if _has_events(path)]
    if not paths and _has_events(record):
        paths, record = [record], record.parent
    if not paths:
        raise NoRecord(
            f"{record} holds no recorded run; pytest --cideldill-record={record} makes one"
        )
    refuse_newer(record)
    for path in paths:
        _refuse(path, _version_of_run(path))
    return paths


def refuse_newer(record: Path) -> None:
    """See to it that this version knows the format of a record; of one that is empty, too.

    Raises:
        NoRecord: It does not.
    """
    _refuse(record, _version(record / MANIFEST))


def object_files(run: Path) -> list[Path]:
    """The stores of a run's objects, put together or not."""
    return [path for path in (*run.glob(OBJECTS), *parts_of_objects(run)) if is_regular(path)]


def _has_events(folder: Path) -> bool:
    return is_regular(folder / EVENTS) or any(map(is_regular, folder.glob(f"*{PART}")))


def _refuse(folder: Path, version: int) -> None:
    if version > FORMAT:
        raise NoRecord(
            f"{folder} has format {version}, and this pytest-cideldill reads up to {FORMAT}: "
            "upgrade it"
        )


def _version_of_run(run: Path) -> int:
    """By what its first process says, as a run may be sent without its record."""
    first = next(raw_lines(run), None)
    try:
        return FORMAT if first is None else int(Line.decoded(first.text).values["format"])
    except (ValueError, KeyError, TypeError):
        return FORMAT


def _version(manifest: Path) -> int:
    try:
        version = json.loads(read_bounded(manifest))["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return FORMAT  # a run that was killed has none
    return version if type(version) is int else FORMAT
