"""An experiment: forced changes at their places, and expressions where a test fails or ends."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, Final

import pytest

from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.evaluation.repl_eval import evaluate
from pytest_cideldill.experiments.standalone import ExperimentProcess
from pytest_cideldill.frames.frames import notice_secrets
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.tracebacks import visible_places
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.patching.code_swap import original_code
from pytest_cideldill.protocol.trace_rows import ForcedChange, TraceRequest
from pytest_cideldill.tracing.interface import SourceUnavailable

_ERROR: Final = 500
"""Characters of an error."""


class Experiment:
    """Changes what the tests of a process do, and evaluates in them.

    Args:
        request: What is changed and evaluated.
        rows: Take what becomes of it.
        host: The process.

    Raises:
        ValueError: There is no such line.
        SourceUnavailable: There are no events.
    """

    def __init__(self, request: TraceRequest, rows: RowFile, host: Host) -> None:
        self.host = host
        self._rows = rows
        self._expressions = request.evaluate
        specs = [ForcedChange(**change) for change in request.changes]
        key = bytes.fromhex(request.key or "00")
        try:
            self._process = ExperimentProcess(host.lens, specs, rows, key)
        except OSError as error:
            raise ValueError(f"{error.filename} can't be read: {error.strerror}") from error
        self._process.begin()

    # --- places are bound when what they are in is loaded -------------------------------------

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_collection(self) -> None:
        """Plugins and conftests are there."""
        self._process.manager.bind()

    @guest
    def pytest_collection_finish(self) -> None:
        """Everything that tests import at module level is there."""
        self._process.manager.bind()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._process.begin_test()
        yield
        self._process.end_test()

    def enter(self) -> None:
        """A phase of a test begins."""
        self._process.manager.bind_new()

    def close(self) -> None:
        """The tests are over."""
        self._process.close()

    # --- expressions --------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Iterator[None]:
        """The test's own function: its frame is looked at when it returns."""
        code = _code_of(pyfuncitem) if self._expressions else None
        if code is None:
            yield
            return
        source = self._process.manager.events()
        try:
            source.record_calls(code, lambda _frame, _values: True, self._on_end)
        except SourceUnavailable:
            pass
        yield
        source.stop_recording(code)

    def _on_end(
        self, _token: object, frame: FrameType, _result: object, error: BaseException | None
    ) -> None:
        if error is None:
            contained("evaluating", lambda: self._evaluate([frame]), self.host.warn, None)

    @pytest.hookimpl(tryfirst=True)
    @guest
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """A phase failed: its frames are there still."""
        excinfo = call.excinfo
        if excinfo is None or not self._expressions:
            return
        project = self.host.lens.project
        places = visible_places(excinfo, project)
        frames = [frame for frame, _ in places if project.has(frame)]
        lines = [line for frame, line in places if project.has(frame)]
        self._evaluate(frames or [frame for frame, _ in places], lines, excinfo.value)

    def _evaluate(
        self,
        frames: list[FrameType],
        lines: list[int] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Each expression in the innermost frame that has its names."""
        lens, guard = self.host.lens, self._process.guard
        for expression in self._expressions:
            tried = (
                (number, evaluate(expression, frame, {}, guard=guard, error=error))
                for number, frame in enumerate(frames)
            )
            last = len(frames) - 1
            number, done = next(each for each in tried if not each[1].missing or each[0] == last)
            frame = frames[number]
            lens.look_again()
            notice_secrets(frame, lens)
            text = lens.text(done.output, _ERROR) if done.is_error else lens.show(done.value)
            line = lines[number] if lines else frame.f_lineno
            file, function = lens.place(frame, line)["file"], frame.f_code.co_qualname
            self._rows.add(["evaluated", expression, text, done.is_error, file, line, function])


def _code_of(item: pytest.Function) -> CodeType | None:
    """The code of a test as it is written, under what plugins put around it."""
    function: Any = inspect.unwrap(getattr(item.obj, "__func__", item.obj))
    code = getattr(function, "__code__", None)
    return original_code(code) if isinstance(code, CodeType) else None
