"""One test over all runs: which one is meant, what became of it, what changed since it passed.

From the events of the processes; none is asked, so it is known of one that is busy or gone. Runs
on the event loop; the times of files are read in a thread.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from time import monotonic
from typing import Any

from cideldill_mcp.replies.prose import short
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.results import TestResult
from cideldill_mcp.runs.run import Run
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol import PhaseReported
from pytest_cideldill.protocol.reducer import FAILED
from pytest_cideldill.sourcecode.catalog import find_sources

MAX_NAMES = 5
LOOK_S = 1.0
"""How long files may be looked for."""


@dataclass(frozen=True, slots=True)
class Case:
    """A test, as far as it is known.

    Attributes:
        run: The newest run that had it.
        failed: The newest run in which it failed, and the report.
        passed: The newest run in which it passed with nothing changed by a client.
        forced: The newest run in which it passed after a client changed something.
    """

    run: Run
    test: TestResult
    failed: tuple[Run, PhaseReported] | None
    passed: Run | None
    forced: Run | None
    pause: dict[str, Any] | None

    @property
    def report(self) -> PhaseReported | None:
        """How it failed last."""
        return None if self.failed is None else self.failed[1]

    @property
    def autopsy(self) -> dict[str, Any]:
        """That of the report; empty if there is none."""
        return (self.report.autopsy if self.report else None) or {}

    @property
    def frame(self) -> dict[str, Any] | None:
        """The innermost frame of the user's code when it failed."""
        frames = self.autopsy.get("frames")
        return frames[min(self.autopsy["userFrameIndex"], len(frames) - 1)] if frames else None


def find(runs: Runs, asked: str) -> Case:
    """The test that a client means.

    Args:
        asked: A node id, or a part that only one test has, or one failed test; empty: the test
            that is paused, else the one that failed last.

    Raises:
        Refusal: `no_run`, `test_not_found`; both say what there is.
    """
    nodeid = _meant(runs, asked)
    having = [(run, test) for run in reversed(list(runs)) if (test := run.results.of(nodeid))]
    failed = passed = forced = None
    for run, test in having:
        if failed is None and test.outcome in FAILED and test.report is not None:
            failed = run, test.report
        if test.outcome == "passed" and not run.results.changes:
            passed = passed or run
        elif test.outcome == "passed":
            forced = forced or run
    newest, test = having[0]
    pauses = [pause for pause in newest.pauses.values() if pause["nodeid"] == nodeid]
    pause = pauses[-1] if pauses else None
    return Case(newest, test, failed, passed, forced, pause)


def failed_nodeids(runs: Iterable[Run]) -> list[str]:
    """Tests whose newest verdict, over all runs, is a failure; in the order of that verdict.

    A pass that a client brought about by changing what that run did is no verdict.
    """
    verdicts: dict[str, bool] = {}
    for run in runs:
        failed = set(run.results.failed_nodeids())
        for test in run.results.tests.values():
            forced = bool(run.results.changes) and test.nodeid not in failed
            if test.outcome is not None and not forced:
                verdicts.pop(test.nodeid, None)
                verdicts[test.nodeid] = test.nodeid in failed
        for nodeid in run.results.missing:  # renamed or deleted since
            verdicts.pop(nodeid, None)
    return [nodeid for nodeid, failed in verdicts.items() if failed]


def _meant(runs: Runs, asked: str) -> str:
    asked = runs.nodeid(asked)
    known = list(dict.fromkeys(t.nodeid for run in runs for t in run.results.tests.values()))
    if not known:
        call = f'test_run {{"nodeids": {json.dumps([short(asked) or "…"], ensure_ascii=False)}}}'
        raise Refusal(
            ErrorCode.NO_RUN, f"no test has run yet; {call} runs one and pauses where it fails"
        )
    failed = failed_nodeids(runs)
    if not asked:
        paused = [pause["nodeid"] for run in runs for pause in run.pauses.values()]
        if candidates := [nodeid for nodeid in (*failed, *paused) if nodeid in known]:
            return str(candidates[-1])
        raise _unknown("no test is paused, and none failed; give the nodeid of one", known)
    if asked in known:
        return asked
    named, shown = [nodeid for nodeid in known if asked in nodeid], repr(short(asked))
    for found in (named, [nodeid for nodeid in named if nodeid in failed]):
        if len(found) == 1:
            return found[0]
    if named:
        raise _unknown(f"{len(named)} tests have {shown} in their node id", named)
    near = get_close_matches(asked, known, MAX_NAMES, 0.5)
    raise _unknown(f"no run had a test {shown}", near or failed or known)


def _unknown(what: str, names: list[str]) -> Refusal:
    shown = ", ".join(short(name) for name in names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return Refusal(ErrorCode.TEST_NOT_FOUND, f"{what}; there is {shown}{more}")


# --- what changed -------------------------------------------------------------------------------


async def changes(case: Case, rootdir: str | None) -> list[str]:
    """What is different since it passed, in sentences; never empty."""
    facts = []
    if case.forced is not None:
        changed = "; ".join(_changed(case.forced, case.test.nodeid))
        facts.append(f"in {case.forced.id} it passed when a client changed {changed}")
    if case.passed is None:
        return [*facts, "it has not passed by itself since this server was started"]
    passed = case.passed
    if case.failed is None or _began(passed) > _began(case.failed[0]):
        return [*facts, f"it passed in {passed.id}, and has not failed since"]
    files = await asyncio.to_thread(_edited, rootdir or os.getcwd(), _began(passed))
    names = ", ".join(files[:MAX_NAMES]) + " …" * (len(files) > MAX_NAMES)
    edited = f"edited since it passed in {passed.id}: {names or 'no Python file of the project'}"
    return [*facts, edited, *_otherwise(case.test.nodeid, passed, case.failed[0])]


def _changed(run: Run, nodeid: str) -> list[str]:
    """What a client changed in a test, else anywhere in its run."""
    known = run.results.changes
    return known.get(nodeid) or [what for each in known.values() for what in each]


def _began(run: Run) -> float:
    return 0.0 if run.child is None else run.child.started_at


def _edited(root: str, since: float) -> list[str]:
    """The newest first."""
    deadline = monotonic() + LOOK_S
    found, _ = find_sources(os.path.realpath(root), lambda: monotonic() > deadline)
    times = {file: changed for file, (changed, _) in found.items() if changed > since * 1e9}
    return sorted(times, key=lambda file: -times[file])


def _otherwise(nodeid: str, then: Run, now: Run) -> Iterator[str]:
    """How the runs differ."""
    if list(then.order.arguments) != list(now.order.arguments):
        given = [" ".join(run.order.arguments) or "none" for run in (then, now)]
        yield f"arguments of the run: {given[0]} in {then.id}, {given[1]} in {now.id}"
    before = [_before(run, nodeid) for run in (then, now)]
    if before[0] != before[1]:
        new = [each for each in before[1] if each not in before[0]]
        last = f", the last new one is {new[-1]}" if new else ""
        yield (
            f"tests before it in its process: {len(before[0])} in {then.id}, {len(before[1])} in "
            f"{now.id}{last}"
        )


def _before(run: Run, nodeid: str) -> list[str]:
    this = run.results.of(nodeid)
    assert this is not None
    ran = [test.nodeid for test in run.results.tests.values() if test.worker == this.worker]
    return ran[: ran.index(nodeid)]
