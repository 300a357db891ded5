"""Owns the set of threads that evaluate for a client: their events are not those of the test.

Runs in the process under test. Event sources read the set on the thread that hit; the thread that
evaluates writes it. Must not know probes, pauses or the code that is evaluated.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What `Thread.start` calls: a private name of `threading`, another one from 3.13 on.
_STARTERS = ("_start_joinable_thread", "_start_new_thread")


class EvaluationGuard:
    """The set of threads that evaluate, with the threads that an evaluation starts.

    Guarantees: `is_quiet` takes no lock; a thread writes only its own entry; a thread started (with
    `threading`) by a quiet thread is quiet from its first instruction to its last.
    """

    __slots__ = ("_lock", "_pinned", "_replaced", "depths")

    def __init__(self) -> None:
        # Thread → how deep it is in evaluations. A hot path may enter and leave by itself, at depth
        # 1, with `pin` for the threads that it starts.
        self.depths: dict[int, int] = {}
        # Guards the swap of the thread starter only; no user code runs under it.
        self._lock = allocate_lock()
        self._replaced: tuple[str, Callable[..., Any], Callable[..., Any]] | None = None
        self._pinned = False

    def is_quiet(self) -> bool:
        """Whether the current thread is evaluating, so that nothing may stop or record it."""
        depths = self.depths
        return bool(depths) and get_ident() in depths

    def forget(self) -> None:
        """In a forked child: keep the state of its one thread, drop the rest and unwatch starts."""
        self._lock = allocate_lock()  # another thread of the parent may have held it
        ident = get_ident()
        for each in [depth for depth in self.depths if depth != ident]:
            del self.depths[each]
        self.pin(False)

    def pin(self, pinned: bool) -> None:
        """Set whether quiet threads start quiet ones from now on, also outside of `evaluating`."""
        self._pinned = pinned
        if pinned:
            self._watch_thread_starts()
        else:
            # Also while a hot path is inside: it would not come back to undo this.
            self._unwatch_thread_starts(force=True)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Make the current thread quiet inside the block; re-entrant."""
        ident = get_ident()
        depth = self.depths.get(ident, 0)
        self.depths[ident] = depth + 1
        try:
            self._watch_thread_starts()
            yield
        finally:
            if depth:
                self.depths[ident] = depth
            else:
                self.depths.pop(ident, None)
                self._unwatch_thread_starts()

    def _watch_thread_starts(self) -> None:
        """Let new threads inherit the quiet of the thread that starts them."""
        with self._lock:
            name = next((name for name in _STARTERS if hasattr(threading, name)), None)
            if self._replaced is not None or name is None:
                return
            start: Callable[..., Any] = getattr(threading, name)

            def start_quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                run = self._quietly(function) if self.is_quiet() else function
                return start(run, *args, **kwargs)

            setattr(threading, name, start_quietly)
            self._replaced = (name, start_quietly, start)

    def _unwatch_thread_starts(self, *, force: bool = False) -> None:
        with self._lock:
            if (self.depths and not force) or self._pinned or self._replaced is None:
                return
            name, ours, start = self._replaced
            # Other code wrapped it meanwhile: ours stays underneath and passes everything on.
            if getattr(threading, name) is ours:
                setattr(threading, name, start)
            self._replaced = None

    def _quietly(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.evaluating():
                return function(*args, **kwargs)

        return run
