"""The question `test_why`: all that is to be found about one failing test, in one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from cideldill_mcp.questions.asking.asker import (
    FAILING,
    Asker,
    Bounds,
    Earlier,
    Seen,
    cut_notes,
    flakiness,
    noted,
    ran,
    reply,
    see,
    source_files,
)
from cideldill_mcp.questions.asking.neighbours import MOST_COMPARED, candidates
from cideldill_mcp.questions.asking.registry import Question
from cideldill_mcp.questions.texts.fitting import Answer, counted
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.recordings.listing import SourceFiles
    from cideldill_mcp.questions.recordings.recorded import Recorded
    from cideldill_mcp.questions.why.why_parts import Part

NAME = "test_why"

_TEXTS = ("why.why_text", "why.why_parts", "why.why_differs", "diff.divergence", "diff.inside")

_FAILING = FAILING | {"unfinished"}

_NEIGHBOURS_S = 20.0
"""Seconds that tests near the failing one may take."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Why:
    """What is asked.

    Attributes:
        nodeid: The test; of several the first that fails.
    """

    nodeid: str


async def why(asker: Asker, asked: Why, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: As `asker.see`; `not_reproduced`: the test passes.
    """
    bounds.check()
    nodeid = asker.questions.nodeid(asked.nodeid)
    with asker.questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        made = _Asking(asker, question)
        seen, parts = await made.parts(nodeid)
        lines = _notes(question, seen)
        lines += flakiness(asker, seen.test.nodeid, seen.test.outcome)

        def make(max_chars: int) -> Answer:
            from cideldill_mcp.questions.why.why_text import why_answer

            return why_answer(seen.recorded, seen.test, parts, made.files, max_chars)

        answer = await noted(lines, bounds.max_chars, make)
        return reply(question, seen.test.nodeid, seen.test.outcome, answer)


class _Asking:
    """One question, from its processes to its parts.

    Attributes:
        files: The sources of the project.
    """

    files: SourceFiles

    def __init__(self, asker: Asker, question: Question) -> None:
        self._asker, self._question = asker, question

    async def parts(self, nodeid: str) -> tuple[Seen, list[Part]]:
        """The failing test, and the parts that say something, in their order."""
        alone = await see(self._question, _request([nodeid]), _TEXTS)
        if len(alone.recorded.tests) > 1:  # a file, say: of it the first that failed
            alone = await see(self._question, _request([alone.test.nodeid]))
        root = alone.recorded.rootdir or self._asker.questions.rootdir
        self.files = source_files(self._asker, root)
        if alone.test.outcome in _FAILING:
            return alone, await self._with_path(alone, await self._of_failure(alone))
        seen, found = await self._of_order(alone)
        return seen, await self._with_path(seen, found)

    async def _of_failure(self, seen: Seen) -> list[Part | None]:
        """A test that fails when it runs alone."""
        from cideldill_mcp.questions.why.order_part import brittle_part
        from cideldill_mcp.questions.why.why_differs import against_neighbour
        from cideldill_mcp.questions.why.why_parts import differs_part, only_here_part

        parts = await self._first_parts(seen)
        near = await self._neighbours(seen)
        tests, test_files = list(near.tests.values()), seen.recorded.test_files
        if not (seen.recorded.cut or near.cut):
            parts.append(
                await asyncio.to_thread(only_here_part, seen.test, tests, self.files, test_files)
            )
        known = {test.nodeid: Earlier("", test.outcome) for test in tests}
        asker = replace(self._asker, earlier=known.get) if known else self._asker
        # Those that failed a moment ago need not run again, each in a process of its own.
        failing = {test.nodeid for test in tests if test.outcome in _FAILING}
        others = [neighbour for neighbour in seen.recorded.neighbours if neighbour not in failing]
        if others:
            comparing = against_neighbour(asker, self._question, seen, others)
            compared = await _unless_refused(comparing)
            if compared is not None:
                parts.append(await asyncio.to_thread(differs_part, compared))
        parts.append(brittle_part(seen.test, tests))
        parts.append(await self._edited(seen))
        return parts

    async def _edited(self, seen: Seen) -> Part | None:
        from cideldill_mcp.questions.why.edited import edits
        from cideldill_mcp.questions.why.why_parts import edited_part

        files, redactor = self.files, self._asker.questions.redactor()
        remarks = await edits(files.rootdir, seen.test, files, redactor, seen.recorded.test_files)
        return edited_part(remarks)

    async def _neighbours(self, seen: Seen) -> Recorded:
        """Tests near the failing one, and itself among them, with the lines that they ran."""
        from cideldill_mcp.questions.recordings.recorded import Recorded

        nodeid, others = seen.test.nodeid, seen.recorded.neighbours
        before = {each: self._before(each) for each in others}
        near = await asyncio.to_thread(candidates, nodeid, others, before.get, MOST_COMPARED)
        if not near:
            return Recorded()
        request = TraceRequest("", [*near, nodeid], ran=True)
        _, recorded = await ran(self._question, request, within_s=_NEIGHBOURS_S)
        return recorded

    def _before(self, nodeid: str) -> str | None:
        earlier = self._asker.earlier(nodeid)
        return None if earlier is None else earlier.outcome

    async def _first_parts(self, seen: Seen) -> list[Part | None]:
        from cideldill_mcp.questions.why.why_parts import failure_part, swallowed_part

        return [
            await asyncio.to_thread(failure_part, seen.test, self.files),
            await asyncio.to_thread(swallowed_part, seen.test),
        ]

    async def _with_path(self, seen: Seen, parts: list[Part | None]) -> list[Part]:
        """All parts, in order; the path is made last, as it shows what the others are about."""
        from cideldill_mcp.questions.why.why_parts import path_part

        there = [each for each in parts if each is not None]
        findings = [each for part in there for each in part.evidence]
        path = await asyncio.to_thread(path_part, seen.recorded, seen.test, self.files, findings)
        return there if path is None else [there[0], path, *there[1:]]

    async def _of_order(self, alone: Seen) -> tuple[Seen, list[Part | None]]:
        """A test that passes when it runs alone: does it fail behind others?

        Raises:
            Refusal: `not_reproduced`.
        """
        from cideldill_mcp.questions.why.ask_order import OrderSearch
        from cideldill_mcp.questions.why.order_part import order_part
        from cideldill_mcp.questions.why.why_differs import same_test
        from cideldill_mcp.questions.why.why_parts import differs_part

        nodeid = alone.test.nodeid
        search = OrderSearch(self._question, nodeid)
        order = await search.run() if alone.test.outcome == "passed" else None
        if order is None:
            raise _passes(alone, search.runs)
        together = _request([*order.before, nodeid])
        seen = await see(self._question, together, nodeid=nodeid)
        if seen.test.outcome not in _FAILING:
            raise _passes(alone, search.runs + 1)
        parts = await self._first_parts(seen)
        compared = await _unless_refused(
            same_test(self._asker, self._question, seen, alone, order.before)
        )
        if compared is not None:
            parts.append(await asyncio.to_thread(differs_part, compared))
        parts.append(await asyncio.to_thread(order_part, order, seen, compared, self.files))
        parts.append(await self._edited(seen))
        return seen, parts


def _notes(question: Question, seen: Seen) -> list[str]:
    """What has to be known of an answer for which there was not the time."""
    if seen.run.cut is not None:
        return cut_notes(question, seen.run, "the test was")
    return cut_notes(question, replace(seen.run, cut=question.cut), "tests near it were")


def _request(nodeids: list[str]) -> TraceRequest:
    return TraceRequest(
        "",
        nodeids,
        tree=True,
        states=True,
        neighbours=True,
        failure=True,
        ran=True,
        caught=True,
    )


async def _unless_refused(asked: Awaitable[_Found]) -> _Found | None:
    """What a question finds; None: it has no answer here."""
    try:
        return await asked
    except Refusal:
        return None


def _passes(seen: Seen, more: int) -> Refusal:
    nodeid, outcome = seen.test.nodeid, seen.test.outcome
    others = f", and in {counted(more, 'run')} with other tests before it" if more else ""
    return Refusal(
        ErrorCode.NOT_REPRODUCED,
        f"{nodeid} {outcome} when it runs alone{others}",
        nodeid=nodeid,
        outcome=outcome,
    )
