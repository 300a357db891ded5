"""Collects the output of one thread from `sys.stdout`, which all threads share.

Runs in the process under test, on the thread that evaluates; output of others is passed on.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class ThreadOutput:
    """Replaces `sys.stdout`: collects the output of one thread, passes on that of the others."""

    def __init__(self, under: Any, most: int) -> None:
        self.under = under
        self._ident: int | None = get_ident()
        self._parts: list[str] = []
        self._left = most
        self._lost = 0

    @property
    def is_closed(self) -> bool:
        """Whether everything is passed on."""
        return self._ident is None

    def close(self) -> None:
        """Pass everything on from now."""
        self._ident = None

    def text(self) -> str:
        """The collected text, with a notice of the characters that were left out."""
        notice = f"… +{self._lost} chars" if self._lost else ""
        return "".join(self._parts) + notice

    def write(self, text: str) -> int:
        """Collect or pass on, like a text stream."""
        if get_ident() != self._ident:
            written: int = self.under.write(text)
            return written
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        kept = text[: self._left]
        self._parts.append(kept)
        self._left -= len(kept)
        self._lost += len(text) - len(kept)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Collect or pass on, like a text stream."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


@contextmanager
def collected_stdout(most: int) -> Iterator[ThreadOutput]:
    """Collect the output of this thread inside the block, at most `most` characters."""
    streams: Any = sys.modules["sys"]  # the program's own module: ours is a view of it
    ours = ThreadOutput(streams.stdout, most)
    streams.stdout = ours
    try:
        yield ours
    finally:
        ours.close()
        # Only if it is still ours: the code, pytest's capture or another evaluation may have put
        # something else there. Evaluations that ended out of order are stepped over.
        current: Any = streams.stdout
        while type(current) is ThreadOutput and current.is_closed:
            current = current.under
        streams.stdout = current
