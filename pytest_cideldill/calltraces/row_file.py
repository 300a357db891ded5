"""The file of a question's process: takes rows on any thread, writes them in batches.

A process that is killed leaves what was written until then; early rows are written soon, as a test
may hang after a few.
"""

from __future__ import annotations

import json
import os
from _thread import allocate_lock
from functools import partial
from typing import Final

from pytest_cideldill.interpreter.descriptors import HeldFile
from pytest_cideldill.protocol.trace_rows import Row

_MOST: Final = 512
"""Rows of a batch."""

_SHARE: Final = 8
"""A batch has at most this part of all rows before it, so that little is lost."""


plain = partial(json.dumps, separators=(",", ":"))
"""The JSON text of a row, or of a part of one."""


class RowFile:
    """Appends rows to a file that exists already.

    On the hot path they come as JSON text: it takes less time than a list and a later `dumps`, and
    adds nothing that the garbage collector counts.

    Attributes:
        failure: Why nothing is written any more; None while it is.

    Raises:
        OSError: It can't be opened.
    """

    def __init__(self, path: str) -> None:
        self.failure: str | None = None
        self._begin(path)

    def _begin(self, path: str) -> None:
        self._file = HeldFile(path, os.O_WRONLY | os.O_APPEND)
        self._rows: list[str] = []
        self._most = self._count = 0
        self._pid = os.getpid()
        self._lock = allocate_lock()  # only tried: who comes while another one writes goes on

    @property
    def number(self) -> int:
        """Of the open file.

        Raises:
            OSError: The program has closed it.
        """
        return self._file.number

    def add(self, row: Row) -> None:
        self.add_text(plain(row))

    def add_text(self, row: str) -> None:
        """Take the JSON text of a row; on the hot path."""
        rows = self._rows
        rows.append(row)
        if len(rows) > self._most:
            self.flush()

    def flush(self) -> None:
        """Write what there is; a failure is noted, and nothing is written from then on."""
        if not self._lock.acquire(False):
            return
        try:
            rows = self._rows
            batch = rows[: len(rows)]
            del rows[: len(batch)]
            if batch and self.failure is None and os.getpid() == self._pid:
                self._write(batch)
        finally:
            self._lock.release()

    def go_on_in(self, path: str) -> None:
        """In a fork: write what comes from now on into another file.

        Args:
            path: The file; it exists already.

        Raises:
            OSError: It can't be opened.
        """
        self._file.close()
        self._begin(path)

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        self._file.close()

    def _write(self, batch: list[str]) -> None:
        self._count += len(batch)
        self._most = min(self._count // _SHARE, _MOST)
        data = memoryview(f"[{','.join(batch)}]\n".encode())
        try:
            while data:
                data = data[os.write(self._file.number, data) :]
        except OSError as error:
            self.failure = error.strerror or str(error)
