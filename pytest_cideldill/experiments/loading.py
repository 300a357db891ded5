"""Watches a process load the tests: may forks of it stand for processes of their own?

A fork has for itself what is in memory. It shares with all others what lies outside: threads and
child processes it has none, files have one offset, a folder that a module made is removed by the
first that ends. And what ran already can't be changed any more.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from types import CodeType, FrameType
from typing import Any, Final

_ACTS: Final = frozenset(
    {
        *("mmap.__new__", "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill"),
        *("os.killpg", "os.link", "os.mkdir", "os.posix_spawn", "os.remove", "os.rename"),
        *("os.rmdir", "os.setxattr", "os.symlink", "os.system", "os.truncate", "os.utime"),
        *("pty.spawn", "socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto"),
        *("sqlite3.connect", "subprocess.Popen", "tempfile.mkdtemp", "tempfile.mkstemp"),
    }
)
"""Audit events of what reaches out of memory, or stays when the process is gone."""

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0)

_DEVICES: Final = frozenset({"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"})

IS_POSSIBLE: Final = sys.platform == "linux"
"""macOS forks, but its libraries may not be used then; nor does it show what a process has."""


class Loading:
    """What a process did until its tests were there. One per process: audit hooks stay for ever."""

    def __init__(self) -> None:
        self._act = ""
        self._is_on = True
        self._started: set[tuple[str, int]] = set()
        self._stop = self._watch_code()
        sys.addaudithook(self._audit)

    def end(self) -> None:
        """The tests are there."""
        if self._is_on:
            self._is_on = False
            self._stop()

    def obstacle(self, ours: Sequence[int]) -> str:
        """Why no fork can stand for a process of its own; empty: each can.

        Args:
            ours: Numbers of files that a fork does not use.
        """
        if self._act:
            return self._act
        if not IS_POSSIBLE:
            return "processes are forked on Linux only"
        return (
            _of_threads()
            or _of_children()
            or next(filter(None, map(_of_file, _open_files(ours))), "")
            or _of_memory()
        )

    def ran(self, file: str, first: int, last: int) -> bool:
        """Whether a function that begins in these lines was called."""
        real = cache(os.path.realpath)
        return any(first <= line <= last and real(name) == file for name, line in self._started)

    # --- code that starts -------------------------------------------------------------------

    def _watch_code(self) -> Any:
        if sys.version_info >= (3, 12):
            return self._monitor()
        if (sys.getprofile() or threading.getprofile()) is not None:
            self._act = "a profiler is on"
            return lambda: None
        note = self._profile
        sys.setprofile(note)
        threading.setprofile(note)

        def stop() -> None:
            if sys.getprofile() is not note or threading.getprofile() is not note:
                self._act = self._act or "a profiler is on"
            else:
                sys.setprofile(None)
                threading.setprofile(None)

        return stop

    def _profile(self, frame: FrameType, event: str, _value: object) -> None:
        if event == "call":
            code = frame.f_code
            self._started.add((code.co_filename, code.co_firstlineno))

    def _monitor(self) -> Any:
        monitoring = sys.monitoring
        starts = monitoring.events.PY_START
        tool = next((each for each in (5, 4, 3) if monitoring.get_tool(each) is None), None)
        if tool is None:
            self._act = "all tools of sys.monitoring are in use"
            return lambda: None
        off, add = monitoring.DISABLE, self._started.add

        def note(code: CodeType, _offset: int) -> object:
            add((code.co_filename, code.co_firstlineno))
            return off

        monitoring.use_tool_id(tool, "cideldill-loading")
        monitoring.register_callback(tool, starts, note)
        monitoring.set_events(tool, starts)

        def stop() -> None:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, starts, None)
            monitoring.free_tool_id(tool)

        return stop

    # --- what reaches out of memory ---------------------------------------------------------

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on or self._act or (event != "open" and event not in _ACTS):
            return
        if _leaves_nothing(sys._getframe(1)):
            return
        if event == "open":
            if _is_writing(*arguments):
                self._act = f"{_shown(arguments[0])} was written while tests were collected"
        elif not _is_harmless(event, arguments):
            self._act = f"{event} was used while tests were collected"


def _leaves_nothing(frame: FrameType | None) -> bool:
    """Whether Python makes a file that it removes at once: it tries a folder, or hides the name."""
    for _ in range(2):
        if frame is None or frame.f_globals.get("__name__") != "tempfile":
            return False
        if frame.f_code.co_name in ("_get_default_tempdir", "TemporaryFile"):
            return True
        frame = frame.f_back
    return False


def _is_writing(path: object, _mode: object, flags: object) -> bool:
    if type(flags) is not int or not flags & _WRITES:
        return False
    if _UNNAMED and flags & _UNNAMED == _UNNAMED:
        return False  # nobody else can open it; the open file is looked at later
    return not (path in _DEVICES or _is_bytecode(path))


def _is_harmless(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "sqlite3.connect":
        return arguments[:1] == (":memory:",)
    return bool(arguments) and _is_bytecode(arguments[0])


def _is_bytecode(path: object) -> bool:
    """Whether a file is of compiled modules, which processes share anyway."""
    text = path if type(path) is str else os.fspath(path) if isinstance(path, os.PathLike) else ""
    return isinstance(text, str) and ("__pycache__" in text or ".pyc" in os.path.basename(text))


def _shown(path: object) -> str:
    return os.path.basename(path) if type(path) is str else "a file"


# --- what a process has -------------------------------------------------------------------------


def _of_threads() -> str:
    return "" if len(os.listdir("/proc/self/task")) == 1 else "the process has threads"


def _of_children() -> str:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ""
    return "the process has child processes"


def _open_files(ours: Sequence[int]) -> Iterator[tuple[int, os.stat_result]]:
    """Beside the standard streams."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in ours:
            with suppress(OSError):  # that of the listing itself
                yield number, os.fstat(number)


def _of_file(each: tuple[int, os.stat_result]) -> str:
    number, found = each
    if is_unnamed(found):
        return ""
    if stat.S_ISCHR(found.st_mode) and os.readlink(f"/proc/self/fd/{number}") in _DEVICES:
        return ""
    for stream in (0, 1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(stream), found):
                return ""
    return f"descriptor {number} is open"


def is_unnamed(found: os.stat_result) -> bool:
    """Whether an open file has no name: only who has it open can read it."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 0


def _of_memory() -> str:
    """Memory that is shared with forks: semaphores, shared values."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        if any(line.split(" ", 2)[1][1::2] == "ws" for line in maps):
            return "the process has shared memory"
    return ""


def has_orphans() -> bool:
    """Whether the process group has members whose parents are none: tests left them."""
    parents: dict[int, int] = {}
    group = os.getpgrp()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
            state, parent, own = f.read().rpartition(")")[2].split()[:3]
            if int(own) == group and state not in "ZX":
                parents[int(name)] = int(parent)
    parents.pop(os.getpid(), None)
    return any(each not in parents and each != os.getpid() for each in parents.values())


def own_files(ours: Sequence[int]) -> None:
    """In a fork: files without a name become files of its own.

    Raises:
        OSError: There is no room for them.
    """
    for number, found in list(_open_files(ours)):
        if not is_unnamed(found):
            continue
        with tempfile.TemporaryFile(buffering=0) as new:
            at = os.lseek(number, 0, os.SEEK_CUR)
            if found.st_size:
                os.sendfile(new.fileno(), number, 0, found.st_size)
            os.lseek(new.fileno(), at, os.SEEK_SET)
            inheritable = os.get_inheritable(number)
            os.dup2(new.fileno(), number, inheritable)
