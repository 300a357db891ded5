"""What all questions have in common: their bounds, the reading of a process's file, the reply.

On the event loop; files are read and texts made in a thread. What does that is imported while a
process starts: a command is to answer little later than pytest would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cideldill_mcp.questions.asking.registry import (
    MAX_TIMEOUT_S,
    PLAIN,
    Progress,
    Question,
    Questions,
    SideRun,
    Variation,
    no_progress,
)
from cideldill_mcp.questions.texts.fitting import MAX_CHARS, Answer, counted
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.asking.past import Past
    from cideldill_mcp.questions.patches.whole_texts import PatchedFile
    from cideldill_mcp.questions.recordings.listing import SourceFiles
    from cideldill_mcp.questions.recordings.recorded import Recorded, RecordedTest

TIMEOUT_S = 60.0
"""The default time of a question, in seconds."""

MIN_CHARS = 200
"""Characters of an answer that say something."""

FAILING = frozenset({"failed", "error"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an answer may be, and how long it may take."""

    max_chars: int = MAX_CHARS
    timeout_s: float = TIMEOUT_S

    def check(self) -> None:
        """Check both.

        Raises:
            Refusal: `invalid_parameter`.
        """
        if not self.max_chars >= MIN_CHARS:
            raise invalid("max_chars", self.max_chars, f"integer of at least {MIN_CHARS}")
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise invalid("timeout_s", self.timeout_s, f"more than 0, at most {MAX_TIMEOUT_S:.0f}")


@dataclass(frozen=True, slots=True)
class Earlier:
    """What became of a test in the newest run that has it."""

    run_id: str
    outcome: str


def _nothing_earlier(_nodeid: str) -> Earlier | None:
    return None


async def _no_past(run_id: str, _nodeid: str) -> Past:
    raise Refusal(
        ErrorCode.RUN_NOT_FOUND,
        f"{run_id} is a run of a server, and this is none: give the folder of a record",
        run_id=run_id,
    )


@dataclass(frozen=True, slots=True)
class Asker:
    """By whom, and where, a question is asked.

    Attributes:
        questions: Those that work now.
        progress: Gets how far it is.
        earlier: What became of a test before, if that is known.
        failed: The tests that runs before this one have left as failed.
        past: A test in a run, by the run's id and its own; raises Refusal: `run_not_found`,
            `test_not_found`, `not_live`.
    """

    questions: Questions
    progress: Progress = no_progress
    earlier: Callable[[str], Earlier | None] = _nothing_earlier
    failed: Callable[[], list[str]] = list
    past: Callable[[str, str], Awaitable[Past]] = _no_past


@dataclass(frozen=True, slots=True)
class Seen:
    """What a process has seen of the test in question.

    Attributes:
        run: Its end.
        recorded: All of it.
        test: The test.
    """

    run: SideRun
    recorded: Recorded
    test: RecordedTest


async def see(
    question: Question,
    request: TraceRequest,
    texts: Sequence[str] = (),
    nodeid: str | None = None,
    variation: Variation = PLAIN,
) -> Seen:
    """Run a test in a process, and read what that has seen.

    Of several tests that the node id means the first that failed is taken, else the first; of those
    with a chosen call or a watch, if any has one.

    Args:
        question: Runs it.
        request: What the process records.
        texts: Modules that make the answer (`why.why_text`), imported while the process works.
        nodeid: The test that is meant, of several that run.
        variation: In what the process differs from others.

    Raises:
        Refusal: `test_not_found`, `function_not_found`, `invalid_parameter`, and others of the
            process; `not_live`: the test has not begun.
    """
    run, recorded = await ran(question, request, texts, variation=variation)
    tests = list(recorded.tests.values())
    if recorded.refusal is not None or not tests:
        from cideldill_mcp.questions.asking.unanswered import unanswered

        raise await asyncio.to_thread(unanswered, question, request, run, recorded)
    if nodeid in recorded.tests:
        return Seen(run, recorded, recorded.tests[nodeid])
    chosen = [test for test in tests if test.focus is not None or test.watched] or tests
    failing = [test for test in chosen if test.outcome in FAILING]
    return Seen(run, recorded, (failing or chosen)[0])


async def ran(
    question: Question,
    request: TraceRequest,
    texts: Sequence[str] = (),
    within_s: float | None = None,
    variation: Variation = PLAIN,
) -> tuple[SideRun, Recorded]:
    """Run tests in a process; its end, and what it has seen of all of them.

    Asked as `see`; `within_s` is that of `Question.run`.
    """
    running = asyncio.ensure_future(question.run(request, variation, within_s))
    try:
        await asyncio.sleep(0)  # the process is started, unless others have all places
        from cideldill_mcp.questions.recordings.recorded import Recorded
        from cideldill_mcp.questions.recordings.row_reader import read_recorded

        for module in texts:
            import_module(f"cideldill_mcp.questions.{module}")
        run = await running
    except BaseException:
        running.cancel()
        raise
    if not run.file:
        return run, Recorded()
    return run, await asyncio.to_thread(read_recorded, run.file)


def source_files(
    asker: Asker, rootdir: str, patched: Sequence[PatchedFile] | None = None
) -> SourceFiles:
    """The sources of a project, without secrets; of some files as a patch has made them."""
    from cideldill_mcp.questions.recordings.listing import SourceFiles

    redact = partial(asker.questions.redactor().redact_source, is_python=True)
    return SourceFiles(rootdir, redact, {file.path: file.text for file in patched or ()})


def notes(question: Question, seen: Seen, asker: Asker) -> list[str]:
    """What has to be known of an answer, as lines above it."""
    lines = cut_notes(question, seen.run, "the test was")
    others = len(seen.recorded.tests) - 1
    if others:
        lines.append(f"{seen.test.nodeid}: one of {counted(others + 1, 'test')} that ran")
    return lines + flakiness(asker, seen.test.nodeid, seen.test.outcome)


def flakiness(asker: Asker, nodeid: str, outcome: str, which: str = "") -> list[str]:
    """That a test came out otherwise before, as a line that may say which; none: it did not."""
    earlier = asker.earlier(nodeid)
    if earlier is None or not differs(earlier.outcome, outcome):
        return []
    return [f"flaky? {which}{outcome} here, {earlier.outcome} in {earlier.run_id}"]


def cut_notes(question: Question, run: SideRun, what: str) -> list[str]:
    """A line if a process was ended before it was done.

    Args:
        question: It ran for that.
        run: Its end.
        what: `the test was`.
    """
    took = f"after {question.seconds:.0f} s"
    if run.cut == "timeout":
        bound = f"timeout_s is {question.timeout_s:g}"
        return [f"partial: {what} ended by Ctrl-C {took} ({bound})"]
    return [f"partial: {question.id} was stopped {took}"] if run.cut == "stopped" else []


def differs(before: str, now: str) -> bool:
    """Whether two outcomes of a test show that it is flaky."""
    if now == "unfinished":
        return False
    return (before in FAILING) != (now in FAILING) or (before == "skipped") != (now == "skipped")


def reply(
    question: Question, nodeid: str | None, outcome: str | None, answer: Answer
) -> dict[str, Any]:
    """The reply of a question: the text, and beside it what a program needs."""
    body: dict[str, Any] = {"id": question.id}
    if nodeid is not None:
        body |= {"nodeid": nodeid, "outcome": outcome}
    body |= answer.fields
    if answer.truncated:
        body["truncated"] = True
    return body | {"seconds": question.seconds, "text": answer.text, "next": answer.next}


async def noted(lines: list[str], max_chars: int, make: Callable[[int], Answer]) -> Answer:
    """An answer below some lines, both within the size.

    Args:
        lines: Come first.
        max_chars: Of all.
        make: Makes the answer within a size; called in a thread.
    """
    head = "".join(f"{line}\n" for line in lines)
    answer = await asyncio.to_thread(make, max(MIN_CHARS // 2, max_chars - len(head)))
    return replace(answer, text=(head + answer.text)[:max_chars])


def invalid(parameter: str, value: object, expected: str) -> Refusal:
    """The refusal of a parameter."""
    return Refusal(
        ErrorCode.INVALID_PARAMETER,
        f"parameter {parameter!r} is {str(value)[:80]!r}, expected {expected}",
        parameter=parameter,
        expected=expected,
    )
