"""Sees code come into being: modules that are imported late, functions that are made late.

Owns the event source. Its handlers run on the threads of the program; they only compare names, and
call for a binding (which scans) when one fits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from types import FrameType

from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.probes.recording import Recording
from pytest_cideldill.project import Project
from pytest_cideldill.sources.events import Handlers
from pytest_cideldill.sources.events import Source
from pytest_cideldill.sources.events import SourceUnavailable
from pytest_cideldill.sources.events import Watch
from pytest_cideldill.sources.events import existing_functions
from pytest_cideldill.sources.events import open_source
from pytest_cideldill.sources.interpose import original_code

IS_FREE = sys.version_info >= (3, 12)
"""Whether discovery costs nothing where nothing is new. On 3.11 it stays off: `sys.settrace` would
cost at every call, and what is imported late binds at the next phase or test."""


class Discovery:
    """See the module.

    Args:
        project: Tells user code.
        guard: Threads that evaluate for us see nothing.
        recording: Offered every module before it runs.
        means_any: Whether a breakpoint may mean a function inside a code object.
        bind: Binds breakpoints now.
        warn: Told why there is no source, or of a failure of ours.
    """

    def __init__(
        self,
        project: Project,
        guard: EvaluationGuard,
        recording: Recording,
        means_any: Callable[[CodeType, str], bool],
        bind: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._recording = recording
        self._means_any = means_any
        self._bind = bind
        self._warn = warn
        self._source: Source | None = None
        self._handlers = Handlers(
            on_code=self._on_code,
            on_module_end=self._on_module_end,
            on_line=lambda _frame, _line: None,
            on_failure=warn,
            is_ours=project.is_ours,
            is_quiet=guard.is_quiet,
        )

    def want(self, wanted: bool) -> None:
        """Whether code that comes into being is of interest now; any thread."""
        if not IS_FREE:
            if self._recording.wants_any:
                self._warn("recording calls needs Python 3.12 or later for now")
            return
        if self._source is None and not wanted:
            return
        try:
            if self._source is None:
                self._source = open_source(self._handlers)
                self._record_existing(self._source)
            self._source.discover(wanted)
        except SourceUnavailable as reason:
            self._warn(f"what is imported late binds at the next test or phase only: {reason}")

    def refresh(self) -> None:
        """Arm again where a program removed us; for the start of a phase."""
        if self._source is not None:
            self._source.refresh()

    def close(self) -> None:
        """Leave no trace."""
        if self._source is not None:
            self._source.close()

    def _record_existing(self, source: Source) -> None:
        if not self._recording.wants_any:
            return
        for function in existing_functions():
            module = function.__globals__.get("__name__")
            if type(module) is str:
                self._recording.consider(source, original_code(function.__code__), module)

    def _on_code(self, code: CodeType, frame: FrameType) -> Watch:
        module = frame.f_globals.get("__name__")
        if type(module) is not str:
            return Watch.NOTHING
        if code.co_name != "<module>":
            if self._means_any(code, module):
                self._bind()  # this call has begun; the next one is intercepted
            return Watch.NOTHING
        if self._source is not None and self._recording.wants_any:
            self._recording.consider(self._source, code, module)
        return Watch.END if self._means_any(code, module) else Watch.NOTHING

    def _on_module_end(self, _code: CodeType, _frame: FrameType) -> None:
        self._bind()
