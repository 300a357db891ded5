"""The question `test_experiment`: what becomes of tests if this were otherwise?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cideldill_mcp.questions.asking.asker import Asker, Bounds, flakiness, invalid, reply
from cideldill_mcp.questions.asking.registry import PLAIN, Question
from cideldill_mcp.questions.experiment.experiment_specs import (
    MOST_REPEATS,
    MOST_TESTS,
    Experiment,
    Prepared,
    all_started_alike,
)
from cideldill_mcp.questions.experiment.forks import Part, forked, suitable
from cideldill_mcp.questions.experiment.trials import Trial, fails, first_failing, summary
from pytest_cideldill.errors import Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

NAME = "test_experiment"

_NO_FAILURE = "nothing to suggest: no test fails"
_NO_SUGGESTION = (
    "nothing to suggest: no call of your code gave a side of a failed == of literals, or for the "
    "same arguments another literal in a test that passes"
)
BASELINE = "baseline"

_MOST_EXPRESSIONS = 20


@dataclass(frozen=True, slots=True)
class Experiments:
    """What is asked.

    Attributes:
        nodeids: The tests, the failing one first.
        experiments: What is changed, each in processes of its own.
        repeat: How often each of them, and the baseline, is run.
        evaluate: Expressions, at the failure or at the end of the test's function.
        suggest: Whether experiments of the answer's own are added.
        fresh: Whether each runs in a process of its own, even where a fork would do.
    """

    nodeids: list[str]
    experiments: list[Experiment] = field(default_factory=list)
    repeat: int = 1
    evaluate: list[str] = field(default_factory=list)
    suggest: bool = False
    fresh: bool = False

    def check(self) -> None:
        """Check what can be checked without the sources.

        Raises:
            Refusal: `invalid_parameter`.
        """
        if not 1 <= len(self.nodeids) <= MOST_TESTS:
            raise invalid("nodeids", len(self.nodeids), f"1 to {MOST_TESTS} of them")
        if not self.experiments and not self.suggest:
            raise invalid("experiments", "[]", "at least one, or suggest: true")
        if not 1 <= self.repeat <= MOST_REPEATS:
            raise invalid("repeat", self.repeat, f"1 to {MOST_REPEATS}")
        if len(self.evaluate) > _MOST_EXPRESSIONS:
            raise invalid("evaluate", len(self.evaluate), f"at most {_MOST_EXPRESSIONS}")
        for each in self.evaluate:
            try:
                compile(each.strip(), "<evaluate>", "exec")
            except (SyntaxError, ValueError) as error:
                raise invalid("evaluate", each, f"expressions ({error})") from error


async def experiment(asker: Asker, asked: Experiments, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: `test_not_found`, `function_not_found`, `file_not_found`, `invalid_line`,
            `invalid_source`, `invalid_parameter`; `not_live`: no test has begun.
    """
    asked.check()
    bounds.check()
    questions = asker.questions
    nodeids = [questions.nodeid(nodeid) for nodeid in asked.nodeids]
    with questions.begin(NAME, nodeids[0], bounds.timeout_s, asker.progress) as question:
        prepared = await asyncio.to_thread(_prepared, asker, asked.experiments)
        base = TraceRequest("", nodeids, evaluate=asked.evaluate, tree=asked.suggest)
        tasks, others = _all_tried(question, base, prepared, asked)
        try:
            from cideldill_mcp.questions.experiment.experiment_table import table

            baseline = await tasks[0]
            if not baseline.nodeids:
                raise await asyncio.to_thread(_refusal, question, base, baseline)
            trials = [await each for each in tasks[1:]]
        finally:
            for task in (*tasks, *others):
                task.cancel()
            await asyncio.gather(*tasks, *others, return_exceptions=True)
        first = first_failing(baseline) or next(iter(baseline.nodeids))
        notes = _notes(question) + flakiness(asker, first, baseline.outcomes(first)[0])
        if asked.suggest:
            suggested = await _suggested(question, base, baseline, asked.repeat)
            trials += suggested
            notes += (
                [] if suggested else [_NO_SUGGESTION if fails(baseline, first) else _NO_FAILURE]
            )
        answer = await asyncio.to_thread(table, baseline, trials, notes, bounds.max_chars)
        cause = answer.fields.get("cause")
        for trial in trials:
            what = f"{question.id} {trial.name}"
            questions.ledger.add(what, first, summary(baseline, trial, cause))
        await questions.ledger.save()
        return reply(question, first, baseline.verdict(first), answer)


def _prepared(asker: Asker, experiments: Sequence[Experiment]) -> list[Prepared]:
    from cideldill_mcp.questions.experiment.experiment_places import Places

    places = Places(asker)
    return [places.prepared(each) for each in experiments]


def _notes(question: Question) -> list[str]:
    """What has to be known of an answer, as lines above it."""
    if question.cut == "timeout":
        return [f"partial: the time was over after {question.seconds:.0f} s"]
    if question.cut == "stopped":
        return [f"partial: {question.id} was stopped after {question.seconds:.0f} s"]
    return []


# --- processes ----------------------------------------------------------------------------------


def _all_tried(
    question: Question, base: TraceRequest, prepared: Sequence[Prepared], asked: Experiments
) -> tuple[list[asyncio.Task[Trial]], list[asyncio.Task[Any]]]:
    """The baseline, then all experiments, and tasks that they wait for.

    They are made in forks where that comes to the same.
    """
    first, *prepared = all_started_alike([Prepared(Experiment(BASELINE), PLAIN), *prepared])
    baseline = asyncio.create_task(_tried(question, base, first, asked.repeat))
    # Forks have one start, and with it its random numbers: several are not several runs.
    is_warm = not asked.fresh and asked.repeat == 1 and first.variation == PLAIN
    numbers = suitable(question, prepared) if is_warm else []
    warm = None
    if numbers:
        warm = asyncio.create_task(forked(question, base, prepared, numbers, baseline))
    tasks = [baseline]
    for number, each in enumerate(prepared):
        parts = warm if number in numbers else None
        tasks.append(
            asyncio.create_task(_tried_warm(question, base, each, number, parts))
            if parts is not None
            else asyncio.create_task(_tried(question, base, each, asked.repeat))
        )
    return tasks, [] if warm is None else [warm]


async def _tried_warm(
    question: Question,
    base: TraceRequest,
    prepared: Prepared,
    number: int,
    parts: asyncio.Task[dict[int, Part]],
) -> Trial:
    """What a fork left of an experiment; if that is nothing, a process is started for it."""
    part = (await asyncio.shield(parts)).get(number)
    if part is None:
        return await _tried(question, base, prepared, 1)
    run, recorded = part
    trial = Trial(prepared.experiment, [run], [recorded])
    if recorded.refusal is not None:
        trial.problem = recorded.refusal[1]
    return trial


async def _tried(question: Question, base: TraceRequest, prepared: Prepared, repeat: int) -> Trial:
    """All processes of one experiment."""
    from cideldill_mcp.questions.recordings.row_reader import read_recorded

    asked, trial = prepared.experiment, Trial(prepared.experiment)
    request = prepared.request(replace(base, tree=base.tree and asked.name == BASELINE))
    running = [
        asyncio.ensure_future(question.run(request, prepared.variation)) for _ in range(repeat)
    ]
    try:
        for task in running:
            run = await task
            if run.file:
                trial.runs.append(run)
                trial.recorded.append(await asyncio.to_thread(read_recorded, run.file))
    finally:
        for task in running:
            task.cancel()
    if not trial.recorded:
        trial.problem = "the time was over" if question.cut == "timeout" else "it was stopped"
    elif (refusal := trial.recorded[0].refusal) is not None:
        trial.problem = refusal[1]
    return trial


async def _suggested(
    question: Question, base: TraceRequest, baseline: Trial, repeat: int
) -> list[Trial]:
    """Experiments of the answer's own."""
    from cideldill_mcp.questions.experiment.suggestions import suggestions

    experiments = await asyncio.to_thread(suggestions, baseline)
    base = replace(base, tree=False)
    tasks = [_tried(question, base, Prepared(each, PLAIN), repeat) for each in experiments]
    return list(await asyncio.gather(*tasks))


def _refusal(question: Question, base: TraceRequest, baseline: Trial) -> Refusal:
    """Why there is nothing to compare with."""
    from cideldill_mcp.questions.asking.registry import SideRun
    from cideldill_mcp.questions.asking.unanswered import unanswered
    from cideldill_mcp.questions.recordings.recorded import Recorded

    run = baseline.runs[0] if baseline.runs else SideRun("", question.cut, None)
    recorded = baseline.recorded[0] if baseline.recorded else Recorded()
    return unanswered(question, base, run, recorded)
