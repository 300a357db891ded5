"""Owns the descriptors that stay open while tests run: moves them up, checks that they are ours.

Programs count descriptors, close all above 2, and put their files at numbers of their choice. So
each of ours is opened before the first test and moved to a number that programs seldom touch,
beyond the limit of the process if the system allows that. Its device and inode are remembered: a
number that the program closed, or gave to a file of its own, is neither written nor closed. Where
there is no `fcntl` (Windows), descriptors keep their numbers.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from pytest_cideldill.interpreter.clock import monotonic, sleep

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None  # type: ignore[assignment]

_HIGH: Final = 512
"""The lowest number of ours. Much higher ones make forks slow, as these copy the table."""

_MOST: Final = 4096
"""If the limit of the process is at most this, our descriptors lie beyond it."""

_ROOM: Final = 64
"""Most descriptors of ours."""

_LOOK_S: Final = 0.05
"""Seconds between attempts to open a file again."""

MOST_WAITING: Final = 4 * 1024 * 1024
"""Most bytes that wait for a file that the program has closed and that can't be opened again."""

Identity = tuple[int, int]
"""Device and inode."""


class TakenAway(OSError):
    """The program has closed a descriptor of ours, or given its number to another file."""

    def __init__(self) -> None:
        super().__init__(errno.EBADF, "the program has closed it")


def moved(descriptor: int, *, beyond: bool = False) -> int:
    """Move a descriptor to a high number, if one is free; returns its number.

    Args:
        descriptor: Ours; it is closed if it was moved.
        beyond: Whether it may lie beyond the limit of the process. The limit is raised for a
            moment, so no thread of the program may run, which could set another limit meanwhile.
    """
    if fcntl is None:
        return descriptor
    with more_room() if beyond else nullcontext() as limit:
        for least in _places(limit):
            try:
                high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
            except (OSError, ValueError):
                continue
            os.close(descriptor)
            return high
    return descriptor


def _places(limit: int | None) -> Iterator[int]:
    """Numbers to try, the best one first; `limit` is that of the process, if it was raised."""
    if limit is not None:
        yield limit
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most > _HIGH + _ROOM:
        yield _HIGH
    if most != resource.RLIM_INFINITY:
        yield from range(most - 1, max(most - 1 - _ROOM, 2), -1)


@contextmanager
def more_room() -> Iterator[int | None]:
    """Raise the limit of the process for a moment; gives the old one, or None if it stays."""
    if resource is None:
        yield None
        return
    before = most, hardest = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = most + _ROOM
    is_allowed = hardest == resource.RLIM_INFINITY or raised <= hardest
    if most == resource.RLIM_INFINITY or most > _MOST or not is_allowed:
        yield None
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hardest))
    except (OSError, ValueError):
        yield None
        return
    try:
        yield most
    finally:
        if resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hardest):
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def wait_for_room(seconds: float) -> None:
    """Wait until a file can be opened, for at most so long: programs may use up all numbers."""
    until = monotonic() + seconds
    while monotonic() < until:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                return
            sleep(_LOOK_S)
        else:
            return


def _identity(descriptor: int) -> Identity | None:
    """The identity of an open file or socket; None if there is none."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class HeldFile:
    """A file that stays open; one thread at a time.

    Args:
        path: Its path, also when it must be opened again.
        flags: Flags for `os.open`; a new file is made for its owner alone.

    Raises:
        OSError: It can't be opened.
    """

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self._path = os.path.abspath(path)
        self._flags = flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)
        self._number = moved(os.open(self._path, flags, 0o600), beyond=True)
        self._identity = _identity(self._number)
        self.is_closed = False

    @property
    def is_ours(self) -> bool:
        """Whether the number still belongs to the file."""
        return not self.is_closed and _identity(self._number) == self._identity

    @property
    def number(self) -> int:
        """The descriptor, a new one if the program has closed the old one.

        Raises:
            OSError: It can't be opened again.
        """
        if not self.is_ours:
            self._open_again()
        return self._number

    def close(self) -> None:
        """Close it, if it is ours."""
        if self.is_ours:
            os.close(self._number)
        self.is_closed = True

    def _open_again(self) -> None:
        if self.is_closed:
            raise TakenAway
        number = os.open(self._path, self._flags)
        if _identity(number) != self._identity:
            os.close(number)
            raise FileNotFoundError(errno.ENOENT, "the program has replaced the file")
        self._number = moved(number)


class HeldSocket:
    """A connected socket that stays open. `connected`: taken over. `beyond`: see `moved`."""

    def __init__(self, connected: socket.socket, *, beyond: bool = True) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._identity: Identity | None = None
        if fcntl is not None:
            kind = connected.family, connected.type, connected.proto
            number = moved(connected.detach(), beyond=beyond)
            self._identity = _identity(number)
            self._socket = socket.socket(*kind, fileno=number)
            self._socket.setblocking(False)

    def fileno(self) -> int:
        """The descriptor; -1 once it is closed or taken away."""
        return self._socket.fileno()

    @property
    def is_ours(self) -> bool:
        """Whether the number still belongs to the open socket; if not, the socket is dropped."""
        number = self._socket.fileno()
        if number < 0:
            return False
        if fcntl is not None and _identity(number) != self._identity:
            self._socket.detach()
            return False
        return True

    def send(self, data: bytes | bytearray) -> int:
        """Send bytes; returns how many were taken.

        Raises:
            OSError: As for any non-blocking socket; `TakenAway`.
        """
        self._check()
        return self._socket.send(data)

    def receive(self, count: int) -> bytes:
        """Receive bytes; empty if the peer hung up. Raises OSError: as for `send`."""
        self._check()
        return self._socket.recv(count)

    def close(self) -> None:
        """Close it, if it is ours."""
        if self.is_ours:
            self._socket.close()

    def _check(self) -> None:
        if not self.is_ours:
            raise TakenAway


Ready = tuple[set[HeldSocket], set[HeldSocket]]
"""The sockets that can be read from, and those that can be written to."""


def wait_for(
    readers: Iterable[HeldSocket], writers: Iterable[HeldSocket], seconds: float | None
) -> Ready:
    """Wait until a socket is ready, for at most so long; one that was taken away is ready too."""
    reading, writing = set(readers), set(writers)
    if not hasattr(select, "poll"):
        selected = select.select([*reading], [*writing], (), seconds)
        return set(selected[0]), set(selected[1])
    numbers = {each: each.fileno() for each in reading | writing}
    poll: Any = select.poll()  # numbers may be too high for `select`
    for each, number in numbers.items():
        if number >= 0:
            wanted = select.POLLIN * (each in reading) | select.POLLOUT * (each in writing)
            poll.register(number, wanted)
    ready = dict(poll.poll(None if seconds is None else seconds * 1000))
    # Other events (hung up, closed) count as ready: reading or writing then raises the error.
    events = {socket: ready.get(number, 0) for socket, number in numbers.items()}
    readable = {socket for socket in reading if events[socket] & ~select.POLLOUT}
    writable = {socket for socket in writing if events[socket] & ~select.POLLIN}
    return readable, writable
