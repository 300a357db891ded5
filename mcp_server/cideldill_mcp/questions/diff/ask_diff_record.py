"""`test_diff` against a run or a record: the test is recorded here, twice, and compared with it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cideldill_mcp.questions.asking.asker import Asker, Bounds, Seen, cut_notes, noted, reply, see
from cideldill_mcp.questions.asking.past import Past, in_record
from cideldill_mcp.questions.asking.registry import Question, Variation
from cideldill_mcp.questions.diff.ask_diff import Diff, is_run
from cideldill_mcp.questions.diff.differences import globs
from cideldill_mcp.questions.diff.facts import Parted
from pytest_cideldill.protocol import AddLine
from pytest_cideldill.protocol.trace_rows import TraceRequest
from pytest_cideldill.records.merge import run_folder
from pytest_cideldill.sourcecode.helper import source_map
from pytest_cideldill.sourcecode.tracespec import parse_spec

_MOST_NAMES: Final = 200
"""Functions whose calls are recorded here, and tracepoints."""

_TEXTS: Final = ("diff.diff_record", "diff.facts", "asking.past")


async def diff_record(
    asker: Asker, question: Question, nodeid: str, asked: Diff, bounds: Bounds
) -> dict[str, Any]:
    """The reply to a question whose `against` is a run or a record.

    Raises:
        Refusal: `run_not_found`, `file_not_found`, `test_not_found`, `invalid_parameter`; as `see`.
    """
    assert isinstance(asked.against, str)
    if is_run(asked.against):
        there = await asker.past(asked.against, nodeid)
    else:
        there = await asyncio.to_thread(in_record, asked.against, nodeid)
    declared, left_out = await asyncio.to_thread(_declared, there, asker.questions.rootdir)
    arguments = [f"--cideldill-trace={each}" for each in declared]
    arguments += [f"--cideldill-record-calls={name}" for name in _functions(there)]
    runs = [_recorded(question, nodeid, arguments) for _ in range(2)]
    (seen, here), (_, again) = await asyncio.gather(*runs)
    lines = cut_notes(question, seen.run, "the test was") + left_out
    if here.result.outcome != again.result.outcome:
        one, other = here.result.outcome, again.result.outcome
        lines.append(f"flaky: {one} in one of two runs, {other} in the other one")
    if there.is_cut or here.is_cut:
        lines.append("there were more calls and hits than are compared")

    def make(max_chars: int) -> Any:
        from cideldill_mcp.questions.diff.diff_record import RecordsCompared, record_answer
        from cideldill_mcp.questions.diff.facts import compared, noise_of

        for past in (here, again):
            places = {_place(hit) for hit in there.hits}
            past.hits = [hit for hit in past.hits if _place(hit) in places]
        noise = noise_of(here, again)
        parted = list(_asked_for(compared(here, there, noise), asked))
        return record_answer(RecordsCompared(here, there, parted, noise), max_chars)

    answer = await noted(lines, bounds.max_chars, make)
    return reply(question, nodeid, here.result.outcome or "unfinished", answer)


def _asked_for(parted: Iterable[Parted], asked: Diff) -> Iterator[Parted]:
    """Without what the client leaves out."""
    ignored, function = globs(asked.ignore), asked.function
    name = "" if function is None else function.rpartition("::")[2]
    for each in parted:
        if name and not f".{each.fact.subject}".endswith(f".{name}"):
            continue
        left = each.differences
        if ignored is not None:
            left = tuple(value for value in left if not ignored.fullmatch(value.path))
        if left or not each.differences:
            yield replace(each, differences=left)


async def _recorded(question: Question, nodeid: str, arguments: Sequence[str]) -> tuple[Seen, Past]:
    """A run of the test here, that is recorded like the one it is compared with.

    Raises:
        Refusal: As `see`.
    """
    folder = run_folder(Path(question.new_folder()), question.id, time.time())
    request = TraceRequest("", [nodeid], record=str(folder))
    seen = await see(question, request, _TEXTS, variation=Variation(arguments=arguments))
    return seen, await asyncio.to_thread(in_record, str(folder), seen.test.nodeid)


def _functions(there: Past) -> list[str]:
    """Functions whose calls were recorded there; local ones have no name to ask for."""
    names = dict.fromkeys(str(row["qualified_name"]) for row in there.calls)
    return [name for name in names if "<" not in name][:_MOST_NAMES]


def _place(hit: Mapping[str, Any]) -> tuple[Any, Any]:
    at = hit["location"]
    return at.get("file"), at.get("line")


def _declared(there: Past, root: str) -> tuple[list[str], list[str]]:
    """The tracepoints that the test hit there, to be declared here; and why others can't be.

    Hits of those others are taken out.
    """
    known = {tracepoint.id: tracepoint for tracepoint in there.tracepoints}
    places = {str(hit["breakpoint_id"]): _place(hit) for hit in there.hits}
    specs: list[str] = []
    lines: list[str] = []
    for id, (file, line) in list(places.items())[:_MOST_NAMES]:
        try:
            specs.append(_spec(known.get(id), root, str(file), int(line)))
        except (ValueError, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            lines.append(f"not compared: hits of {file}:{line} ({why})")
            there.hits = [hit for hit in there.hits if hit["breakpoint_id"] != id]
    return specs, lines


def _spec(tracepoint: AddLine | None, root: str, file: str, line: int) -> str:
    """A tracepoint as `--cideldill-trace` takes it.

    Raises:
        ValueError, OSError: It can't be declared, or there is no such place.
    """
    if tracepoint is None or tracepoint.message is None:
        raise ValueError("not a line")
    chosen = tracepoint.hit_count, tracepoint.multiple, tracepoint.max_notifications
    if chosen != (1, 0, 0):
        raise ValueError("some passes only")
    condition = tracepoint.condition
    end = f"={tracepoint.message}"
    if condition is not None:
        end = f" if {condition} => {tracepoint.message}"
    text = f"{file}:{line}{end}"
    parse_spec(text)
    place = source_map(os.path.join(root, file), file).code_for_line(line)
    if place.line != line or place.key.to_plain() != tracepoint.key:
        raise ValueError("other code is there now")
    return text
