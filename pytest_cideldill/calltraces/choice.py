"""Which call of the asked function is the chosen one: by its number, or by a condition."""

from __future__ import annotations

from itertools import count, repeat
from types import FrameType

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.probes.conditions import ConditionFailure, Judge, judging
from pytest_cideldill.protocol.trace_rows import Row, TraceRequest
from pytest_cideldill.rendering.display import Lens


class CallChoice:
    """Counts the calls of the asked function in a test, and chooses one.

    Calls may begin on several threads at once, so counting and choosing are each one call of C.

    Args:
        request: What is wanted.
        lens: Hides secrets in the texts of errors.

    Attributes:
        is_wanted: Whether one is to be chosen at all.
        chosen: The number of the chosen call, from 1; 0: there is none yet.
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
        self._numbers, self._one = count(1), repeat(True, 1)
        self.chosen = 0
        self.is_wanted = bool(request.call or request.when)
        self.was_called = False
        self.failed_conditions: dict[str, int] = {}

    def is_chosen(self, frame: FrameType) -> bool:
        """Count a call that begins; whether it is the chosen one."""
        number = next(self._numbers)
        if self.chosen or not self.is_wanted:
            return False
        when = self._request.when
        is_it = number == self._request.call if when is None else self._holds(when, frame)
        if not is_it or not next(self._one, False):
            return False
        self.chosen = number
        return True

    def end_test(self) -> list[Row]:
        """A test is over: its rows; the next one has its own chosen call."""
        total = next(self._numbers) - 1
        self.was_called = self.was_called or total > 0
        self._numbers, self._one, self.chosen = count(1), repeat(True, 1), 0
        return [] if self._request.function is None else [["matches", total]]

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
