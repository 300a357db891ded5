"""Writing the file of one process, and what it holds then."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_cideldill.protocol.rows import Batch, HitFormat, Row
from pytest_cideldill.records.merge import raw_lines
from pytest_cideldill.records.writer import PartWriter
from pytest_cideldill.redaction.redactor import Redactor

PLACE = {"file": "till.py", "line": 5, "function": "total"}


class Part:
    """A writer, and what its file holds."""

    def __init__(self, folder: Path, max_bytes: int = 10**9) -> None:
        self.redactor = Redactor(environ={}, key=b"key")
        self.path = folder / "main-1.part.jsonl"
        self.writer = PartWriter(self.path, "main", max_bytes, self.redactor)
        self.formats: dict[int, HitFormat] = {}
        self.hit_format = self.of("tp-1")

    def of(self, id: str, *, condition_error: bool = False) -> int:
        """The number of what tells the hits of a tracepoint."""
        hit_format = HitFormat(id, PLACE, self.redactor.redact_text, condition_error)
        number = len(self.formats)
        self.formats[number] = hit_format
        return number

    def hit(self, number: int, text: str = "price=2", moment: float = 5.0) -> Row:
        return (self.hit_format, moment, "t::x", 7, number, text)

    def add(self, *rows: Row, **dropped: int) -> None:
        batch = Batch(list(rows), dropped, self.formats)  # type: ignore[arg-type]
        self.writer.write(self.writer.lines(9.0, batch))

    def say(self, *events: Any) -> None:
        for each in events:
            self.writer.write(self.writer.lines(9.0, each))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(each.text) for each in raw_lines(self.path.parent)]

    def of_type(self, type: str) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["type"] == type]

    def assert_gaps_are_reported(self) -> None:
        """`n` goes up by one and by what was dropped, and lines of type `dropped` tell how many."""
        numbers = [each["n"] for each in self.lines]
        assert numbers == sorted(set(numbers))
        reported = sum(sum(each["rows"].values()) for each in self.of_type("dropped"))
        assert numbers[-1] == len(numbers) + reported


class Disk:
    """Takes so many bytes, and then so many writes fail."""

    def __init__(self, room: int, failures: int = 10**9) -> None:
        self.room, self.failures = room, failures

    def write(self, descriptor: int, text: bytes | memoryview) -> int:
        if self.room == 0 and self.failures > 0:
            self.failures -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = bytes(text[: self.room] if self.failures else text)
        self.room -= len(taken) if self.failures else 0
        return os.write(descriptor, taken)


def system_with(write: Callable[[int, Any], int]) -> SimpleNamespace:
    """What a module has for `os`, with another `write`; the rest of this process keeps its own."""
    return SimpleNamespace(**{**vars(os), "write": write})
