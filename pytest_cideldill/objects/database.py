"""The SQLite file that holds objects: opened, prepared, and left alone after a fork.

Standard library only, and less than that where Python was built without sqlite3.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_cideldill.interpreter.untrusted_files import open_inside

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import sqlite3
    except ImportError:  # some builds of Python have none
        sqlite3 = None

__all__ = ["connect", "is_rolled_back", "never_close", "number", "remove", "sqlite3"]

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    cid BLOB PRIMARY KEY, description BLOB NOT NULL, data BLOB
)"""

# Nobody else has the file before it is whole and gets its name (`merge`): so it needs no
# locks, and no file beside it, which some file systems refuse. No fsync: it is the process that may
# die, not the machine.
_WRITING: Final = (
    "PRAGMA journal_mode = MEMORY",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = MEMORY",
)
# Whose file it is nobody knows: nothing in it is run, and nothing is written.
_READING: Final = ("PRAGMA query_only = ON", "PRAGMA trusted_schema = OFF")

_STEPS: Final = 100_000
"""Of SQLite's machine, between two looks at the clock."""


def connect(
    path: Path, *, is_reader: bool, is_over: Callable[[], bool] | None = None
) -> sqlite3.Connection | None:
    """The file, opened; made if there is none, unless to read.

    Args:
        is_reader: Whether it is only read: it may be a stranger's.
        is_over: Asked now and then while a query runs, which fails when it is.

    Returns:
        None: there is nothing to read yet.

    Raises:
        sqlite3.Error, OSError, ValueError: It can't be opened, is of a newer version, or none of
            ours.
    """
    if is_reader:
        if not os.path.exists(path):
            return None
        open_inside(path).close()
    if not is_reader:  # SQLite would give it the rights that the umask leaves
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        f"{_uri(path)}?{'mode=ro&immutable=1' if is_reader else 'mode=rw&nolock=1'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # the I/O thread is another one after a fork
    )
    if is_over is not None:
        connection.set_progress_handler(is_over, _STEPS)
    try:
        is_ready = _prepare(connection, is_reader=is_reader)
    except BaseException:
        connection.close()
        raise
    if not is_ready:
        connection.close()
    return connection if is_ready else None


def _uri(path: Path) -> str:
    """As SQLite reads it. `Path.as_uri` imports what quotes, in the middle of a test."""
    text = os.path.abspath(path).replace(os.sep, "/")
    for special in "%?#":
        text = text.replace(special, f"%{ord(special):02x}")
    return f"file:{text}" if text.startswith("/") else f"file:///{text}"


def _prepare(connection: sqlite3.Connection, *, is_reader: bool) -> bool:
    """Whether it can be used; not so if its process has just made it."""
    for pragma in _READING if is_reader else _WRITING:
        connection.execute(pragma)
    version = number(connection, "PRAGMA user_version")
    if version > _VERSION:
        raise ValueError(f"version {version} of the file is newer than {_VERSION}")
    if is_reader:
        if version > 0 and _schema(connection) != " ".join(_SCHEMA.split()):
            raise ValueError("its table is none of ours")
        return version > 0
    connection.execute(_SCHEMA)
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    return True


def _schema(connection: sqlite3.Connection) -> str:
    """How the table was made; a view or one that computes what it holds is another."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'objects'").fetchone()
    made = " ".join(str(found and found[0]).split())
    return made.replace("CREATE TABLE objects", "CREATE TABLE IF NOT EXISTS objects", 1)


def remove(path: Path) -> None:
    """Remove the file of a store and what SQLite kept beside it, in older versions."""
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):  # gone, or open somewhere
            path.with_name(path.name + ending).unlink()


def number(connection: sqlite3.Connection, query: str) -> int:
    """The one number that a query gives. Raises sqlite3.Error: see there."""
    return int(connection.execute(query).fetchone()[0])


def is_rolled_back(connection: sqlite3.Connection) -> bool:
    """End a transaction that failed; False: it can't be ended."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        return False
    return True


def never_close(connection: sqlite3.Connection) -> None:
    """In a forked child: the file is the parent's, and even closing it here would write to it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
