"""Which test has to run before another one so that it fails; for a test that passes alone.

Its file is run first, then all tests; the tests before it are halved until one is left. Each step
is a process of its own, so that nothing is left of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from cideldill_mcp.questions.asking.asker import FAILING, ran
from cideldill_mcp.questions.asking.registry import Question
from pytest_cideldill.protocol.trace_rows import TraceRequest

_SHARE = 0.5
"""The part of a question's time that the search may take."""


@dataclass(frozen=True, slots=True)
class Order:
    """How the order of tests decides about one.

    Attributes:
        before: The tests that have to run before it, so that it fails.
        is_least: Whether it passes without any of them; else the search had no time.
        runs: Processes that the search took.
    """

    before: list[str]
    is_least: bool
    runs: int


class OrderSearch:
    """Looks for the tests that make another one fail.

    Args:
        question: Runs the tests.
        nodeid: The test, which passes alone.
    """

    def __init__(self, question: Question, nodeid: str) -> None:
        self._question = question
        self._nodeid = nodeid
        self.runs = 0

    async def run(self) -> Order | None:
        """The tests before it; None: it passes in its file and among all tests, too."""
        file = self._nodeid.partition("::")[0]
        for selected in ([file], []):
            before = await self._before(selected)
            if before is not None:
                return await self._narrowed(before)
        return None

    async def _before(self, selected: list[str]) -> list[str] | None:
        """The tests that ran before it, if it failed; None: it passed, or there is no time."""
        outcomes = await self._outcomes(selected)
        if outcomes.get(self._nodeid) not in FAILING:
            return None
        names = list(outcomes)
        return names[: names.index(self._nodeid)]

    async def _narrowed(self, before: list[str]) -> Order:
        """Halve the tests before it as long as one half is enough."""
        while len(before) > 1:
            if not self._has_time:
                return Order(before, False, self.runs)
            middle = (len(before) + 1) // 2
            for half in (before[middle:], before[:middle]):  # what ran last is the likelier one
                outcomes = await self._outcomes([*half, self._nodeid])
                if outcomes.get(self._nodeid) in FAILING:
                    before = half
                    break
            else:
                return Order(before, False, self.runs)
        return Order(before, True, self.runs)

    @property
    def _has_time(self) -> bool:
        question = self._question
        return question.cut is None and question.seconds < question.timeout_s * _SHARE

    async def _outcomes(self, nodeids: list[str]) -> dict[str, str]:
        """What became of tests, in the order in which they ran."""
        if not self._has_time:
            return {}
        self.runs += 1
        within = self._question.timeout_s * _SHARE - self._question.seconds
        _, recorded = await ran(self._question, TraceRequest("", nodeids), within_s=within)
        return {name: test.outcome for name, test in recorded.tests.items()}
