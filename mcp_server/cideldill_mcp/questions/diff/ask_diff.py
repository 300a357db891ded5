"""The question `test_diff`: where a failing test and a passing one first do something else."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cideldill_mcp.questions.asking.asker import (
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
from cideldill_mcp.questions.asking.neighbours import candidates, relation
from cideldill_mcp.questions.asking.registry import PLAIN, Question
from cideldill_mcp.questions.asking.spelling import function_from_root, parsed
from cideldill_mcp.questions.experiment.experiment_specs import (
    Experiment,
    Prepared,
    all_started_alike,
    experiment_of,
)
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.diff.diff_text import Compared, Inside
    from cideldill_mcp.questions.diff.differences import Noise, Side
    from cideldill_mcp.questions.diff.divergence import Divergence, Found
    from cideldill_mcp.questions.diff.inside import Texts
    from cideldill_mcp.questions.recordings.listing import SourceFiles
    from cideldill_mcp.questions.recordings.recorded import Call, Code

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

_TEXTS = ("diff.diff_text", "diff.divergence", "diff.inside")

_RUN = re.compile(r"r[1-9][0-9]*")

_AGAINST = "node id of a test (FILE::TEST), auto, a run (r3), or a record (a folder)"

AS_IT_IS = Prepared(Experiment("as it is"), PLAIN)
"""The program without a change."""


@dataclass(frozen=True, slots=True)
class Diff:
    """What is asked.

    Attributes:
        nodeid: The test.
        against: A node id, `auto`, a run of the server, the path of a record, or what is changed
            for a further run of the test itself.
        function: Only calls of it, and what is in them, count; as for `breakpoint_add`.
        ignore: Globs over paths of values.
    """

    nodeid: str
    against: str | Experiment = AUTO
    function: str | None = None
    ignore: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Check what can be checked without the tests.

        Raises:
            Refusal: `invalid_parameter`.
        """
        if self.function is not None:
            parsed(self.function)
        against = self.against
        is_known = isinstance(against, Experiment) or against == AUTO or "::" in against
        if not (is_known or is_past(against)):
            raise invalid("against", against, _AGAINST)
        if any(not each.strip() for each in self.ignore):
            raise invalid("ignore", "", "globs over value paths, as order.items[*].id")


def diff_against(value: Any) -> str | Experiment:
    """What a client compares with: a text as it is, an object as an experiment.

    Raises:
        Refusal: `invalid_parameter`, `missing_parameter`.
    """
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            value = json.loads(value)
    return value if isinstance(value, str) else experiment_of(value, "against")


def is_run(against: str) -> bool:
    """Whether a run of the server is meant."""
    return _RUN.fullmatch(against) is not None


def is_past(against: str | Experiment) -> bool:
    """Whether a run or a record is meant; node ids have `::`."""
    if isinstance(against, Experiment) or "::" in against or against == AUTO:
        return False
    return is_run(against) or os.path.exists(against)


@dataclass(frozen=True, slots=True)
class Running:
    """A side that can run again.

    Attributes:
        seen: What its first run saw.
        nodeid: Its test.
        prepared: What it changes of the program.
    """

    seen: Seen
    nodeid: str
    prepared: Prepared = AS_IT_IS


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two calls of one function, with their lines.

    Attributes:
        left: Of a further run of the left side.
        right: Of one of the right side.
        texts: The source of the function.
    """

    left: Side
    right: Side
    texts: Texts


async def diff(asker: Asker, asked: Diff, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: As `asker.see`; `not_reproduced`: the test passes, or no other one does; as
            `experiment`, and as `diff_record`.
    """
    asked.check()
    bounds.check()
    questions = asker.questions
    nodeid = questions.nodeid(asked.nodeid)
    function = asked.function
    if function is not None:
        asked = replace(asked, function=function_from_root(questions.project, function))
    with questions.begin(NAME, nodeid, bounds.timeout_s, asker.progress) as question:
        if is_past(asked.against):
            from cideldill_mcp.questions.diff.ask_diff_record import diff_record

            return await diff_record(asker, question, nodeid, asked, bounds)
        made = Comparing(asker, asked, question)
        compared = await made.compare(nodeid)
        lines = notes(question, made.left.seen, asker)

        def make(max_chars: int) -> Any:
            from cideldill_mcp.questions.diff.diff_text import diff_answer

            return diff_answer(compared, max_chars)

        answer = await noted(lines, bounds.max_chars, make)
        return reply(question, made.left.nodeid, made.left.seen.test.outcome, answer)


class Comparing:
    """One question, from its processes to what is known."""

    left: Running
    _seen_right: Seen

    def __init__(self, asker: Asker, asked: Diff, question: Question) -> None:
        self._asker, self._asked, self._question = asker, asked, question
        self._plain = self._changed = AS_IT_IS
        self._notes: list[str] = []
        self._sources: dict[str, SourceFiles] = {}

    async def compare(self, nodeid: str) -> Compared:
        """Run both sides, and compare them."""
        if isinstance(self._asked.against, Experiment):
            prepared = await asyncio.to_thread(self._prepared, self._asked.against)
            self._plain, self._changed = all_started_alike([AS_IT_IS, prepared])
        again, right = await self._first_runs(nodeid)
        if right is None:
            right = await self.passing(self.left.seen.recorded.neighbours)
        how = relation(self.left.nodeid, right.nodeid)
        if right.seen is again:
            how = "its second run"
        elif right.prepared is self._changed is not self._plain:
            how = f"with {self._named(right.prepared)}"
            self._notes += await asyncio.to_thread(self._notes_of_change, right)
        compared = await self.compared(right, again, how)
        return replace(compared, is_changed=right.prepared is not self._plain)

    # --- the sides --------------------------------------------------------------------------

    def _prepared(self, experiment: Experiment) -> Prepared:
        from cideldill_mcp.questions.experiment.experiment_places import Places

        return Places(self._asker).prepared(experiment)

    def _named(self, prepared: Prepared) -> str:
        """The name of an experiment, which may be a line of a patch."""
        return self._asker.questions.redactor().redact_text(prepared.experiment.name)

    def _notes_of_change(self, right: Running) -> list[str]:
        """What has to be known of the run with the change."""
        from cideldill_mcp.questions.experiment.trials import Trial

        trial = Trial(right.prepared.experiment, [right.seen.run], [right.seen.recorded])
        notes = [f"not applied: {each}" for each in trial.unapplied()] + trial.troubles()
        if _fails(self.left.seen) and _fails(right.seen) and trial.is_applied:
            notes.append("the test fails with it, too")
        ours, theirs = self._files(self.left), self._files(right)
        patched = [patch.file for patch in right.prepared.variation.patches or ()]
        if any(len(ours.lines(each)) != len(theirs.lines(each)) for each in patched):
            notes.append("lines of right are those of the patched text")
        return notes

    async def _first_runs(self, nodeid: str) -> tuple[Seen, Running | None]:
        """The left side twice, and the right one, if it is known already."""
        against = self._asked.against
        other = nodeid if isinstance(against, Experiment) else against
        right = [] if against == AUTO else [(self._asker.questions.nodeid(other), self._changed)]
        first, again, *others = await self._all([(nodeid, self._plain)] * 2 + right)
        if len(first.recorded.tests) > 1:  # a file, say: of it the first that failed
            nodeid = first.test.nodeid
            runs = [(nodeid, self._plain)] * 2
            if isinstance(against, Experiment):
                runs, others = [*runs, (nodeid, self._changed)], []
            first, again, *others = [*await self._all(runs), *others]
        nodeid = first.test.nodeid
        if _fails(first) != _fails(again):
            one, other = first.test.outcome, again.test.outcome
            self._notes.append(f"flaky: {one} in one of two runs, {other} in the other one")
        if not _fails(first) and _fails(again):
            first, again = again, first
        self.left = Running(first, nodeid, self._plain)
        if others:
            return again, Running(others[0], others[0].test.nodeid, self._changed)
        if not _fails(first):
            raise _passes(first)
        return again, Running(again, nodeid) if again.test.outcome == "passed" else None

    async def _all(
        self, wanted: Iterable[tuple[str, Prepared]], states_from: int = 0
    ) -> list[Seen]:
        """Runs of tests beside each other.

        Raises:
            Refusal: The first one of them; the others are ended.
        """
        tasks = [asyncio.ensure_future(self.run(*each, states_from)) for each in wanted]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def run(self, nodeid: str, prepared: Prepared = AS_IT_IS, states_from: int = 0) -> Seen:
        request = TraceRequest(
            "",
            [nodeid],
            tree=True,
            states=True,
            neighbours=True,
            states_from=states_from,
            failure=True,
        )
        return await self._see(nodeid, request, prepared)

    async def _see(self, nodeid: str, request: TraceRequest, prepared: Prepared) -> Seen:
        """A run of a side; with a change of the order, of several tests the one in question.

        Raises:
            Refusal: As `see`.
        """
        request = prepared.request(request)
        try:
            seen = await see(self._question, request, _TEXTS, variation=prepared.variation)
        except Refusal as refusal:
            if prepared is self._plain:
                raise
            message = f"with {self._named(prepared)}: {refusal.message}"
            raise Refusal(refusal.code, message, **refusal.extra) from refusal
        if not prepared.experiment.order:
            return seen
        if nodeid not in seen.recorded.tests:
            message = f"order does not have {nodeid}"
            raise Refusal(ErrorCode.TEST_NOT_FOUND, message, nodeid=nodeid)
        return replace(seen, test=seen.recorded.tests[nodeid])

    async def passing(self, others: Sequence[str]) -> Running:
        """The nearest of some tests that passes.

        Raises:
            Refusal: `not_reproduced`: none does.
        """
        left = self.left
        before = {each: self._before(each) for each in others}
        near = await asyncio.to_thread(candidates, left.nodeid, others, before.get)
        outcomes = []
        while near:
            count = 1 if self._before(near[0]) == "passed" else _AT_ONCE
            now, near = near[:count], near[count:]
            runs = [self.run(nodeid) for nodeid in now]
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

    async def compared(self, right: Running, again: Seen, how: str) -> Compared:
        from cideldill_mcp.questions.diff.diff_text import Compared
        from cideldill_mcp.questions.diff.differences import Noise

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
        at_first, is_itself = found, right.seen is again
        for _ in range(_ROUNDS):
            if not found.divergences:
                break
            first = found.divergences[0]
            if is_itself and found is not at_first and self._is_test(first):
                break  # it fails once and passes once: that is known
            pair = await self._again(first, right)
            if pair is None or not self._has_changed(first, pair, noise):
                inside = None if pair is None else await self._inside(first, pair)
                first = first if pair is None else self._refined(first, pair, noise)
                return Compared(ours, theirs, how, found, first, inside, noise, self._notes)
            found = await asyncio.to_thread(self._found, ours, theirs, noise)
        if is_itself and at_first.divergences:
            # What differs from run to run may be the reason: nothing else is.
            first = at_first.divergences[0]
            return Compared(ours, theirs, how, at_first, first, None, Noise(), self._notes)
        first_branch, inside = await self._first_branch(found, right)
        return Compared(ours, theirs, how, found, first_branch, inside, noise, self._notes)

    async def _walked(self, right: Running, again: Seen, noise: Noise) -> Found:
        """Where both sides part; noise is added to what is known."""
        from cideldill_mcp.questions.diff.divergence import noise_between

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

        ours = self.left.nodeid, self._plain
        seen = await self._all([ours, ours, (right.nodeid, right.prepared)], number)
        earlier = (self.left.seen, again, right.seen)
        if any(
            now.test.outcome != old.test.outcome for now, old in zip(seen, earlier, strict=True)
        ):
            return None
        self.left = replace(self.left, seen=seen[0])
        return replace(right, seen=seen[2]), seen[1]

    def _found(self, ours: Side, theirs: Side, noise: Noise) -> Found:
        from cideldill_mcp.questions.diff.differences import Comparer
        from cideldill_mcp.questions.diff.divergence import Walk, everything

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
        inner = [suspect for suspect in found.suspects if not self._is_test(suspect)]
        tried = [*inner, *found.alike]
        branched = [each for each in tried if await asyncio.to_thread(self._has_branch, each)]
        for divergence in branched[:_TRIED]:
            pair = await self._again(divergence, right)
            inside = None if pair is None else await self._inside(divergence, pair)
            if inside is not None and inside.parting.has_branch:
                return divergence, inside
        return (inner[0], None) if inner else (None, None)

    @property
    def _ignored(self) -> re.Pattern[str] | None:
        from cideldill_mcp.questions.diff.differences import globs

        return globs(self._asked.ignore)

    def _is_test(self, suspect: Divergence) -> bool:
        return suspect.left is not None and _side(self.left.seen).key(suspect.left) == ""

    def _has_branch(self, suspect: Divergence) -> bool:
        call = suspect.left
        return call is not None and self._files(self.left).listing(call.code).has_branch

    def _files(self, side: Running) -> SourceFiles:
        """The sources of a side."""
        name = side.prepared.experiment.name
        if name not in self._sources:
            root = side.seen.recorded.rootdir or self._asker.questions.rootdir
            patches = side.prepared.variation.patches
            self._sources[name] = source_files(self._asker, root, patches)
        return self._sources[name]

    def _texts(self, left: Code, right: Code, side: Running) -> Texts | None:
        """The source of a function on both sides; None: these are two functions."""
        from cideldill_mcp.questions.diff.counterparts import Counterparts
        from cideldill_mcp.questions.diff.inside import Texts

        if left.file != right.file:
            return None
        ours, theirs = self._files(self.left), self._files(side)
        lines = Counterparts(ours.lines(left.file), theirs.lines(right.file))
        if not lines.are_one(left, right):
            return None
        return Texts(ours.listing(left), theirs.listing(right), lines)

    async def _again(self, first: Divergence, right: Running) -> _Pair | None:
        """Both sides again, with the lines of the divergent calls; None: they can't be had."""
        a, b = first.left, first.right
        if a is None or b is None:
            return None
        texts = await asyncio.to_thread(self._texts, a.code, b.code, right)
        if texts is None:
            return None
        wanted = [(self.left, a), (right, b)]
        runs = [self._lines(side, call) for side, call in wanted]
        sides = []
        seen = await asyncio.gather(*runs, return_exceptions=True)
        for (side, call), each in zip(wanted, seen, strict=True):
            if not isinstance(each, Seen):
                if not isinstance(each, Refusal):
                    raise each
                return None
            focus = each.test.focus
            if each.test.outcome != side.seen.test.outcome or focus is None:
                return None
            if focus.call.code.first != call.code.first:
                return None
            sides.append(_side(each))
        return _Pair(sides[0], sides[1], texts)

    def _has_changed(self, first: Divergence, pair: _Pair, noise: Noise) -> bool:
        """Whether the divergent calls did something else than before; that is noise, then."""
        from cideldill_mcp.questions.diff.divergence import noise_of_call

        changed = False
        earlier = _side(self.left.seen), _side(self._seen_right)
        now = pair.left, pair.right
        for call, before, side in zip((first.left, first.right), earlier, now, strict=True):
            focus = side.test.focus
            if call is not None and focus is not None:
                changed |= noise_of_call(noise, before, call, side, focus.call)
        return changed

    def _refined(self, first: Divergence, pair: _Pair, noise: Noise) -> Divergence:
        """The divergence with the insides of values, where these were too many at first."""
        from cideldill_mcp.questions.diff.differences import Comparer

        left, right = pair.left.test.focus, pair.right.test.focus
        if first.how != "outcome" or left is None or right is None:
            return first
        comparer = Comparer(pair.left, pair.right, noise, self._ignored)
        better = comparer.outcome(left.call, right.call)
        return replace(first, differences=tuple(better)) if better else first

    async def _inside(self, first: Divergence, pair: _Pair) -> Inside:
        """Where the lines of two calls part."""
        from cideldill_mcp.questions.diff.diff_text import Inside
        from cideldill_mcp.questions.diff.inside import differing_names, parting

        ours, theirs, texts = pair.left.test.focus, pair.right.test.focus, pair.texts
        assert first.left is not None
        assert ours is not None
        assert theirs is not None
        found = parting(ours, theirs, texts)
        if found.value is not None:  # which may be noise
            third = (await self._lines(self.left, first.left)).test.focus
            names = set() if third is None else differing_names(ours, third, texts)
            found = parting(ours, theirs, texts, names)
        return Inside(texts, found)

    async def _lines(self, side: Running, call: Call) -> Seen:
        """A further run of a side, with the lines of one call."""
        calls = side.seen.test.calls.values()
        same = [each for each in calls if each.code.dotted == call.code.dotted]
        number = same.index(call) + 1
        request = TraceRequest(
            "", [side.nodeid], function=call.code.dotted, call=number, states=True
        )
        return await self._see(side.nodeid, request, side.prepared)


def _side(seen: Seen) -> Side:
    from cideldill_mcp.questions.diff.differences import Side

    return Side(seen.recorded, seen.test, seen.run.cut is not None)


def _end_of_states(seen: Seen) -> int:
    """The number of the last call whose states are known, if not all are; else 0."""
    if not any(limit == "states" for limit, _ in seen.recorded.reached):
        return 0
    calls = seen.test.calls.values()
    return max((call.number for call in calls if any((call.begun or {}).values())), default=0)


def _fails(seen: Seen) -> bool:
    """Whether a test failed, or its process died in it."""
    has_died = seen.test.outcome == "unfinished" and seen.run.cut is None
    return has_died or seen.test.outcome in FAILING


def _passes(seen: Seen) -> Refusal:
    nodeid = seen.test.nodeid
    if seen.test.outcome == "unfinished":
        message = f"{nodeid} did not end; give it more time (timeout_s)"
        return Refusal(ErrorCode.NOT_LIVE, message)
    return Refusal(
        ErrorCode.NOT_REPRODUCED,
        f"{nodeid} does not fail: {seen.test.outcome} 2 times; give the test to compare it "
        "with as against",
        nodeid=nodeid,
    )
