"""The files that a process under test writes for others: its objects, and its last position."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cideldill.hooks.guest import clean_up
from pytest_cideldill.link.handshake import Invitation
from pytest_cideldill.protocol.current_test_file import PositionFile
from pytest_cideldill.records.format import PART_OBJECTS, part

if TYPE_CHECKING:
    from pytest_cideldill.context import Identity


def objects_path(config: pytest.Config, invitation: Invitation, identity: Identity) -> str:
    """Where the objects of this process are kept."""
    if invitation.record is not None:
        return str(part(Path(invitation.record), identity.worker, os.getpid(), PART_OBJECTS))
    directory = invitation.directory or _own_directory(config)
    return os.path.join(directory, f"{identity.prefix}.{os.getpid()}.objects")


def _own_directory(config: pytest.Config) -> str:
    """For objects of a process on another machine, which are found only as long as it lives."""
    try:
        directory = tempfile.mkdtemp(prefix="cideldill-")
    except OSError:
        return os.devnull  # nothing can be stored there
    clean_up(config, "removing objects", partial(shutil.rmtree, directory, ignore_errors=True))
    return directory


def position_file(invitation: Invitation, worker: str) -> PositionFile | None:
    path = invitation.file(worker, "position")
    try:
        return None if path is None else PositionFile(path)
    except (OSError, ValueError):
        return None  # a full disk: only the place of a crash is lost
