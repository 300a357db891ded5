"""The question `test_diff`: where a failing test and a passing one first do something else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cideldill_mcp.questions.asker import (
    FAILING,
    Asker,
    Bounds,
    Seen,
    invalid,
    noted,
    notes,
    reply,
    see,
    source_files,
)
from cideldill_mcp.questions.neighbours import candidates, relation
from cideldill_mcp.questions.registry import Question
from cideldill_mcp.questions.spelling import function_from_root, parsed
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.diff import Compared, Inside
    from cideldill_mcp.questions.differences import Noise, Side
    from cideldill_mcp.questions.divergence import Divergence, Found
    from cideldill_mcp.questions.listing import SourceFiles
    from cideldill_mcp.questions.recorded import Call

NAME = "test_diff"
AUTO = "auto"

_AT_ONCE = 2
"""Candidates that run beside each other."""

_TRIED = 2
"""Calls whose lines are compared, where inputs differ from the beginning."""

_TEXTS = ("diff", "divergence", "inside")

Vary = Callable[[TraceRequest], TraceRequest]
"""Makes the request of one side: what a side changes of the program is in there."""


def as_it_is(request: TraceRequest) -> TraceRequest:
    """The program as it is."""
    return request


@dataclass(frozen=True, slots=True)
class Diff:
    """What is asked.

    Attributes:
        nodeid: The test.
        against: A node id, or `auto`.
        function: Only calls of it, and what is in them, count; as for `breakpoint_add`.
        ignore: Globs over paths of values.
    """

    nodeid: str
    against: str = AUTO
    function: str | None = None
    ignore: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Check what can be checked without the tests.

        Raises:
            Refusal: `invalid_parameter`.
        """
        if self.function is not None:
            parsed(self.function)
        if self.against != AUTO and "::" not in self.against:
            raise invalid("against", self.against, "node id of a test (FILE::TEST), or auto")
        if any(not each.strip() for each in self.ignore):
            raise invalid("ignore", "", "globs over value paths, as order.items[*].id")


@dataclass(frozen=True, slots=True)
class Running:
    """A side that can run again.

    Attributes:
        seen: What its first run saw.
        nodeid: Its test.
        vary: See there.
    """

    seen: Seen
    nodeid: str
    vary: Vary = as_it_is


async def diff(asker: Asker, asked: Diff, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: As `asker.see`; `not_reproduced`: the test passes, or no other one does.
    """
    asked.check()
    bounds.check()
    questions = asker.questions
    nodeid = questions.nodeid(asked.nodeid)
    function = asked.function
    if function is not None:
        asked = replace(asked, function=function_from_root(questions.project, function))
    with questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        made = _Asking(asker, asked, question)
        compared = await made.compare(nodeid)
        lines = notes(question, made.left.seen, asker)

        def make(max_chars: int) -> Any:
            from cideldill_mcp.questions.diff import diff_answer

            return diff_answer(compared, max_chars)

        answer = await noted(lines, bounds.max_chars, make)
        return reply(question, made.left.nodeid, made.left.seen.test.outcome, answer)


class _Asking:
    """One question, from its processes to what is known."""

    left: Running

    def __init__(self, asker: Asker, asked: Diff, question: Question) -> None:
        self._asker, self._asked, self._question = asker, asked, question
        self._notes: list[str] = []
        self._sources: SourceFiles | None = None

    async def compare(self, nodeid: str) -> Compared:
        """Run both sides, and compare them."""
        against = self._asked.against
        again, right = await self._first_runs(nodeid)
        if right is None and against == AUTO:
            right = await self._passing()
        assert right is not None
        how = relation(self.left.nodeid, right.nodeid)
        if right.seen is again:
            how = "its second run"
        return await self._compared(right, again, how)

    # --- the sides --------------------------------------------------------------------------

    async def _first_runs(self, nodeid: str) -> tuple[Seen, Running | None]:
        """The left side twice, and the right one, if it is known already."""
        against = self._asked.against
        wanted = [nodeid, nodeid]
        if against != AUTO:
            wanted.append(self._asker.questions.nodeid(against))
        first, *others = await self._all(wanted)
        if len(first.recorded.tests) > 1:  # a file, say: of it the first that failed
            nodeid = first.test.nodeid
            first, *others = await self._all([nodeid, nodeid, *wanted[2:]])
        again = others[0]
        self.left = Running(first, first.test.nodeid)
        if (first.test.outcome in FAILING) != (again.test.outcome in FAILING):
            self._notes.append(
                f"flaky: {first.test.outcome} in the first run, {again.test.outcome} in the second"
            )
        if against != AUTO:
            return again, Running(others[1], others[1].test.nodeid)
        if first.test.outcome not in FAILING:
            if again.test.outcome not in FAILING:
                raise _passes(first, 2)
            self.left, again = Running(again, again.test.nodeid), first
        if again.test.outcome == "passed":
            return again, Running(again, again.test.nodeid)
        return again, None

    async def _all(self, nodeids: Iterable[str]) -> list[Seen]:
        """Runs of tests beside each other.

        Raises:
            Refusal: The first one of them; the others are ended.
        """
        tasks = [asyncio.ensure_future(self._run(nodeid)) for nodeid in nodeids]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _run(self, nodeid: str, vary: Vary = as_it_is) -> Seen:
        request = TraceRequest("", [nodeid], tree=True, states=True, neighbours=True)
        return await see(self._question, vary(request), _TEXTS)

    async def _passing(self) -> Running:
        """The nearest test that passes.

        Raises:
            Refusal: `not_reproduced`: none does.
        """
        left = self.left
        near = candidates(left.nodeid, left.seen.recorded.neighbours, self._before)
        outcomes = []
        while near:
            count = 1 if self._before(near[0]) == "passed" else _AT_ONCE
            now, near = near[:count], near[count:]
            runs = [self._run(nodeid) for nodeid in now]
            ended = await asyncio.gather(*runs, return_exceptions=True)
            for nodeid, seen in zip(now, ended, strict=True):
                if isinstance(seen, Seen):
                    if seen.test.outcome == "passed":
                        return Running(seen, nodeid)
                    outcomes.append(f"{nodeid}: {seen.test.outcome}")
                elif not isinstance(seen, Refusal):
                    raise seen
        tried = f" (tried {', '.join(outcomes)})" if outcomes else ""
        raise Refusal(
            ErrorCode.NOT_REPRODUCED,
            f"no test near {left.nodeid} passes{tried}: give one that does as against",
            nodeid=left.nodeid,
        )

    def _before(self, nodeid: str) -> str | None:
        earlier = self._asker.earlier(nodeid)
        return None if earlier is None else earlier.outcome

    # --- where they part --------------------------------------------------------------------

    async def _compared(self, right: Running, again: Seen, how: str) -> Compared:
        from cideldill_mcp.questions.diff import Compared
        from cideldill_mcp.questions.differences import Noise, Side
        from cideldill_mcp.questions.divergence import noise_between

        left = self.left
        ours = Side(left.seen.recorded, left.seen.test)
        theirs = Side(right.seen.recorded, right.seen.test)
        noise = Noise()
        if again is not right.seen and again.test.outcome == left.seen.test.outcome:
            noise = await asyncio.to_thread(noise_between, ours, Side(again.recorded, again.test))
        found = await asyncio.to_thread(self._found, ours, theirs, noise)
        first, inside = await self._first(found, right, is_noisy=bool(noise.count))
        return Compared(ours, theirs, how, found, first, inside, noise, self._notes)

    def _found(self, ours: Side, theirs: Side, noise: Noise) -> Found:
        from cideldill_mcp.questions.differences import Comparer, globs
        from cideldill_mcp.questions.divergence import Walk, everything

        function = self._asked.function
        name = None if function is None else parsed(function)

        def is_meant(call: Call) -> bool:
            code = call.code
            dotted = f"{code.module}.{code.qualname}"
            return name is not None and (
                name.matches(code.module, code.qualname, code.file) or name.is_end_of(dotted)
            )

        is_asked = everything if name is None else is_meant
        comparer = Comparer(ours, theirs, noise, globs(self._asked.ignore))
        is_same = ours.test.nodeid == theirs.test.nodeid
        return Walk(comparer, is_same=is_same, is_asked=is_asked).run()

    async def _first(
        self, found: Found, right: Running, *, is_noisy: bool
    ) -> tuple[Divergence | None, Inside | None]:
        """The first divergence, and the lines of its calls.

        Where no call with equal arguments did something else, it is the first one that took
        another branch.
        """
        if found.divergences:
            first = found.divergences[0]
            return first, await self._inside(first, right, is_noisy=is_noisy)
        inner = [each for each in found.suspects if not self._is_test(each)]
        tried = [*inner, *found.alike]
        branched = [each for each in tried if await asyncio.to_thread(self._has_branch, each)]
        for each in branched[:_TRIED]:
            inside = await self._inside(each, right, is_noisy=is_noisy)
            if inside is not None and inside.parting.branch:
                return each, inside
        return (inner[0], None) if inner else (None, None)

    def _is_test(self, suspect: Divergence) -> bool:
        from cideldill_mcp.questions.differences import Side

        seen = self.left.seen
        side = Side(seen.recorded, seen.test)
        return suspect.left is not None and side.key(suspect.left) == ""

    def _has_branch(self, suspect: Divergence) -> bool:
        call = suspect.left
        return call is not None and self._files().listing(call.code).has_branch

    def _files(self) -> SourceFiles:
        if self._sources is None:
            root = self.left.seen.recorded.rootdir or self._asker.questions.rootdir
            self._sources = source_files(self._asker, root)
        return self._sources

    async def _inside(self, first: Divergence, right: Running, *, is_noisy: bool) -> Inside | None:
        """Where the lines of two calls part; None if that is not known."""
        from cideldill_mcp.questions.diff import Inside
        from cideldill_mcp.questions.inside import differing_names, parting

        a, b = first.left, first.right
        if a is None or b is None or (a.code.file, a.code.first) != (b.code.file, b.code.first):
            return None
        wanted = [(self.left, a), (right, b), *([(self.left, a)] if is_noisy else ())]
        runs = [self._lines(side, call) for side, call in wanted]
        seen = await asyncio.gather(*runs, return_exceptions=True)
        focuses = [
            each.test.focus if isinstance(each, Seen) and _is_again(each, call, is_noisy) else None
            for each, (_, call) in zip(seen, wanted, strict=True)
        ]
        if any(focus is None or focus.call.code.first != a.code.first for focus in focuses):
            return None
        ours, theirs, *third = [focus for focus in focuses if focus is not None]
        listing = await asyncio.to_thread(self._files().listing, a.code)
        noise = differing_names(ours, third[0], listing) if third else set()
        found = parting(ours, theirs, listing, noise)
        return None if found is None else Inside(listing, found)

    async def _lines(self, side: Running, call: Call) -> Seen:
        """A further run of a side, with the lines of one call."""
        calls = side.seen.test.calls.values()
        same = [each for each in calls if each.code.dotted == call.code.dotted]
        request = TraceRequest(
            "", [side.nodeid], function=call.code.dotted, call=same.index(call) + 1
        )
        return await see(self._question, side.vary(request), _TEXTS)


def _is_again(seen: Seen, call: Call, is_noisy: bool) -> bool:
    """Whether the chosen call did in a further run what it did in the first one."""
    focus = seen.test.focus
    if focus is None or focus.call.error != call.error:
        return focus is not None and is_noisy
    return is_noisy or (focus.call.args, focus.call.result) == (call.args, call.result)


def _passes(seen: Seen, times: int) -> Refusal:
    nodeid = seen.test.nodeid
    return Refusal(
        ErrorCode.NOT_REPRODUCED,
        f"{nodeid} does not fail: {seen.test.outcome} {times} times; give the test to compare it "
        "with as against",
        nodeid=nodeid,
    )
