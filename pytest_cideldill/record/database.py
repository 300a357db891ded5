"""The SQLite file that holds objects: opened, prepared, and left alone after a fork.

Standard library only, and less than that where Python was built without sqlite3.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Final

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import sqlite3
    except ImportError:  # some builds of Python have none
        sqlite3 = None

__all__ = ["connect", "is_rolled_back", "never_close", "number", "remove", "settle", "sqlite3"]

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    cid BLOB PRIMARY KEY, description BLOB NOT NULL, data BLOB
)"""

# Others than this process read while it writes, and it may be killed at any moment: a write-ahead
# log stands both. No fsync: it is the process that may die, not the machine.
_WRITING: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 50",
)
_READING: Final = ("PRAGMA busy_timeout = 500",)


def connect(path: Path, *, is_reader: bool) -> sqlite3.Connection | None:
    """The file, opened; made if there is none, unless to read.

    Returns:
        None: there is nothing to read yet.

    Raises:
        sqlite3.Error, OSError, ValueError: It can't be opened, or is of a newer version.
    """
    if is_reader and not os.path.exists(path):
        return None
    if not is_reader:  # SQLite would give it the rights that the umask leaves
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        f"{_uri(path)}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # the I/O thread is another one after a fork
    )
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
        return version > 0
    connection.execute(_SCHEMA)
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    return True


def settle(path: Path) -> None:
    """Make a store that nobody has open one file, which a disk that takes no writes can hold.

    Raises:
        sqlite3.Error, OSError: It can't be opened, or written.
    """
    connection = connect(path, is_reader=False)
    if connection is not None:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()


def remove(path: Path) -> None:
    """Remove the file of a store and what SQLite keeps beside it."""
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):  # gone, or open somewhere
            path.with_name(path.name + ending).unlink()


def number(connection: sqlite3.Connection, query: str) -> int:
    """The one number that a query gives.

    Raises:
        sqlite3.Error: See there.
    """
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
