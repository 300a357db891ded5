"""A process under test in small, for checks of line probes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import CHECK_S, Overtime
from pytest_cideldill.probes.linehits import LineProbe, Surroundings
from pytest_cideldill.probes.lines import LineProbes
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddLine
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.codes import key_of
from pytest_cideldill.tracing.interface import Handlers, Watch, open_source
from tests.process.kept_rows import KeptRows
from tests.process.sources_checks import armed, tree
from tests.process.sources_checks import lines as lines_of


class Lab:
    """A process under test in small: an event source and line probes, without a link."""

    def __init__(self, add: Callable[[Any], Any] | None = None) -> None:
        self.kept = KeptRows(add)
        self.rows = self.kept.rows
        self.stops: list[tuple[str, int, str]] = []
        self.bound: list[str] = []
        self.failures: list[str] = []
        self.on_stop: Callable[[FrameType], None] = lambda frame: None
        self.guard = EvaluationGuard()
        self.guard.pin(True)
        self.overtime = Overtime(self.guard, 0.05 - CHECK_S)
        self.lens = Lens(Project("."), Redactor(environ={}))
        position = Position("test_it.py::test")
        self.surroundings = Surroundings(self.lens, self.overtime, position, self.kept, self._stop)
        self.lines = LineProbes(
            self.lens.project, self.surroundings, lambda: self.source, self.bound.append
        )
        self.source = open_source(
            Handlers(
                on_code=self._on_code,
                on_module_end=lambda code, frame: None,
                on_line=self.lines.passed,
                on_failure=self.failures.append,
                is_ours=lambda file: False,
                quiet=self.guard.depths,
                takes=self.lines.takes,
            )
        )
        self.codes: dict[int, CodeType] = {}

    def _on_code(self, code: CodeType, frame: FrameType) -> Watch:
        self.lines.seen(code, frame)
        return Watch.NOTHING

    def _stop(self, probe: LineProbe, frame: FrameType, number: int, reason: str) -> None:
        self.stops.append((probe.spec.id, number, reason))
        self.on_stop(frame)

    def want(self, code: CodeType, line: str | int, id: str = "tp-1", **asked: Any) -> LineProbe:
        """Set a probe at the line that ends with this comment."""
        self.codes |= {id_: each for each in tree(code) for id_ in [_id(each)]}
        if isinstance(line, str):
            (line,) = lines_of(code, line)
        file = self.lens.project.real(code.co_filename)
        self.lines.want(AddLine(0, id, file, line, key_of(code).to_plain(), **asked))
        self.lines.arm(file)
        return next(each for each in self.lines.probes if each.spec.id == id)

    def enable(self, probe: LineProbe, enabled: bool) -> None:
        self.lines.want(replace(probe.spec, enabled=enabled))
        self.lines.arm(probe.spec.file)

    @property
    def messages(self) -> list[str]:
        return [self.kept.reported(row)["message"] for row in self.rows]

    def rows_of(self, id: str) -> list[tuple[Any, ...]]:
        return [row for row in self.rows if self.kept.reported(row)["breakpoint_id"] == id]

    def is_armed(self, code: CodeType) -> bool:
        """Whether events of the code reach anybody."""
        if sys.version_info < (3, 12):
            return (
                bool(self.lines.bound(self.lines.probes[0].spec.id)) and sys.gettrace() is not None
            )
        claimed = [tool for tool in range(6) if sys.monitoring.get_tool(tool) == "pytest-cideldill"]
        return any(sys.monitoring.get_local_events(tool, code) for tool in claimed)


_id = id


@contextmanager
def lab(add: Callable[[Any], Any] | None = None) -> Iterator[Lab]:
    place = Lab(add)
    try:
        yield place
    finally:
        place.source.close()
        place.lines.disarm()
        place.guard.pin(False)
        place.overtime.close()
        assert place.failures == []
        assert armed(place.codes.values()) == []
        assert place.guard.depths == {}
