"""Sees code come into being: modules that are imported late, functions that are made late.

Owns the event source. Its handlers run on the threads of the program; they only compare names, and
call for a binding (which scans) when one fits.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from importlib import _bootstrap
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.callrecords.recorder import Recording
from pytest_cideldill.context import Context
from pytest_cideldill.interpreter.borders import at_fork
from pytest_cideldill.interpreter.code_files import file_of, frame_file
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.probes.functions import FunctionProbes
from pytest_cideldill.probes.lines import LineProbes
from pytest_cideldill.probes.nesting import Root
from pytest_cideldill.probes.raises import RaiseProbes
from pytest_cideldill.protocol import EngineChosen
from pytest_cideldill.tracing.interface import (
    Handlers,
    Source,
    SourceUnavailable,
    Watch,
    existing_functions,
    open_source,
)

IS_FREE = sys.version_info >= (3, 12)
"""Whether discovery costs nothing where nothing is new. On 3.11 it costs at every call."""


_LOAD = _bootstrap._load_unlocked.__code__  # type: ignore[attr-defined]
"""What every import calls: modules made in C have no code of their own that starts."""


class Discovery:
    """Finds modules that are imported late and functions that are made late, by event source.

    Args:
        context: Threads that its guard marks see nothing.
        recording: Offered every module before it runs.
        lines: Offered all code before it runs, and each pass of a watched line.
        raises: Offered the exceptions that are raised.
        functions: Know whether a breakpoint may mean what is in a module or a code object.
        bind: Binds breakpoints now, those in code that starts or all.

    Attributes:
        has_lost: Whether there were no events at some time, so that more may have happened than was
            seen.
    """

    def __init__(
        self,
        context: Context,
        recording: Recording,
        lines: LineProbes,
        raises: RaiseProbes,
        functions: FunctionProbes,
        bind: Callable[[Root | None], None],
    ) -> None:
        self._recording = recording
        self._lines = lines
        self._raises = raises
        self._means_any = functions.mean_any_in
        self._means_in = functions.mean_any_of
        self._bind = bind
        self._warn = context.warn
        self._send = context.send
        self._engine: dict[str, str] = {}
        self._source: Source | None = None
        self._wanted = self._is_complete = self._is_closed = self._is_stale = False
        self._imports = self._sees_loads = False
        self._is_needed = False
        self.has_lost = False
        # Held while the source is brought to what is wanted. Nobody waits for it.
        self._lock = allocate_lock()
        self._handlers = Handlers(
            on_code=self._on_code,
            on_module_end=self._bind_all,
            on_line=lines.passed,
            on_failure=context.warn,
            is_ours=context.project.is_ours,
            quiet=context.guard.depths,
            takes=lines.takes,
        )
        at_fork(after_in_child=self.close)

    @property
    def source(self) -> Source | None:
        """The event source, once something was wanted."""
        return self._source

    def want(self, wanted: bool, *, pending: bool = True, imports: bool = False) -> None:
        """Whether code that comes into being is of interest now; any thread.

        Args:
            wanted: Whether there is any breakpoint or recording.
            pending: Whether a function breakpoint is not bound yet. Before 3.12 those that are do
                without us, as every call would pay: what else their names come to mean is bound at
                the start of a phase.
            imports: Whether one of them may mean what is in a module that has no code.
        """
        needed = IS_FREE or pending or self._recording.wants_any or self._lines.are_any
        self._wanted = wanted and needed
        self._imports = self._wanted and imports
        self._reach()

    def needed(self) -> Source:
        """The event source, opened for a caller that can't do without.

        Raises:
            SourceUnavailable: It can't be had.
        """
        if self._source is None:
            self._is_needed = True
            self._reach()
        if self._source is None:
            raise SourceUnavailable("there are no events of this program; see debug_state")
        return self._source

    def refresh(self) -> None:
        """Arm again where a program removed us; for the start of a phase."""
        if self._source is not None or self._is_any_wanted:
            self._reach()

    def record(self, code: CodeType, path: str) -> None:
        """Record the calls of a function; its dotted path."""
        self.want(True)  # opens the source
        if self._source is not None:
            self._recording.record(self._source, code, path)

    def unrecord(self, code: CodeType) -> None:
        """End that, unless it was chosen otherwise too."""
        if self._source is not None:
            self._recording.unrecord(self._source, code)

    def close(self) -> None:
        """Leave no trace, for good."""
        self._is_closed = True
        if self._source is not None:
            self._source.close()

    def _reach(self) -> None:
        """Bring the source to what is wanted; who has the lock looks again."""
        self._is_stale = True
        while self._is_stale and self._lock.acquire(False):
            try:
                self._is_stale = False
                self._update()
                if self._source is not None:
                    self._send_engine(self._source.engine)
            except SourceUnavailable as reason:
                self._is_complete = False
                self.has_lost = True
                self._warn(f"{self._loss()}: {reason}")
                self._send_engine({"name": "none", "why": str(reason)})
            finally:
                self._lock.release()

    @property
    def _is_any_wanted(self) -> bool:
        return self._wanted or self._is_needed or self._raises.raises is not None

    def _update(self) -> None:
        if self._is_closed or not (self._is_any_wanted or self._source):
            return
        if self._source is None:
            source = self._source = open_source(self._handlers)
            if self._is_closed:
                source.close()
        self._source.discover(self._wanted)
        self._source.watch_raises(self._raises.raises)
        if self._sees_loads != self._imports:
            self._sees_loads = self._imports
            if self._imports:
                self._source.record_calls(_LOAD, self._on_load, self._bind_all)
            else:
                self._source.stop_recording(_LOAD)
        was_removed = self._source.refresh()
        self.has_lost = self.has_lost or was_removed
        if was_removed or not self._is_complete:
            self._is_complete = True
            self._look_back(self._source)

    def _send_engine(self, engine: dict[str, str]) -> None:
        if engine != self._engine:
            self._engine = engine
            self._send(EngineChosen(engine))

    def _loss(self) -> str:
        lost = ["what is imported late is bound at the next test or phase only"]
        if self._recording.wants_any:
            lost.append("calls are not recorded")
        if self._lines.are_any:
            lost.append("lines are not watched")
        if self._raises.raises:
            lost.append("exceptions stop only when they escape")
        return " and ".join(lost)

    def _look_back(self, source: Source) -> None:
        """Take up what came into being while there were no events."""
        self._lines.arm()
        if not self._recording.wants_any:
            return
        for function in existing_functions():
            names, code = function.__globals__, original_code(code_of(function))
            file_of(code, names)
            module = names.get("__name__")
            if type(module) is str:
                self._recording.consider(source, code, module)

    def _on_code(self, code: CodeType, frame: FrameType) -> Watch:
        frame_file(frame)  # who has only the code asks for its `file_now`
        self._lines.seen(code, frame)
        module = frame.f_globals.get("__name__")
        if type(module) is not str:
            return Watch.NOTHING
        if code.co_name != "<module>":
            if self._means_any(code, module):
                self._bind((code, module))  # this call has begun; the next one is intercepted
            return Watch.NOTHING
        if self._source is not None and self._recording.wants_any:
            self._recording.consider(self._source, code, module)
        if not self._means_any(code, module):
            return Watch.NOTHING
        self._bind((code, module))
        return Watch.END if self._means_any(code, module) else Watch.NOTHING

    def _on_load(self, _frame: FrameType, values: Mapping[str, Any]) -> object:
        name = getattr(values.get("spec"), "name", None)
        return name if type(name) is str and self._means_in(name) else None

    def _bind_all(self, *_: object) -> None:
        self._bind(None)
