"""What was tried: experiments, and changes by force in runs, each with what became of it.

Kept in memory for `debug_state`, and as JSON lines in files for `cideldill tried`: one for each
project in the user's folder for states, and `tried.jsonl` in a record. A file that can't be written
is left out: what was tried is no reason to fail.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

OF_RECORD: Final = "tried.jsonl"
"""The file in a record."""

MOST: Final = 20
"""Lines of `debug_state`."""

_KEPT: Final = 500
"""Entries of a file, and of the memory."""

_LARGE: Final = 4 * _KEPT * 300
"""Bytes of a file that is cut to its newest entries."""

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Tried:
    """One thing that was tried.

    Attributes:
        at: Epoch seconds.
        what: In words.
        nodeid: The test.
        verdict: What became of it: `✗→✓`, `passed`, … with the reason; empty: not known yet.
    """

    at: float
    what: str
    nodeid: str
    verdict: str

    @property
    def line(self) -> str:
        """`14:03:22  fix  ✗→✓ tests/test_cart.py::test_total`."""
        moment = time.strftime("%H:%M:%S", time.localtime(self.at))
        parts = (self.what, self.verdict or "not over yet", self.nodeid)
        return "  ".join([moment, *(" ".join(part.split()) for part in parts)])[:_LONGEST]


class Ledger:
    """What was tried in the life of this process. On the event loop; `save` writes beside it.

    Args:
        files: Where it is kept besides, by the time of the call.
        redact: Takes secrets out of a text.
    """

    def __init__(
        self, files: Callable[[], Iterable[Path]], redact: Callable[[str], str] = str
    ) -> None:
        self._files = files
        self._redact = redact
        self._all: list[Tried] = []
        self._unsaved: list[Tried] = []
        self._open: list[tuple[Tried, Callable[[], str]]] = []

    def add(self, what: str, nodeid: str, verdict: str) -> None:
        """Add what was tried, and what became of it; then `save`."""
        self._keep([Tried(time.time(), self._redact(what), nodeid, self._redact(verdict))])

    async def save(self) -> None:
        """Write what is new into the files; in a thread, as they may be far away."""
        self.settle()
        entries, self._unsaved = self._unsaved, []
        if entries:
            await asyncio.to_thread(self._write, entries)

    def add_open(self, what: str, nodeid: str, verdict: Callable[[], str]) -> None:
        """Add what was tried in a run that goes on.

        Args:
            verdict: What became of the test, asked for later; empty until it is over.
        """
        self.settle()
        self._open.append((Tried(time.time(), self._redact(what), nodeid, ""), verdict))

    def settle(self) -> None:
        """Ask for verdicts that were open."""
        left, known = [], []
        for tried, ask in self._open:
            if verdict := ask():
                known.append(Tried(tried.at, tried.what, tried.nodeid, self._redact(verdict)))
            else:
                left.append((tried, ask))
        self._open = left
        self._keep(known)

    def lines(self, most: int = MOST) -> list[str]:
        """One for each, newest first."""
        self.settle()
        every = sorted([*self._all, *(tried for tried, _ in self._open)], key=attrgetter("at"))
        return [each.line for each in reversed(every[-most:])]

    def _keep(self, entries: Sequence[Tried]) -> None:
        self._all = [*self._all, *entries][-_KEPT:]
        self._unsaved += entries

    def _write(self, entries: Sequence[Tried]) -> None:
        for file in self._files():
            _append(file, entries)


def _append(file: Path, entries: Iterable[Tried]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > _LARGE:
            kept = read(file)[-_KEPT:]
            _write(file, os.O_TRUNC, kept)
        _write(file, os.O_APPEND, entries)
    except OSError:
        return


def _write(file: Path, how: int, entries: Iterable[Tried]) -> None:
    text = "".join(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in entries)
    number = os.open(file, os.O_WRONLY | os.O_CREAT | how, 0o600)
    with open(number, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)


def read(file: Path) -> list[Tried]:
    """The entries of a file, oldest first; lines that are none are left out.

    Raises:
        OSError: It can't be read.
    """
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            plain: Any = json.loads(line)
            texts = (str(plain[name]) for name in ("what", "nodeid", "verdict"))
            found.append(Tried(float(plain["at"]), *texts))
        except (ValueError, TypeError, KeyError):
            continue
    return sorted(found, key=attrgetter("at"))


def file_of_project(rootdir: str) -> Path:
    """Where it is kept what was tried in a project: in the user's folder for states."""
    name = hashlib.sha256(os.path.realpath(rootdir).encode("utf-8", "surrogateescape")).hexdigest()
    return _states() / "cideldill" / f"tried-{name[:16]}.jsonl"


def _states() -> Path:
    """By the XDG specification; on Windows the folder for local data, on macOS the library's."""
    if given := os.environ.get("XDG_STATE_HOME"):
        return Path(given)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / ".local" / "state"
