"""The questions of a server, beside its runs: what they share, and what runs know of a test."""

from __future__ import annotations

import os
from functools import partial

from cideldill_mcp.breakpoints.kinds import LineBreakpoint
from cideldill_mcp.callrecords.records import CallFilter
from cideldill_mcp.events.log import Filter
from cideldill_mcp.processes.launch import HASH_SEED
from cideldill_mcp.questions.asking.asker import Asker, Earlier
from cideldill_mcp.questions.asking.past import MOST_ROWS, Past, environment_of, keep, not_there
from cideldill_mcp.questions.asking.registry import Home, Progress, Questions
from cideldill_mcp.runs.history import failed_nodeids
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.run import redactor_of
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.redaction.redactor import Redactor

_AT_ONCE = 1_000
"""Hits that are read at once."""


def questions_beside(runs: Runs) -> Questions:
    """Questions whose processes are started as those of runs, in the same private directory."""

    def redactor() -> Redactor:
        newest = runs.newest  # its processes may have said what is secret
        return redactor_of(runs.settings, runs.tag_key) if newest is None else newest.redactor

    return Questions(
        Home(
            lambda: runs.recipe,
            str(runs.directory),
            runs.reaper,
            runs.tag_key.hex(),
            runs.settings.no_redact,
            None if os.environ.get(HASH_SEED) else runs.hash_seed,
            redactor,
            record=runs.settings.record or "",
        )
    )


def asker_of(questions: Questions, runs: Runs, progress: Progress) -> Asker:
    """A client that asks."""

    def earlier(nodeid: str) -> Earlier | None:
        for run in reversed(list(runs)):
            test = run.results.of(nodeid)
            if test is not None and test.outcome is not None:
                return Earlier(run.id, test.outcome)
        return None

    past = partial(_past_of, runs)
    return Asker(questions, progress, earlier, lambda: failed_nodeids(runs), past)


async def _past_of(runs: Runs, run_id: str, nodeid: str) -> Past:
    """What a run knows of a test.

    Raises:
        Refusal: `no_run`, `run_not_found`, `test_not_found`; `not_live`: it has not ended.
    """
    run = runs.get(run_id)
    result = run.results.of(nodeid)
    ran = [test.nodeid for test in run.results.tests.values()]
    if result is None:
        raise not_there(run_id, nodeid, ran)
    if result.outcome is None:
        message = f"{nodeid} has not ended in {run_id}"
        raise Refusal(ErrorCode.NOT_LIVE, message, run_id=run_id)
    past = Past(run_id, result)
    page = await runs.records.page(CallFilter(nodeid=nodeid), MOST_ROWS)
    keep(past, [{"type": "call", **call} for call in page.calls if call["run_id"] == run_id])
    past.is_cut = not page.is_first
    wanted, cursor = Filter({"hit"}, nodeid, run_id), 0
    while len(past.hits) < MOST_ROWS:
        events = await runs.log.read(cursor, _AT_ONCE, wanted)
        keep(past, events.events)
        if events.is_last:
            break
        cursor = events.cursor
    past.tracepoints = [each.spec for each in runs.desired if isinstance(each, LineBreakpoint)]
    if run.main is not None:
        tests = run.results.tests.values()
        before = [test.nodeid for test in tests if test.worker == result.worker].index(nodeid)
        past.environment = environment_of(run.main.hello, result.worker, before)
    return past
