"""The questions of a server, beside its runs: what they share, and what runs know of a test."""

from __future__ import annotations

import os

from cideldill_mcp.processes.launch import HASH_SEED
from cideldill_mcp.questions.asker import Asker, Earlier
from cideldill_mcp.questions.registry import Home, Progress, Questions
from cideldill_mcp.runs.history import failed_nodeids
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.run import redactor_of
from pytest_cideldill.redaction.redactor import Redactor


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

    return Asker(questions, progress, earlier, lambda: failed_nodeids(runs))
