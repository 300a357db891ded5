"""The objects that processes kept: a file per process, put together in one per run when it is over.

A thread puts them together, so that the event loop never waits for it; objects are found meanwhile,
on worker threads. Nothing is lost if that thread is stopped or the disk is full: a file goes when
all that it holds is in the other one. Their folder is removed by its owner.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread
from typing import Any
from typing import Final

from pytest_cideldill.record.database import remove
from pytest_cideldill.record.store import CIDStore

STOP_S: Final = 1.0
"""How long the end of the server waits for such a thread, which looks after every few megabytes."""

_SUFFIX: Final = ".objects"


class ObjectFiles:
    """See the module. Called on the event loop, but for `find`.

    Args:
        directory: Where processes keep their objects, as `RUN.WORKER.PID.objects`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._threads: list[Thread] = []
        self._is_closing = False

    def find(self, cid: str) -> tuple[str, dict[str, Any]] | None:
        """Which process kept an object (`r1.main`; `r1` once that is over), and its description.

        On any thread; waits for the disk.
        """
        damaged = None
        seen: list[Path] = []
        while seen != (paths := self._paths()):  # files were put together while they were read
            seen = paths
            for path in paths:
                store = CIDStore(path, is_reader=True)
                description = store.description(cid)
                store.close()
                if not path.exists():
                    remove(path)  # what reading made of it after it was removed
                if description is None:
                    continue
                found = path.name.removesuffix(_SUFFIX).rsplit(".", 1)[0], description
                if "error" not in description:
                    return found
                damaged = found
        return damaged

    def run_is_over(self, run_id: str) -> None:
        """No process of the run writes any more: put its files together, some time."""
        thread = Thread(target=self._work, args=(run_id,), name="cideldill-objects", daemon=True)
        self._threads = [*filter(Thread.is_alive, self._threads), thread]
        thread.start()

    def close(self) -> None:
        """Stop putting together."""
        self._is_closing = True
        for thread in self._threads:
            thread.join(STOP_S)

    def _paths(self) -> list[Path]:
        """All files, those of processes that may be alive first."""
        paths = sorted(self._directory.glob(f"*{_SUFFIX}"), reverse=True)
        return sorted(paths, key=lambda path: path.name.count(".") == 1)

    # --- on the thread ----------------------------------------------------------------------

    def _work(self, run_id: str) -> None:
        parts = sorted(self._directory.glob(f"{run_id}.*{_SUFFIX}"))
        if len(parts) > 1 and not self._is_closing:
            self._put_together(self._directory / f"{run_id}{_SUFFIX}", parts)

    def _put_together(self, path: Path, parts: list[Path]) -> None:
        # Whoever wrote the parts has seen to the limits.
        whole = CIDStore(path, max_bytes=sys.maxsize, max_object_bytes=sys.maxsize)
        merged = [whole.merge(part, lambda: not self._is_closing) for part in parts]
        whole.close()
        for part, each in zip(parts, merged, strict=True):
            if each.is_complete:
                remove(part)
