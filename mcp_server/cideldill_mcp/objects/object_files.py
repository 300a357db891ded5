"""The objects that processes kept: a file per process, put together in one per run when it is over.

A thread puts them together, so that the event loop never waits for it; objects are found meanwhile,
on worker threads. Nothing is lost if that thread is stopped or the disk is full: a file goes when
all that it holds is in the other one. Their folder is removed by its owner.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

from pytest_cideldill.objects.merge import merge_objects
from pytest_cideldill.objects.store import CIDStore
from pytest_cideldill.records.format import OBJECTS, PART
from pytest_cideldill.records.manifest import write_summaries
from pytest_cideldill.records.merge import merge_kept, merge_run
from pytest_cideldill.records.reader import object_files

STOP_S: Final = 1.0
"""How long the end of the server waits for such a thread, which looks after every few megabytes."""

_SUFFIX: Final = ".objects"


class FoundObject(NamedTuple):
    """An object.

    Attributes:
        owner: Which process kept it: `r1.main`; `r1` once that is over.
        is_copied: Whether its pickle was kept, too.
    """

    owner: str
    description: dict[str, Any]
    is_copied: bool


class ObjectFiles:
    """Finds objects in the files of processes and runs. Called on the event loop, but for `find`.

    Args:
        directory: Where processes keep their objects, as `RUN.WORKER.PID.objects`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._threads: list[Thread] = []
        self._is_closing = False
        self._opened: dict[Path, str] = {}  # folder of a recorded run → its id

    def open(self, run_id: str, folder: Path) -> None:
        """Find the objects of a recorded run, too."""
        self._opened[folder] = run_id

    def process_is_gone(self, run_id: str) -> None:
        """The main process of a run: if it was killed, nobody put the record together."""
        for folder, known in self._opened.items():
            if known == run_id and any(folder.glob(f"*{PART}")):
                self._start(self._complete, folder)

    def find(self, cid: str) -> FoundObject | None:
        """An object by its content id. On any thread; waits for the disk."""
        damaged = None
        seen: list[Path] = []
        while seen != (paths := self._paths()):  # files were put together while they were read
            seen = paths
            for path in paths:
                store = CIDStore(path, is_reader=True)
                description = store.description(cid)
                is_copied = description is not None and store.get(cid) is not None
                store.close()
                if description is None:
                    continue
                found = FoundObject(self._owner(path), description, is_copied)
                if "error" not in description:
                    return found
                damaged = found
        return damaged

    def recorded(self, cid: str) -> Path | None:
        """The file of a record that holds an object; waits for the disk."""
        for folder in self._opened:
            for path in object_files(folder):
                store = CIDStore(path, is_reader=True)
                data = store.get(cid)
                store.close()
                if data is not None:
                    return path
        return None

    def run_is_over(self, run_id: str) -> None:
        """No process of the run writes any more: put its files together, some time."""
        self._start(self._work, run_id)

    def _start(self, work: Callable[[Any], None], argument: object) -> None:
        thread = Thread(target=work, args=(argument,), name="cideldill-objects", daemon=True)
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
        paths.sort(key=lambda path: path.name.count(".") == 1)
        return paths + [path for folder in self._opened for path in object_files(folder)]

    def _owner(self, path: Path) -> str:
        known = self._opened.get(path.parent)
        if known is None:
            return path.name.removesuffix(_SUFFIX).rsplit(".", 1)[0]
        return known if path.name == OBJECTS else f"{known}.{path.name.rsplit('-', 1)[0]}"

    # --- on the thread ----------------------------------------------------------------------

    def _work(self, run_id: str) -> None:
        parts = sorted(self._directory.glob(f"{run_id}.*{_SUFFIX}"))
        if len(parts) > 1 and not self._is_closing:
            self._put_together(self._directory / f"{run_id}{_SUFFIX}", parts)

    def _complete(self, folder: Path) -> None:
        with suppress(OSError):  # its parts can be read as they are
            merge_run(folder)
            merge_kept(folder)
            write_summaries(folder)

    def _put_together(self, path: Path, parts: list[Path]) -> None:
        merge_objects(parts, path, lambda: not self._is_closing)
