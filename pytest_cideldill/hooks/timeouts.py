"""What watches how long a test takes – pytest-timeout, faulthandler – doesn't see pauses.

Hooks on pytest's main thread learn what is armed; a thread that parks is in `paused` meanwhile.
While any thread is parked nothing is armed, since the others may wait for it; afterwards everything
is armed again with the time that was left.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from _thread import RLock, get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.hooks.durations import PauseClock
from pytest_cideldill.hooks.guest import Warns, guest
from pytest_cideldill.hooks.library_deadlines import patience
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.interpreter.values import dataclass

_setitimer = getattr(signal, "setitimer", None)
_dump_later = faulthandler.dump_traceback_later
_dump_never = faulthandler.cancel_dump_traceback_later

_SOON: Final = 0.001
"""Seconds that are left to what was due already when its test paused: 0 would switch it off."""

_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Timeout:
    """What pytest-timeout has armed: due at a moment of `monotonic`, or with so much time left."""

    item: pytest.Item
    settings: Any
    due: float
    left: float | None = None

    @property
    def by_signal(self) -> bool:
        return bool(self.settings.method == "signal")


class Watchdogs:
    """Disarms pytest-timeout and faulthandler while any thread is parked.

    Guarantees: a failure here may disarm a watchdog, but never fails a test.

    Args:
        guard: What hooks of others do on our behalf hits nothing.

    Attributes:
        pauses: Notes each pause; takes them out of durations.
    """

    def __init__(self, config: pytest.Config, guard: EvaluationGuard, host: Warns) -> None:
        self.host = host
        self._config = config
        self.pauses = PauseClock()
        self._guard = guard
        self._main = get_ident()
        # Guards all below; under it run only hooks of pytest-timeout, on a quiet thread. A signal
        # that stops the main thread may find it in here: it comes back in.
        self._lock = RLock()
        self._calls: int | None = None
        self._parked = 0
        self._since = 0.0
        self._timeout: _Timeout | None = None
        self._alarm: tuple[float, float] | None = None
        self._dump_due: float | None = None
        self._dump_left: float | None = None
        self._session_due: float | None = None

    # --- on the thread that parks -----------------------------------------------------------

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Entered by a thread for as long as it is parked."""
        with self.pauses.paused(), patience():
            self._safely(self._park)
            try:
                yield
            finally:
                self._safely(self._go_on)

    def _safely(self, work: Callable[[], None]) -> None:
        """pytest-timeout may be another version."""
        with self._lock:
            contained(work.__name__, work, self.host.warn, None)

    def _call(self, hook: Callable[..., object], **arguments: Any) -> None:
        """A hook of pytest-timeout, which is no news to us."""
        self._calls = get_ident()
        try:
            with self._guard.evaluating():
                hook(**arguments)
        finally:
            self._calls = None

    def _park(self) -> None:
        self._parked += 1
        if self._parked == 1:
            self._since = clock.monotonic()
            self._put_off_session()
            self._put_off_dump()
            self._put_off_timeout()
        if get_ident() == self._main or self._is_by_signal:
            self._put_off_alarm()

    def _go_on(self) -> None:
        self._parked -= 1
        is_last = not self._parked
        if is_last or (get_ident() == self._main and not self._is_by_signal):
            self._arm_alarm()
        if is_last:
            self._arm_dump()
            self._arm_session()
            self._arm_timeout()

    # --- what is armed ----------------------------------------------------------------------

    @property
    def _is_by_signal(self) -> bool:
        return self._timeout is not None and self._timeout.by_signal

    def _put_off_alarm(self) -> None:
        """The alarm of pytest-timeout, or one of the test itself."""
        if _setitimer is not None and (left := _setitimer(signal.ITIMER_REAL, 0))[0]:
            self._alarm = left

    def _arm_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        if _setitimer is not None and alarm is not None:
            _setitimer(signal.ITIMER_REAL, *alarm)

    def _put_off_timeout(self) -> None:
        """The thread that pytest-timeout waits in; it says nothing when the alarm is its way."""
        timeout = self._timeout
        if timeout is not None and not timeout.by_signal and timeout.left is None:
            timeout.left = max(timeout.due - clock.monotonic(), _SOON)
            self._call(timeout.item.ihook.pytest_timeout_cancel_timer, item=timeout.item)

    def _arm_timeout(self) -> None:
        timeout = self._timeout
        if timeout is not None and (left := timeout.left) is not None:
            timeout.due, timeout.left = clock.monotonic() + left, None
            settings = timeout.settings._replace(timeout=left)
            hook = timeout.item.ihook.pytest_timeout_set_timer
            self._call(hook, item=timeout.item, settings=settings)

    def _put_off_dump(self) -> None:
        if self._dump_due is not None:
            self._dump_left = max(self._dump_due - clock.monotonic(), _SOON)
            _dump_never()

    def _arm_dump(self) -> None:
        left, self._dump_left = self._dump_left, None
        if left is None or self._dump_due is None:
            return
        self._dump_due = clock.monotonic() + left
        file = self._config.stash[fault_handler_stderr_fd_key]
        _dump_later(left, file=file, exit=self._exits_on_timeout())

    def _exits_on_timeout(self) -> bool:
        try:
            return bool(self._config.getini("faulthandler_exit_on_timeout"))
        except (KeyError, ValueError):  # pytest before 9
            return False

    def _put_off_session(self) -> None:
        """The limit of all tests together, looked at after each: another thread may be parked."""
        key = _session_key()
        if key is not None and (due := self._config.stash.get(key, 0)):
            self._session_due = due
            self._config.stash[key] = _NEVER

    def _arm_session(self) -> None:
        due, self._session_due = self._session_due, None
        if due is not None:
            self._config.stash[_session_key()] = due + clock.monotonic() - self._since

    # --- hooks: what was armed --------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    @guest
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> Iterator[None]:
        """pytest-timeout starts to count."""
        is_ours = self._calls == get_ident()
        if not is_ours:
            with self._lock:
                self._timeout = None
        yield
        if not is_ours:
            due = clock.monotonic() + (settings.timeout or 0.0)
            with self._lock:
                self._note_timeout(_Timeout(item, settings, due))

    def _note_timeout(self, timeout: _Timeout) -> None:
        self._timeout = timeout
        if self._parked:
            self._put_off_timeout()
        if self._parked and timeout.by_signal:
            self._put_off_alarm()

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    @guest
    def pytest_timeout_cancel_timer(self) -> None:
        """It counts no longer; no wrapper, which pluggy would call by more builtins."""
        if self._calls != get_ident():
            with self._lock:
                self._timeout = self._alarm = None

    @pytest.hookimpl(tryfirst=True)  # before those that run the test, inside pytest's wrapper
    @guest
    def pytest_runtest_protocol(self) -> None:
        """faulthandler starts to count."""
        with self._lock:
            self._note_dump()

    def _note_dump(self) -> None:
        self._dump_left = self._dump_due = None
        if not self._config.pluginmanager.hasplugin("faulthandler"):
            return
        seconds = float(self._config.getini("faulthandler_timeout") or 0.0)
        if seconds > 0:
            self._dump_due = clock.monotonic() + seconds
            if self._parked:
                self._put_off_dump()

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_exception_interact(self) -> None:
        """pytest's own counting ends when a debugger could come."""
        with self._lock:
            self._dump_left = self._dump_due = None

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_logfinish(self) -> None:
        """A test has ended."""
        with self._lock:
            self._dump_left = self._dump_due = None


def _session_key() -> Any:
    """Where pytest-timeout keeps the end of the session's time; None: it has none."""
    return getattr(sys.modules.get("pytest_timeout"), "SESSION_EXPIRE_KEY", None)
