"""The event loop of an evaluation that awaits where the program runs none.

It belongs to the program's asyncio, but opens descriptors only when something has to be waited for,
and none of the program's sockets, which it may have forbidden. Knows private parts of asyncio's
selector loop, which are the same from 3.11 to 3.13.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from types import CoroutineType
from typing import Any


def run_in_loop(asyncio: Any, begin: Callable[[], CoroutineType[Any, Any, Any]]) -> object:
    """What a coroutine returns, run in a loop of its own, which is closed afterwards.

    Args:
        asyncio: The program's module.
        begin: Makes the coroutine, once there is a loop.

    Raises:
        RuntimeError: There can be no loop: the program has replaced what it consists of.
        BaseException: Whatever the coroutine raises.
    """
    # With a factory the runner leaves the thread's own event loop setting alone.
    with asyncio.Runner(loop_factory=lambda: _made(asyncio)) as runner:
        runner.get_loop()
        return runner.run(begin())


def _made(asyncio: Any) -> Any:
    base: Any = asyncio.SelectorEventLoop

    class Loop(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self._ssock: socket.socket | None = None
            self._csock: socket.socket | None = None
            try:
                super().__init__(_Selector(self))
            except BaseException:
                self._closed = True  # else its finalizer tries to close what is not there
                raise

        def _make_self_pipe(self) -> None:
            """Not yet."""

        def _close_self_pipe(self) -> None:
            if self._ssock is not None:
                super()._close_self_pipe()

        def open_pipe(self) -> None:
            """Let other threads wake it up."""
            reader, writer = self._ssock, self._csock = socket.socketpair()
            reader.setblocking(False)
            writer.setblocking(False)
            self._internal_fds += 1
            self._add_reader(reader.fileno(), self._read_from_self)

    try:
        return Loop()
    except Exception as error:
        raise RuntimeError(
            f"await needs an event loop here, and none can be made: {type(error).__name__}"
        ) from error


class _Selector:
    """Becomes a real one when something has to be waited for, or watched."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._real: selectors.BaseSelector | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        if self._real is None:
            if timeout is not None and timeout <= 0:
                return []
            self._opened()
            if self._loop._ready:  # by another thread, which could not wake this one up yet
                return []
        return self._opened().select(timeout)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()

    def _opened(self) -> selectors.BaseSelector:
        if self._real is None:
            self._real = selectors.DefaultSelector()
            self._loop.open_pipe()
        return self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)
