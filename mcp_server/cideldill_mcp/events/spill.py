"""Events that left memory: encoded lines, in blocks, in a file as far as a disk takes them.

Lives on the event loop. A block is the unit of reading and writing, small enough that neither holds
up the loop. What the disk refuses can be kept in memory instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cideldill_mcp.events.entries import Entry


@dataclass(slots=True)
class Block:
    """The events `first` … `last`, as the lines of entries.

    Attributes:
        per_run: Run id → how many events it holds.
        lines: The lines, when they are not in the file.
        offset: Else where they begin there, and how many bytes they take.
    """

    first: int
    last: int
    per_run: Counter[str] = field(default_factory=Counter)
    types: set[str] = field(default_factory=set)
    lines: bytes | None = None
    offset: int = 0
    size: int = 0

    def count(self, entry: Entry) -> None:
        """Note the run and the types of an entry in it."""
        counts = entry.counts
        self.per_run[entry.run_id] += sum(counts.values())
        self.types.update(counts)


class Spill:
    """Writes and reads blocks. They are added in the order of their numbers and without gaps."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._file: IO[bytes] | None = None
        self._end = 0  # of what was written whole; behind it may be a torn block
        self._blocks: list[Block] = []

    def write(self, block: Block, lines: bytes) -> bool:
        """Add a block to the file; False: the disk did not take it, and nothing was added."""
        if self.path is None:
            return False
        try:
            if self._file is None:
                self._file = self.path.open("w+b", buffering=0)
            self._file.seek(self._end)
            is_whole = self._file.write(lines) == len(lines)
        except OSError:  # full, or the folder is gone: the next block tries again
            return False
        if is_whole:
            block.offset, block.size = self._end, len(lines)
            self._end += len(lines)
            self._blocks.append(block)
        return is_whole

    def keep(self, block: Block, lines: bytes) -> None:
        """Add a block in memory."""
        block.lines = lines
        self._blocks.append(block)

    def behind(self, seq: int) -> Block:
        """The block with the first event behind a number. Raises IndexError: there is none."""
        return self._blocks[bisect_right(self._blocks, seq, key=lambda block: block.last)]

    def read(self, block: Block) -> bytes | None:
        """The lines of a block; None: they can't be read any more."""
        if block.lines is not None:
            return block.lines
        if self._file is None:
            return None
        # By the descriptor that wrote them: it goes on when the folder is removed under us.
        try:
            self._file.seek(block.offset)
            lines = self._file.read(block.size)
        except OSError:
            return None
        return lines if len(lines) == block.size else None

    def close(self) -> None:
        """Close the file; what is added or read from now on fails as on a broken disk."""
        file, self._file, self.path = self._file, None, None
        if file is not None:
            with suppress(OSError):
                file.close()
