"""A file that gets the stacks of all threads when C code keeps the interpreter and no Python runs.

The front end sends a signal that does nothing by default; faulthandler answers it in C. Where the
program handles that signal itself there is no such file: nobody would send it to us alone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal

from pytest_cideldill.evaluation.interrupt import getsignal, is_free
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.interpreter.descriptors import HeldFile

_SIGNAL = getattr(signal, "SIGCONT", None)


class StackFile:
    """The file to which faulthandler writes the stacks of all threads at a signal.

    Attributes:
        path: None: this process can't be asked.
    """

    def __init__(self, path: str | None) -> None:
        self.path: str | None = None
        if path is None or _SIGNAL is None or not hasattr(faulthandler, "register"):
            return
        if not is_free(getsignal(_SIGNAL)):
            return
        try:
            self._file = HeldFile(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        except OSError:
            return
        # Python's own table of handlers stays as it is: who looks there finds the default.
        faulthandler.register(_SIGNAL, file=self._file.number, all_threads=True, chain=False)
        self.path = path
        at_fork(after_in_child=self._forget)

    def look(self) -> None:
        """For every phase: withdraw when the program has come to handle the signal itself, or has
        taken the file away and it can't be opened again.
        """
        if self.path is None or _SIGNAL is None:
            return
        if not is_free(getsignal(_SIGNAL)):
            self._withdraw(self.path)
        elif not self._file.is_ours:
            try:
                faulthandler.register(
                    _SIGNAL, file=self._file.number, all_threads=True, chain=False
                )
            except OSError:
                faulthandler.unregister(_SIGNAL)
                self._withdraw(self.path)

    def close(self) -> None:
        """Nobody can ask any more."""
        self.look()
        if self.path is not None and _SIGNAL is not None:
            faulthandler.unregister(_SIGNAL)
            self._withdraw(self.path)

    def _forget(self) -> None:
        """In a forked child: nobody asks it, and a SIGCONT is its own."""
        if self.path is not None and _SIGNAL is not None:
            self.path = None
            faulthandler.unregister(_SIGNAL)
            self._file.close()

    def _withdraw(self, path: str) -> None:
        """The front end asks only while the file is there. Its descriptor stays open: a handler
        that is only covered may come back.
        """
        self.path = None
        with contextlib.suppress(OSError):
            os.unlink(path)
