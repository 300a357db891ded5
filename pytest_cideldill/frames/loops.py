"""The event loop of an evaluation that awaits where the program runs none.

It belongs to the program's asyncio, but opens descriptors only when something has to be waited for,
and none of the program's sockets, which it may have forbidden. Knows private parts of asyncio's
selector loop, which are the same from 3.11 to 3.13.
"""

from __future__ import annotations

import gc
import selectors
import socket
from _contextvars import Context
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pytest_cideldill.rendering.layout import is_a

_FOREIGN: Final = ("attached to a different loop", "bound to a different event loop")
"""Ends of what asyncio says of objects that belong to another loop."""

_WHY: Final = (
    "no event loop of the test is open on this thread, so this ran in a loop of its own. For a "
    "loop that runs on another thread: asyncio.run_coroutine_threadsafe(…, loop).result(5)"
)


def run_in_loop(
    asyncio: Any, begin: Callable[[], Coroutine[Any, Any, Any]], context: Context | None = None
) -> object:
    """What a coroutine returns, run in a loop of its own, which is closed afterwards.

    Args:
        asyncio: The program's module.
        begin: Makes the coroutine, once there is a loop.
        context: Where it runs; None: in a copy of the thread's.

    Raises:
        RuntimeError: There can be no loop: the program has replaced what it consists of.
        BaseException: Whatever the coroutine raises.
    """
    loop = None
    try:
        # With a factory the runner leaves the thread's own event loop setting alone.
        with asyncio.Runner(loop_factory=lambda: _made(asyncio)) as runner:
            loop = runner.get_loop()
            return runner.run(begin(), context=context)
    except RuntimeError as error:
        if str(error).endswith(_FOREIGN):
            raise RuntimeError(f"{error}: {_WHY}") from None
        raise
    finally:
        if loop is not None:
            _unbind(asyncio, loop)


def _unbind(asyncio: Any, loop: Any) -> None:
    """Let events, locks and queues that were first waited for here be waited for elsewhere."""
    mixin: Any = getattr(getattr(asyncio, "mixins", None), "_LoopBoundMixin", None)
    for each in gc.get_referrers(loop) if mixin is not None else ():
        if type(each) is dict:
            bound = [x for x in gc.get_referrers(each) if is_a(type(x), mixin)]
        else:
            bound = [each] if is_a(type(each), mixin) else []
        for one in bound:
            if object.__getattribute__(one, "_loop") is loop:
                object.__setattr__(one, "_loop", None)


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
