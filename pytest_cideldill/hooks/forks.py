"""Experiments in forks of a process that has collected: its imports are made once for all.

The process itself runs no test. It is ended like any other of a question, by signals to its group,
to which its forks belong: it then makes no further ones and waits for those that are there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, Final

import pytest

from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.experiments.loading import Loading, has_orphans, own_files
from pytest_cideldill.hooks.guest import say
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.interpreter.borders import passes, text_of
from pytest_cideldill.protocol.trace_rows import Fork, TraceRequest

_FAILED: Final = 70
"""Exit status of a fork in which our part failed: it has no `end`, and so counts for nothing."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Change = Callable[[pytest.Config, TraceRequest], None]
"""Makes the changes of a request, in a process whose tests are there."""


class Forks:
    """Forks the process once per experiment.

    Args:
        request: With the forks.
        rows: Those of the process; in a fork its own.
        change: Called in each fork.
    """

    def __init__(self, request: TraceRequest, rows: RowFile, host: Host, change: Change) -> None:
        self.host = host
        self._request, self._rows, self._change = request, rows, change
        self._forks = [Fork(**fork) for fork in request.forks]
        import pytest_cideldill.hooks.experiment  # noqa: F401 - once for all forks

        self._loading = Loading()
        self._running: set[int] = set()
        self._is_stopped = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """True in the process itself, whose session is over then; None in a fork."""
        self._loading.end()
        try:
            why = "tests could not be collected" if session.testsfailed else self._obstacle()
            if why:
                self._rows.add(["unforked", -1, why])
                return True
            return self._fork_all(session)
        finally:
            self._rows.flush()

    def _obstacle(self) -> str:
        if any(signal.getsignal(each) is None for each in _SIGNALS):
            return "signals are handled by other code than Python's"
        return self._loading.obstacle([self._rows.number])

    def _fork_all(self, session: pytest.Session) -> bool | None:
        self._rows.flush()
        with open(self._request.file, "rb") as stream:
            head = stream.read()
        for item in session.items[:1]:  # what this process does now
            self._rows.add(["test", self.host.lens.nodeids.shown(item.nodeid)])
            self._rows.flush()
        handlers = {each: signal.signal(each, self._stop) for each in _SIGNALS}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            mine = self._fork_each(mask)
        finally:
            for each, handler in handlers.items():
                signal.signal(each, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if mine is None:
            return True
        try:
            self._begin(mine, head, session.config)
        except Exception as error:
            if passes(error):
                raise
            say(f"pytest-cideldill: a fork failed: {text_of(error)}")
            os._exit(_FAILED)
        return None

    def _fork_each(self, mask: set[Any]) -> Fork | None:
        """None in this process, when all forks are gone; in a fork what it is to do."""
        random = sys.modules.get("random")  # the program's: not ours, which is a copy
        state = None if random is None else random.getstate()
        for number, fork in enumerate(self._forks):
            if late := [place for place in fork.places if self._loading.ran(*place)]:
                self._rows.add(["unforked", number, f"{late[0][0]} ran before the tests"])
                continue
            while len(self._running) >= max(1, self._request.beside):
                self._wait()
            if self._is_stopped:
                break
            sys.stdout.flush()
            sys.stderr.flush()
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # a fork has the handlers for now
            if (pid := os.fork()) == 0:
                if random is not None:
                    random.setstate(state)  # Python has set another one, also of a seeded generator
                return fork
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._running.add(pid)
        while self._running:
            self._wait()
        return None

    def _wait(self) -> None:
        """Wait for the end of a fork."""
        pid, _ = os.waitpid(-1, 0)
        self._running.discard(pid)
        if not self._is_stopped and has_orphans():
            self._is_stopped = True
            self._rows.add(["unforked", -1, "a test left a process behind"])

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """The group is ended: forks end by themselves, or are killed with this process."""
        self._is_stopped = True

    def _begin(self, fork: Fork, head: bytes, config: pytest.Config) -> None:
        """In a fork.

        Raises:
            OSError, SourceUnavailable, ValueError: It can't be made.
        """
        own_files([self._rows.number])
        with open(fork.file, "ab") as stream:
            stream.write(head)
        self._rows.go_on_in(fork.file)
        self._change(config, replace(self._request, changes=fork.changes, forks=[]))
