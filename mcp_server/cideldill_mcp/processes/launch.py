"""Starts a pytest child, collects the end of its output, signals its process group, sees it end.

Three daemon threads per child (two pipes, one wait) report to the event loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cideldill_mcp.processes.reaper import Reaper
from pytest_cideldill.protocol.trace_rows import VARIABLE as QUESTION

TAIL = 64 * 1024
"""Bytes kept from the end of each stream."""

VARIABLE = "CIDELDILL_CHILD"
HASH_SEED = "PYTHONHASHSEED"

OURS = (VARIABLE, QUESTION)
"""Variables by which a child learns what it is started for."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the user's pytest is started.

    Attributes:
        command: Interpreter, its flags and what follows up to pytest's own arguments.
        arguments: The user's arguments for every run, our options taken out.
        rootdir: As pytest found it; None until a first run reported it.
        inipath: The ini file as pytest found it.
        user_paths: What is the user's code beside the rootdir.
    """

    command: list[str]
    arguments: list[str]
    rootdir: str | None = None
    inipath: str | None = None
    user_paths: tuple[str, ...] = ()

    @property
    def interpreter(self) -> list[str]:
        """The interpreter and its flags."""
        end = 1
        while end < len(self.command) and self.command[end].startswith("-"):
            flag = self.command[end]
            if flag[1:2] in ("m", "c"):
                break
            # These take a value, which may stand apart.
            end += 2 if flag in ("-W", "-X", "--check-hash-based-pycs") else 1
        return self.command[:end]

    @property
    def pinned(self) -> list[str]:
        """pytest's first arguments in every run: what the user's arguments found stays found."""
        found = [] if self.rootdir is None else [f"--rootdir={self.rootdir}"]
        return found if self.inipath is None else [*found, "-c", self.inipath]

    def command_line(self, further: Sequence[str]) -> list[str]:
        """The whole command of a run."""
        given = list(self.arguments)
        cut = given.index("--") if "--" in given else len(given)  # no options behind it
        return [*self.command, *self.pinned, *given[:cut], *further, *given[cut:]]


class Tail:
    """The last bytes of a stream; written by its thread, read by the loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Append, forgetting what is too old."""
        with self._lock:
            self._bytes += data
            del self._bytes[:-TAIL]

    def text(self) -> str:
        """What is kept, decoded."""
        with self._lock:
            return self._bytes.decode("utf-8", "replace")


class Stream:
    """A pipe for what a child prints.

    It has a name where that can be, and the child holds both of its ends: when this process is
    gone the child prints on, into what the reaper reads then.

    Attributes:
        inner: The child's end. To be closed when the child has it.
        outer: Ours.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self.outer, self.inner = _named_pipe(path)
        except (AttributeError, OSError):
            self.outer, self.inner = os.pipe()

    def remove(self) -> None:
        """Nobody will open it any more."""
        with suppress(OSError):
            os.unlink(self._path)


def _named_pipe(path: str) -> tuple[int, int]:
    """An end to read from, and one that reads and writes.

    Raises:
        AttributeError, OSError: There can't be any here.
    """
    os.mkfifo(path, 0o600)
    # Not blocking: opening one end waits for the other.
    outer = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        inner = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os.close(outer)
        raise
    os.set_blocking(outer, True)
    return outer, inner


class Child:
    """A started process: `out` and `err` hold the end of its streams, `ended` its return code.

    Attributes:
        started_at: Epoch seconds, not later than its start.
    """

    def __init__(
        self,
        run: str,
        process: subprocess.Popen[bytes],
        streams: Sequence[Stream],
        reaper: Reaper,
        started_at: float,
    ) -> None:
        self.run = run
        self.pid = process.pid
        self.started_at = started_at
        self.out = Tail()
        self.err = Tail()
        self.returncode: int | None = None
        self._process = process
        self._reaper = reaper
        self._group_is_ours = True
        self._streams = streams
        self._readers = [
            self._thread(self._read, stream.outer, tail)
            for stream, tail in zip(streams, (self.out, self.err), strict=True)
        ]

    def watch(self, on_ended: Callable[[], None]) -> None:
        """Call `on_ended` on the running event loop when the process is gone."""
        loop = asyncio.get_running_loop()

        def wait() -> None:
            returncode = self._wait()
            with suppress(RuntimeError):  # the loop is closed: the server is gone already
                loop.call_soon_threadsafe(self._ended, returncode, on_ended)

        self._thread(wait)

    def interrupt(self) -> None:
        """Ctrl-C for the whole group: pytest ends in order."""
        self.signal(signal.SIGINT if os.name == "posix" else signal.CTRL_BREAK_EVENT)  # type: ignore[attr-defined,unused-ignore]
        self._reaper.interrupted(self.pid, self.run)

    def handles_interrupt(self) -> None:
        """Sent to the reaper, which can't ask."""
        self._reaper.interrupted(self.pid, self.run, handles=True)

    def terminate(self) -> None:
        """The second step of the ladder."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """The last step."""
        self.signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    def signal(self, number: int) -> None:
        """Signal the whole process group, as long as its number is certainly ours."""
        if not self._group_is_ours:
            return
        with suppress(ProcessLookupError, PermissionError):  # gone, or macOS: a group of zombies
            if os.name == "posix":
                os.killpg(self.pid, number)
            else:
                self._process.send_signal(number)

    def _wait(self) -> int:
        """Wait for the end; kill what the process left behind in its group before reaping it.

        While the leader is not reaped its number can't be given to others.
        """
        if hasattr(os, "waitid") and hasattr(os, "WNOWAIT"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.kill()
        self._group_is_ours = False
        self._reaper.forget(self.pid)
        returncode = self._process.wait()
        for reader in self._readers:
            reader.join(1.0)  # a daemon that left the group may hold the pipe open
        for stream in self._streams:
            stream.remove()
        return returncode

    def _ended(self, returncode: int, on_ended: Callable[[], None]) -> None:
        self.returncode = returncode
        on_ended()

    def _thread(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True, name="cideldill-child")
        thread.start()
        return thread

    @staticmethod
    def _read(stream: int, tail: Tail) -> None:
        try:
            while data := os.read(stream, 65536):
                tail.add(data)
        finally:
            os.close(stream)


@dataclass(frozen=True, slots=True)
class Start:
    """What a child gets from this process, beside its command line.

    Attributes:
        name: A run's id, or that of a question's process; its streams have it in their names.
        directory: Private; for the streams.
        variables: Set in its environment; None: not set there. Of ours it inherits none of `OURS`.
    """

    name: str
    directory: str
    variables: Mapping[str, str | None]


def launch(command: Sequence[str], start: Start, reaper: Reaper) -> Child:
    """Start a child in a process group of its own, its stdin empty.

    Args:
        command: The whole command line.
        start: Its name, its place and what it is to know.
        reaper: Gets the group before anything can happen to us.

    Raises:
        OSError: The interpreter can't be started.
    """
    group: dict[str, Any] = {"process_group": 0}
    if os.name != "posix":
        group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}  # type: ignore[attr-defined,unused-ignore]
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    variables = {**inherited, **start.variables}
    streams = [
        Stream(os.path.join(start.directory, f"{start.name}.{stream}")) for stream in ("out", "err")
    ]
    started_at = time.time()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=streams[0].inner,
            stderr=streams[1].inner,
            env={name: value for name, value in variables.items() if value is not None},
            bufsize=0,
            **group,
        )
    except OSError:
        for each in streams:
            os.close(each.outer)
            each.remove()
        raise
    finally:
        for each in streams:
            os.close(each.inner)
    reaper.watch(process.pid, start.name)
    return Child(start.name, process, streams, reaper, started_at)
