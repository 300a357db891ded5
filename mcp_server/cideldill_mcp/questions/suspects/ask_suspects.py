"""The question `test_suspects`: which functions failing tests run, and passing ones do not."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cideldill_mcp.questions.asking.asker import (
    Asker,
    Bounds,
    cut_notes,
    flakiness,
    invalid,
    noted,
    ran,
    reply,
)
from cideldill_mcp.questions.asking.registry import Question, SideRun
from cideldill_mcp.questions.texts.fitting import Answer, counted
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.interpreter.untrusted_files import open_regular
from pytest_cideldill.protocol.trace_rows import TraceRequest

if TYPE_CHECKING:
    from cideldill_mcp.questions.recordings.recorded import Recorded
    from cideldill_mcp.questions.suspects.ranking import Contrast

NAME: Final = "test_suspects"
LIMIT: Final = 10
MAX_LIMIT: Final = 100

_LAST_FAILED: Final = ".pytest_cache/v/cache/lastfailed"
_MAX_CACHE: Final = 8 << 20
"""Bytes of pytest's list of failed tests."""

_MOST_AGAIN: Final = 50
"""Failing tests that are run again."""

_SHARE: Final = 0.4
"""The part of a question's time after which none is run again."""

_NAMED: Final = 3
"""Tests that a line names."""

_NO_TESTS: Final = 5
"""The exit status of pytest when none was collected."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """What is asked.

    Attributes:
        nodeids: Tests, classes, files or folders; empty: by keyword and markers alone. With none of
            the three: the files of the tests that failed last.
        keyword: As pytest's `-k`.
        markers: As pytest's `-m`.
        limit: Most functions.
    """

    nodeids: tuple[str, ...] = ()
    keyword: str | None = None
    markers: str | None = None
    limit: int = LIMIT

    def check(self) -> None:
        """Check what can be checked without the tests.

        Raises:
            Refusal: `invalid_parameter`.
        """
        if not 1 <= self.limit <= MAX_LIMIT:
            raise invalid("limit", self.limit, f"integer from 1 to {MAX_LIMIT}")


async def suspects(asker: Asker, asked: Suspects, bounds: Bounds) -> dict[str, Any]:
    """The reply to the question.

    Raises:
        Refusal: `missing_parameter`: nothing is asked for, and no test is known to have failed;
            `test_not_found`, `invalid_parameter`, `not_live`; `no_contrast`: there is no failing
            test, or no passing one.
    """
    asked.check()
    bounds.check()
    questions = asker.questions
    nodeids = [questions.nodeid(nodeid) for nodeid in asked.nodeids]
    if not (nodeids or asked.keyword or asked.markers):
        nodeids = await asyncio.to_thread(_files_of_failures, asker)
    request = TraceRequest(
        "", nodeids, starts=True, keyword=asked.keyword or None, markers=asked.markers or None
    )
    with questions.begin(NAME, None, bounds.timeout_s, asker.progress) as question:
        run, recorded = await ran(question, request, ["suspects.ranking"])
        if recorded.refusal is not None or not recorded.tests:
            raise await asyncio.to_thread(_unanswered, question, request, run, recorded)
        from cideldill_mcp.questions.suspects.ranking import Contrast, suspects_answer

        contrast = await asyncio.to_thread(Contrast, recorded)
        lines = cut_notes(question, run, "the tests were")
        if not (contrast.failing and contrast.passing):
            raise _no_contrast(contrast, asked, lines)
        lines += _left_out(recorded)
        lines += await _flaky(question, contrast, asker)

        def make(max_chars: int) -> Answer:
            return suspects_answer(contrast, limit=asked.limit, max_chars=max_chars)

        return reply(question, None, None, await noted(lines, bounds.max_chars, make))


# --- which tests --------------------------------------------------------------------------------


def _files_of_failures(asker: Asker) -> list[str]:
    """The files of the tests that failed last: by the runs of this server, else by pytest's cache.

    Raises:
        Refusal: `missing_parameter`.
    """
    root = asker.questions.rootdir
    failed = asker.failed() or _in_cache(root)
    files = dict.fromkeys(each.partition("::")[0] for each in failed)
    there = [file for file in files if os.path.exists(os.path.join(root, file))]
    if not there:
        raise Refusal(
            ErrorCode.MISSING_PARAMETER,
            "no test is known to have failed before: give nodeids (tests, files, folders; . means "
            "all tests), keyword or markers",
            parameter="nodeids",
        )
    return there


def _in_cache(root: str) -> list[str]:
    """What pytest remembers for `--lf`; it is only read."""
    with suppress(OSError, ValueError, RecursionError):
        with open_regular(os.path.join(root, _LAST_FAILED)) as file:
            known = json.loads(file.read(_MAX_CACHE))
        return [each for each in known if isinstance(each, str)] if isinstance(known, dict) else []
    return []


# --- what is said above -------------------------------------------------------------------------


def _left_out(recorded: Recorded) -> list[str]:
    """What was asked for and did not run, and what was lost."""
    lines = []
    if recorded.missing:
        lines.append(f"not found: {_names(recorded.missing)}")
    for file, text in recorded.uncollected[:_NAMED]:
        last = next((line for line in reversed(text.splitlines()) if line.startswith("E ")), "")
        lines.append(f"{file} can't be collected: {last.removeprefix('E ').strip()}")
    return lines + recorded.cut


async def _flaky(question: Question, contrast: Contrast, asker: Asker) -> list[str]:
    """Which tests come out otherwise: in an earlier run, or when only the failing ones run."""
    lines: list[str] = []
    for test in contrast.failing + contrast.passing:
        lines += flakiness(asker, test.nodeid, test.outcome, f"{test.nodeid}: ")
    if len(lines) > _NAMED:
        lines[_NAMED:] = [f"flaky? {len(lines) - _NAMED} more came out otherwise in earlier runs"]
    failing = [test.nodeid for test in contrast.failing][:_MOST_AGAIN]
    if question.cut is not None or question.seconds > question.timeout_s * _SHARE:
        return lines
    run, again = await ran(question, TraceRequest("", failing))
    if run.cut is not None:
        return lines  # what did not fail then may not have run
    passed = [name for name, test in again.tests.items() if test.outcome == "passed"]
    if passed:
        lines.append(
            f"flaky? {len(passed)} of {counted(len(failing), 'failing test')} passed when only the "
            f"failing ones were run again: {_names(passed)}"
        )
    return lines


def _names(nodeids: Iterable[str]) -> str:
    names = list(nodeids)
    return ", ".join(names[:_NAMED]) + f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)


# --- refusals -----------------------------------------------------------------------------------


def _no_contrast(contrast: Contrast, asked: Suspects, lines: list[str]) -> Refusal:
    """The refusal without a failing test, or without a passing one."""
    failed, passed = len(contrast.failing), len(contrast.passing)
    tests = counted(failed + passed + contrast.others, "test")
    if passed:
        what = f"none of {tests} failed: select failing ones"
    elif failed:
        is_narrow = asked.keyword or asked.markers or any("::" in each for each in asked.nodeids)
        files = _names(dict.fromkeys(test.nodeid.partition("::")[0] for test in contrast.failing))
        more = f"all of {files}" if is_narrow else f"the folder of {files}"
        what = (
            f"none of {tests} passed, so there is nothing to compare with: select passing ones "
            f"too, such as {more}"
        )
    else:
        what = f"none of {tests} failed or passed"
    said = "; ".join([*lines, what])
    return Refusal(ErrorCode.NO_CONTRAST, said, failed=failed, passed=passed)


def _unanswered(
    question: Question, request: TraceRequest, run: SideRun, recorded: Recorded
) -> Refusal:
    """Why no test ran."""
    chosen = {"keyword": request.keyword, "markers": request.markers}
    given = {name: text for name, text in chosen.items() if text}
    for name, flag in (("keyword", "-k"), ("markers", "-m")):
        said = f"Wrong expression passed to '{flag}': "
        if said in (output := run.err + run.out):
            why = question.redactor.redact_text(output.partition(said)[2].partition("\n")[0])
            return invalid(name, chosen[name], f"expression of pytest {flag} ({why})")
    is_empty = run.returncode == _NO_TESTS and not recorded.uncollected and not recorded.missing
    if is_empty and recorded.refusal is None:
        by = " and ".join(f"{name} {text!r}" for name, text in given.items()) or "the arguments"
        where = f" in {_names(request.nodeids)}" if request.nodeids else ""
        return Refusal(ErrorCode.TEST_NOT_FOUND, f"no test is selected by {by}{where}")
    from cideldill_mcp.questions.asking.unanswered import unanswered

    return unanswered(question, request, run, recorded)
