"""Which call of the asked function is the chosen one: by its number, or by a condition."""

from __future__ import annotations

from itertools import count
from types import FrameType

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.probes.conditions import ConditionFailure, Judge, judging
from pytest_cideldill.protocol.trace_rows import Row, TraceRequest
from pytest_cideldill.rendering.display import Lens


class CallChoice:
    """Counts the calls of the asked function in a test, and chooses one.

    Args:
        request: What is wanted.
        lens: Hides secrets in the texts of errors.

    Attributes:
        is_wanted: Whether one is to be chosen at all.
        matched: How many calls the test has made.
        was_called: Whether a test that is over has made one.
        failed_conditions: What the condition raised, and how often.
        overtime: Marks threads that evaluate.
        quiet: These threads.
    """

    def __init__(self, request: TraceRequest, lens: Lens) -> None:
        self._request, self._lens = request, lens
        guard = EvaluationGuard()
        self.quiet = guard.depths
        self.overtime = Overtime(guard)
        self._judges: dict[int, Judge] = {}
        self._matches = count(1)
        self._is_made = False
        self.is_wanted = bool(request.call or request.when)
        self.matched = 0
        self.was_called = False
        self.failed_conditions: dict[str, int] = {}

    def is_chosen(self, frame: FrameType) -> bool:
        """Count a call that begins; whether it is the chosen one."""
        self.matched = number = next(self._matches)
        if self._is_made or not self.is_wanted:
            return False
        if self._request.when is None:
            self._is_made = number == self._request.call
        else:
            self._is_made = self._holds(self._request.when, frame)
        return self._is_made

    def end_test(self) -> list[Row]:
        """A test is over: its rows; the next one has its own chosen call."""
        rows: list[Row] = []
        if self._request.function is not None:
            rows.append(["matches", self.matched])
        self.was_called = self.was_called or bool(self.matched)
        self._matches, self.matched, self._is_made = count(1), 0, False
        return rows

    def _holds(self, condition: str, frame: FrameType) -> bool:
        code = frame.f_code
        judge = self._judges.get(id(code))
        if judge is None:
            judge = self._judges[id(code)] = judging(condition, code, self.overtime)
        verdict = judge(frame)
        if isinstance(verdict, ConditionFailure):
            text = self._lens.text(verdict.text, 200)
            self.failed_conditions[text] = self.failed_conditions.get(text, 0) + 1
            return False
        return verdict
