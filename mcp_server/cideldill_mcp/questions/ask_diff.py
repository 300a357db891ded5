"""The question `test_diff`: where a failing test and a passing one first do something else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
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

_WINDOWS = 4
"""So many times both sides run for the states of later calls, where these have no room at once."""

_ROUNDS = 3
"""So many calls are found to be noise in a further run, at most."""

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


async def diff(asker: Asker, asked: Diff, bounds: Bounds, vary: Vary = as_it_is) -> dict[str, Any]:
    """The reply to the question.

    Args:
        asker: Who asks.
        asked: What is asked.
        bounds: Of the answer.
        vary: What is changed of the program on the right side; `against` may be the same test then.

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
        made = _Asking(asker, asked, question, vary)
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
    _seen_right: Seen

    def __init__(self, asker: Asker, asked: Diff, question: Question, vary: Vary) -> None:
        self._asker, self._asked, self._question = asker, asked, question
        self._vary = vary
        self._notes: list[str] = []
        self._sources: SourceFiles | None = None

    async def compare(self, nodeid: str) -> Compared:
        """Run both sides, and compare them."""
        again, right = await self._first_runs(nodeid)
        if right is None:
            right = await self._passing()
        how = relation(self.left.nodeid, right.nodeid)
        if right.seen is again:
            how = "its second run"
        return await self._compared(right, again, how)

    # --- the sides --------------------------------------------------------------------------

    async def _first_runs(self, nodeid: str) -> tuple[Seen, Running | None]:
        """The left side twice, and the right one, if it is known already."""
        against = self._asked.against
        right = [] if against == AUTO else [(self._asker.questions.nodeid(against), self._vary)]
        first, again, *others = await self._all([(nodeid, as_it_is)] * 2 + right)
        if len(first.recorded.tests) > 1:  # a file, say: of it the first that failed
            nodeid = first.test.nodeid
            first, again = await self._all([(nodeid, as_it_is)] * 2)
        nodeid = first.test.nodeid
        if _fails(first) != _fails(again):
            one, other = first.test.outcome, again.test.outcome
            self._notes.append(f"flaky: {one} in one of two runs, {other} in the other one")
        if not _fails(first) and _fails(again):
            first, again = again, first
        self.left = Running(first, nodeid)
        if others:
            return again, Running(others[0], others[0].test.nodeid, self._vary)
        if not _fails(first):
            raise _passes(first, 2)
        return again, Running(again, nodeid) if again.test.outcome == "passed" else None

    async def _all(self, wanted: Iterable[tuple[str, Vary]]) -> list[Seen]:
        """Runs of tests beside each other.

        Raises:
            Refusal: The first one of them; the others are ended.
        """
        tasks = [asyncio.ensure_future(self._run(*each)) for each in wanted]
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
        from cideldill_mcp.questions.differences import Noise

        noise = Noise()
        found = await self._walked(right, again, noise)
        for _ in range(_WINDOWS - 1):
            later = await self._later(found, right, again)
            if later is None:
                break
            right, again = later
            found = await self._walked(right, again, noise)
        ours, theirs = _side(self.left.seen), _side(right.seen)
        self._seen_right = right.seen
        for _ in range(_ROUNDS):
            if not found.divergences:
                break
            first = found.divergences[0]
            pair = await self._again(first, right)
            if pair is None or not self._has_changed(first, pair, noise):
                inside = None if pair is None else await self._inside(first, pair)
                first = first if pair is None else self._refined(first, pair, noise)
                return Compared(ours, theirs, how, found, first, inside, noise, self._notes)
            found = await asyncio.to_thread(self._found, ours, theirs, noise)
        first_branch, inside = await self._first_branch(found, right)
        return Compared(ours, theirs, how, found, first_branch, inside, noise, self._notes)

    async def _walked(self, right: Running, again: Seen, noise: Noise) -> Found:
        """Where both sides part; noise is added to what is known."""
        from cideldill_mcp.questions.divergence import noise_between

        ours, theirs = _side(self.left.seen), _side(right.seen)
        if again is not right.seen and again.test.outcome == self.left.seen.test.outcome:
            noise |= await asyncio.to_thread(noise_between, ours, _side(again))
        return await asyncio.to_thread(self._found, ours, theirs, noise)

    async def _later(
        self, found: Found, right: Running, again: Seen
    ) -> tuple[Running, Seen] | None:
        """The right side and the second left one with the states of later calls; all run again.

        None: what parted first has been found, or that can't be had.
        """
        number = _end_of_states(self.left.seen)
        is_found = bool(found.divergences) and not found.begins_behind(number)
        has_time = self._question.seconds < self._question.timeout_s / 3
        if not number or is_found or again is right.seen or not has_time:
            return None

        def of_later_calls(vary: Vary) -> Vary:
            return lambda request: replace(vary(request), states_from=number)

        ours = (self.left.nodeid, of_later_calls(as_it_is))
        seen = await self._all([ours, ours, (right.nodeid, of_later_calls(right.vary))])
        earlier = (self.left.seen, again, right.seen)
        if any(
            now.test.outcome != old.test.outcome for now, old in zip(seen, earlier, strict=True)
        ):
            return None
        self.left = replace(self.left, seen=seen[0])
        return replace(right, seen=seen[2]), seen[1]

    def _found(self, ours: Side, theirs: Side, noise: Noise) -> Found:
        from cideldill_mcp.questions.differences import Comparer
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
        comparer = Comparer(ours, theirs, noise, self._ignored)
        is_same = ours.test.nodeid == theirs.test.nodeid
        return Walk(comparer, is_same=is_same, is_asked=is_asked).run()

    async def _first_branch(
        self, found: Found, right: Running
    ) -> tuple[Divergence | None, Inside | None]:
        """Where no call with equal arguments did something else: what took another branch first."""
        if found.divergences:
            return found.divergences[0], None
        inner = [each for each in found.suspects if not self._is_test(each)]
        tried = [*inner, *found.alike]
        branched = [each for each in tried if await asyncio.to_thread(self._has_branch, each)]
        for each in branched[:_TRIED]:
            pair = await self._again(each, right)
            inside = None if pair is None else await self._inside(each, pair)
            if inside is not None and inside.parting.branch:
                return each, inside
        return (inner[0], None) if inner else (None, None)

    @property
    def _ignored(self) -> re.Pattern[str] | None:
        from cideldill_mcp.questions.differences import globs

        return globs(self._asked.ignore)

    def _is_test(self, suspect: Divergence) -> bool:
        return suspect.left is not None and _side(self.left.seen).key(suspect.left) == ""

    def _has_branch(self, suspect: Divergence) -> bool:
        call = suspect.left
        return call is not None and self._files().listing(call.code).has_branch

    def _files(self) -> SourceFiles:
        if self._sources is None:
            root = self.left.seen.recorded.rootdir or self._asker.questions.rootdir
            self._sources = source_files(self._asker, root)
        return self._sources

    async def _again(self, first: Divergence, right: Running) -> list[Side] | None:
        """Both sides again, with the lines of the divergent calls; None: they can't be had."""
        a, b = first.left, first.right
        if a is None or b is None or (a.code.file, a.code.first) != (b.code.file, b.code.first):
            return None
        wanted = [(self.left, a), (right, b)]
        runs = [self._lines(side, call) for side, call in wanted]
        sides = []
        seen = await asyncio.gather(*runs, return_exceptions=True)
        for (side, _), each in zip(wanted, seen, strict=True):
            if not isinstance(each, Seen):
                if not isinstance(each, Refusal):
                    raise each
                return None
            focus = each.test.focus
            if each.test.outcome != side.seen.test.outcome or focus is None:
                return None
            if focus.call.code.first != a.code.first:
                return None
            sides.append(_side(each))
        return sides

    def _has_changed(self, first: Divergence, pair: list[Side], noise: Noise) -> bool:
        """Whether the divergent calls did something else than before; that is noise, then."""
        from cideldill_mcp.questions.divergence import noise_of_call

        changed = False
        earlier = _side(self.left.seen), _side(self._seen_right)
        for call, before, side in zip((first.left, first.right), earlier, pair, strict=False):
            focus = side.test.focus
            if call is not None and focus is not None:
                changed |= noise_of_call(noise, before, call, side, focus.call)
        return changed

    def _refined(self, first: Divergence, pair: list[Side], noise: Noise) -> Divergence:
        """The divergence with the insides of values, where these were too many at first."""
        from cideldill_mcp.questions.differences import Comparer

        left, right, *_ = (side.test.focus for side in pair)
        if first.how != "outcome" or left is None or right is None:
            return first
        comparer = Comparer(pair[0], pair[1], noise, self._ignored)
        better = comparer.outcome(left.call, right.call)
        return replace(first, differences=tuple(better)) if better else first

    async def _inside(self, first: Divergence, pair: list[Side]) -> Inside | None:
        """Where the lines of two calls part; None if they don't."""
        from cideldill_mcp.questions.diff import Inside
        from cideldill_mcp.questions.inside import differing_names, parting

        ours, theirs = [each.test.focus for each in pair if each.test.focus is not None]
        assert first.left is not None
        listing = await asyncio.to_thread(self._files().listing, first.left.code)
        found = parting(ours, theirs, listing)
        if found is not None and found.value is not None:  # which may be noise
            third = (await self._lines(self.left, first.left)).test.focus
            names = set() if third is None else differing_names(ours, third, listing)
            found = parting(ours, theirs, listing, names)
        return None if found is None else Inside(listing, found)

    async def _lines(self, side: Running, call: Call) -> Seen:
        """A further run of a side, with the lines of one call."""
        calls = side.seen.test.calls.values()
        same = [each for each in calls if each.code.dotted == call.code.dotted]
        number = same.index(call) + 1
        request = TraceRequest(
            "", [side.nodeid], function=call.code.dotted, call=number, states=True
        )
        return await see(self._question, side.vary(request), _TEXTS)


def _side(seen: Seen) -> Side:
    from cideldill_mcp.questions.differences import Side

    return Side(seen.recorded, seen.test, seen.run.cut is not None)


def _end_of_states(seen: Seen) -> int:
    """The number of the last call whose states are known, if not all are; else 0."""
    if not any(limit == "states" for limit, _ in seen.recorded.reached):
        return 0
    calls = seen.test.calls.values()
    return max((each.number for each in calls if any((each.begun or {}).values())), default=0)


def _fails(seen: Seen) -> bool:
    """Whether a test failed, or its process died in it."""
    has_died = seen.test.outcome == "unfinished" and seen.run.cut is None
    return has_died or seen.test.outcome in FAILING


def _passes(seen: Seen, times: int) -> Refusal:
    nodeid = seen.test.nodeid
    if seen.test.outcome == "unfinished":
        message = f"{nodeid} did not end; give it more time (timeout_s)"
        return Refusal(ErrorCode.NOT_LIVE, message)
    return Refusal(
        ErrorCode.NOT_REPRODUCED,
        f"{nodeid} does not fail: {seen.test.outcome} {times} times; give the test to compare it "
        "with as against",
        nodeid=nodeid,
    )


async def against_neighbour(asker: Asker, question: Question, seen: Seen) -> Compared:
    """Compare a failing test that has run already with the nearest one that passes.

    Args:
        asker: Who asks.
        question: Runs the others.
        seen: The failing test, with its calls and their states.

    Raises:
        Refusal: As `diff`.
    """
    nodeid = seen.test.nodeid
    made = _Asking(asker, Diff(nodeid), question, as_it_is)
    made.left = Running(seen, nodeid)
    again, right = await asyncio.gather(made._run(nodeid), made._passing())
    return await made._compared(right, again, relation(nodeid, right.nodeid))


async def same_test(
    asker: Asker, question: Question, seen: Seen, alone: Seen, before: Sequence[str]
) -> Compared:
    """Compare a test that fails behind others with itself alone.

    Args:
        asker: Who asks.
        question: Runs it again.
        seen: It failed.
        alone: It passed.
        before: The tests that have to run before it.

    Raises:
        Refusal: As `diff`.
    """
    nodeid = seen.test.nodeid

    def behind(request: TraceRequest) -> TraceRequest:
        return replace(request, nodeids=[*before, nodeid])

    made = _Asking(asker, Diff(nodeid, nodeid), question, as_it_is)
    made.left = Running(seen, nodeid, behind)
    again = await made._run(nodeid, behind)
    return await made._compared(Running(alone, nodeid), again, "alone")
