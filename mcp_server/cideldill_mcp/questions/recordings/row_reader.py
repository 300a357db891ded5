"""Reads the file that a question's process leaves into tests, calls and lines.

The rows are those of `pytest_cideldill.protocol.trace_rows`. The process may have died at any time:
whatever can be read counts. Rows of unknown kinds, or with unknown numbers, are skipped.
"""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from cideldill_mcp.questions.recordings.recorded import (
    FAILED,
    Behind,
    Call,
    Caught,
    Code,
    Event,
    Failed,
    Focus,
    Frame,
    Left,
    Line,
    Passage,
    Phase,
    Recorded,
    RecordedTest,
    Value,
)
from pytest_cideldill.protocol.trace_rows import EXPLANATION, Row

WATCHED: Final = (
    "watch",
    "changed",
    "writer",
    "aliases",
    "became",
    "true_at_first",
    "lost",
    "value",
)
"""Rows of a watch."""


def read_recorded(path: str | os.PathLike[str]) -> Recorded:
    """All that can be read of a file.

    Raises:
        OSError: It can't be read.
    """
    reader = _Reader()
    with without_collector(), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                rows = json.loads(line)
            except ValueError:
                continue  # the last one, cut off when the process ended
            if isinstance(rows, list):
                reader.add(rows)
    for test in reader.recorded.tests.values():
        _set_apart_explanations(test)
        _end(test)
    return reader.recorded


def _set_apart_explanations(test: RecordedTest) -> None:
    """Take what only explains a failure out of the calls of a test: it is not what the test does,
    and pytest shows values many times.
    """
    tops: dict[Call, Call] = {}
    counts: dict[Call, Counter[str]] = {}
    for number, call in list(test.calls.items()):  # parents come before their children
        parent = call.parent
        if call.via == EXPLANATION:
            top = call
        elif parent is not None and parent in tops:
            top = tops[parent]
        else:
            continue
        tops[call] = top
        del test.calls[number]
        if top.parent is not None:
            counts.setdefault(top.parent, Counter())[call.code.name] += 1
    if not tops:
        return
    for phase in test.phases:
        phase.roots = [call for call in phase.roots if call not in tops]
    for call, names in counts.items():
        call.children = [child for child in call.children if child not in tops]
        call.explained = list(names.items())


def _end(test: RecordedTest) -> None:
    """End functions without an end whose test has one: near the recursion limit there is no room
    to record it, and on 3.11 the program may end tracing.
    """
    if test.outcome == "unfinished":
        return
    for call in test.calls.values():  # parents come before their children
        if call.has_ended or call.code.kind != "function" or call.thread:
            continue
        above = call.parent.error if call.parent is not None else None
        if above is not None and above.startswith("RecursionError"):
            call.error = above
        else:
            call.is_end_lost = True


@contextmanager
def without_collector() -> Iterator[None]:
    """Make many objects without cyclic garbage: the collector would look through all of them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Reader:
    """Builds a `Recorded` from rows: `_add_call` takes the columns of rows `call`, and so on."""

    def __init__(self) -> None:
        self.recorded = Recorded()
        self._test = RecordedTest("")
        self._phase = Phase("")
        self._calls: dict[int, Call] = {}
        self._ordinals: dict[int, int] = {}
        self._begun_in: dict[int, Phase] = {}
        self._focus: Call | None = None
        self._lines: list[Line] = []
        self._moment = 0
        self._raised_at: int | None = None
        self._is_full = False
        self._kinds: dict[str, Callable[..., None]] = {
            name.removeprefix("_add_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_add_")
        }
        self._kinds["warning"] = self.recorded.warnings.append
        self._kinds["unforked"] = self.recorded.unforked.__setitem__
        for kind in ("test_files", "neighbours", "unmatched", "patched"):
            self._kinds[kind] = partial(setattr, self.recorded, kind)
        for kind in ("yield", "resume"):
            self._kinds[kind] = partial(self._move, kind)
        for kind in WATCHED:
            self._kinds[kind] = partial(self._watch, kind)

    def add(self, rows: list[Row]) -> None:
        kinds = self._kinds
        for row in rows:
            try:
                kinds[row[0]](*row[1:])
            except (LookupError, TypeError, ValueError):
                continue  # of another version: an unknown kind, number or column

    # --- the process and its tests --------------------------------------------------------------

    def _add_process(self, python: str, rootdir: str) -> None:
        self.recorded.python, self.recorded.rootdir = python, rootdir

    def _add_test(self, nodeid: str) -> None:
        self._test = self.recorded.tests[nodeid] = RecordedTest(nodeid)
        self._calls = self._test.calls
        self._phase = Phase("")
        self._ordinals = {}
        self._begun_in = {}
        self._focus = None
        self._lines = []

    def _add_aftermath(self, call: int) -> None:
        self._raised_at = self._calls[call].begun_at - 1

    def _add_phase(self, name: str) -> None:
        self._raised_at = None
        self._phase = Phase(name)
        self._test.phases.append(self._phase)

    def _add_outcome(
        self, phase: str, outcome: str, text: str | None, file: str | None, line: int | None
    ) -> None:
        found = next(each for each in reversed(self._phases_of(phase)))
        if found.outcome == FAILED:
            return  # a subtest failed, and the test reports itself afterwards
        found.outcome, found.text = outcome, text or ""
        found.file, found.line = file or "", line or 0

    def _phases_of(self, name: str) -> list[Phase]:
        if not any(phase.name == name for phase in self._test.phases):
            self._test.phases.append(Phase(name))
        return [phase for phase in self._test.phases if phase.name == name]

    def _add_applied(self, change: int, count: int, seen: int) -> None:
        self._test.applied[change] = count, seen

    def _add_unapplied(self, change: int, text: str) -> None:
        self.recorded.unapplied.append((change, text))

    def _add_unreached(self, facts: dict[str, dict[str, Any]]) -> None:
        self.recorded.unreached = {int(number): fact for number, fact in facts.items()}

    def _add_evaluated(self, expression: str, text: str, *more: Any) -> None:
        is_error, file, line, _function = more
        self._test.values[expression] = Value(text, is_error, f"{file}:{line}")

    def _add_matches(self, count: int) -> None:
        self._test.matches = count

    def _add_starts(self, codes: list[int]) -> None:
        self._phase_now().starts += [self.recorded.codes[number] for number in codes]

    def _add_ran(self, code: int, lines: list[int]) -> None:
        self._phase_now().ran.append((self.recorded.codes[code], set(lines)))

    def _add_frames(self, codes: list[int]) -> None:
        failed = self._test.failure or self._phase_now()
        failed.frames = failed.frames or [self.recorded.codes[number] for number in codes]

    def _add_failed(self, phase: str, facts: dict[str, Any]) -> None:
        if self._test.failed is not None:
            self._test.failed_behind.append((phase, facts["type"], facts["message"]))
            return
        self._test.failed = Failed(
            phase,
            facts["type"],
            facts["message"],
            [Frame(*each) for each in facts["frames"]],
            [(name, text) for name, text in facts["locals"]],
            facts.get("op") or "",
            facts.get("left") or "",
            facts.get("right") or "",
            (facts.get("leftExpression") or "", facts.get("rightExpression") or ""),
            {side: dict(leaves) for side, leaves in facts.get("insides", {}).items()},
            [
                Behind(relation, type, message, place and tuple(place))
                for relation, type, message, place in facts.get("behind", ())
            ],
            facts.get("stoppedAt") or {},
            self._moment,
            self._moment if self._raised_at is None else self._raised_at,
        )

    def _add_caught(self, text: str, origin: str, *columns: Any) -> None:
        raised, caught, count, last, calls, unwound, more, left = columns
        *place, how, is_silent = caught
        self._test.caught.append(
            Caught(
                phase=self._phase.name,
                text=text,
                origin=origin,
                raised=self._passage(*raised),
                place=self._passage(*place),
                how=how,
                is_silent=is_silent,
                count=count,
                last=last,
                calls=tuple(calls),
                unwound=tuple(self._passage(*each) for each in unwound),
                more=more,
                left=tuple(self._left(*each) for each in left),
            )
        )

    def _left(self, name: str, value: str, code: int, lines: list[int]) -> Left:
        return Left(name, value, self.recorded.codes[code], tuple(lines))

    def _passage(self, code: int, line: int, library: str = "") -> Passage:
        return Passage(self.recorded.codes[code] if code else None, line, library)

    def _add_lines(self, code: int, pairs: list[tuple[int, int]]) -> None:
        counts = dict(pairs)
        self._test.lines.append((self.recorded.codes[code], counts))

    def _add_reached(self, limit: str, text: str) -> None:
        self._is_full |= limit == "calls"
        if (limit, text) not in self.recorded.reached:
            self.recorded.reached.append((limit, text))
        if limit == "lines" and self._focus is not None:
            self._note(("gap", text))

    def _add_refused(self, code: str, text: str) -> None:
        self.recorded.refusal = (code, text)

    def _add_end(self) -> None:
        self.recorded.has_ended = True

    def _add_missing(self, nodeids: list[str], beside: list[str]) -> None:
        self.recorded.missing, self.recorded.beside = nodeids, beside

    def _add_uncollected(self, nodeid: str, text: str) -> None:
        self.recorded.uncollected.append((nodeid, text))

    def _add_leaves(self, digest: str, leaves: list[list[str]]) -> None:
        self.recorded.leaves[digest] = dict(leaves)

    # --- calls ----------------------------------------------------------------------------------

    def _add_code(self, number: int, module: str, qualname: str, *place: Any) -> None:
        file, first, last, kind = place
        self.recorded.codes[number] = Code(number, module, qualname, file, first, last, kind)

    def _add_call(self, number: int, parent: int, code: int, line: int, *columns: Any) -> None:
        thread, args, via = columns
        above = self._calls.get(parent)
        ordinal = self._ordinals[code] = self._ordinals.get(code, 0) + 1
        call = Call(number, above, self.recorded.codes[code], ordinal, line, thread, args, via)
        self._calls[number] = call
        call.begun_at = self._tick()
        call.is_beyond = self._is_full
        if call.code.kind != "function":
            self._begun_in[number] = self._phase
        if above is None:
            self._phase_now().roots.append(call)
            return
        above.children.append(call)
        if above is self._focus and via != EXPLANATION:
            self._note(("call", call))

    def _add_skipped(self, code: int, count: int) -> None:
        self._ordinals[code] = self._ordinals.get(code, 0) + count

    def _phase_now(self) -> Phase:
        if self._phase not in self._test.phases[-1:]:
            self._test.phases.append(self._phase)
        return self._phase

    def _tick(self) -> int:
        self._moment += 1
        return self._moment

    def _add_return(self, call: int, text: str) -> None:
        found = self._calls[call]
        found.result, found.ended_at = text, self._tick()

    def _add_unwind(self, call: int, text: str) -> None:
        found = self._calls[call]
        found.error, found.ended_at = text, self._tick()
        if self._begun_in.get(call, self._phase) is not self._phase:
            self._phase.continued.append(found)

    def _add_wait(self, call: int) -> None:
        self._move("wait", call, "")

    def _move(self, kind: str, number: int, text: str) -> None:
        call = self._calls[number]
        if call.moves is None:
            call.moves = []
        call.moves.append((kind, text))
        if call is self._focus:
            self._note((kind, text))

    def _add_library(self, call: int, name: str, count: int) -> None:
        found = self._calls[call]
        found.library = [*(found.library or ()), (name, count)]

    def _add_parts(self, call: int, count: int) -> None:
        self._calls[call].parts = count

    def _add_state(self, number: int, moment: str, pairs: list[list[str]]) -> None:
        states = dict(pairs)
        call = self._calls[number]
        if moment == "begin":
            call.begun = states
        else:
            call.ended = states

    def _add_caller(self, number: int, code: int, line: int) -> None:
        call = self._calls[number]
        call.parent = Call(0, None, self.recorded.codes[code], 0, 0, call.thread, [], "")
        call.line = line

    # --- the chosen call ------------------------------------------------------------------------

    def _add_focus(self, call: int, count: int) -> None:
        self._focus = self._calls[call]
        focus = self._test.focus = Focus(self._focus, count)
        self._lines = focus.lines

    def _add_line(self, line: int) -> None:
        self._lines.append(Line(line))

    def _add_change(self, name: str, text: str | None) -> None:
        self._note(("change", name, text))

    def _add_raise(self, text: str) -> None:
        self._note(("raise", text))

    def _watch(self, kind: str, *columns: Any) -> None:
        self._test.watched.append((self._phase.name, [kind, *columns]))

    def _note(self, event: Event) -> None:
        if not self._lines:
            self._lines.append(Line(0))
        line = self._lines[-1]
        if line.events is None:
            line.events = []
        line.events.append(event)
