"""The parts of `test_why`: each has lines of text, and says what it found about which function.

A part without evidence is None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cideldill_mcp.questions.diff.diff_text import Compared, what_differs
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.ran import Function, Key, Remarks, functions, key_of
from cideldill_mcp.questions.recordings.recorded import (
    Call,
    Failed,
    Phase,
    Recorded,
    RecordedTest,
    ancestors,
)
from cideldill_mcp.questions.texts.call_text import path_of_failure
from cideldill_mcp.questions.texts.fitting import counted, short
from cideldill_mcp.questions.trace.call_tree import path_text
from cideldill_mcp.questions.why.evidence import INSIDE, ON_THE_WAY, RARITY, Finding
from cideldill_mcp.questions.why.failure_text import failure_lines
from cideldill_mcp.questions.why.only_here import only_here, run_until_failure
from cideldill_mcp.questions.why.origin import Origin, OriginSearch, items_text
from cideldill_mcp.questions.why.swallowed import kind_of, swallowed, swallowers

_PATH: Final = 1_200
"""Characters of the path."""

_MISSED: Final = frozenset({"Failed", "AssertionError"})
_NOT_RAISED: Final = re.compile(r"DID NOT RAISE |\w+ not raised")
_NOT_WARNED: Final = re.compile(r"DID NOT WARN|Regex pattern did not match any|\w+ not triggered")

_WEIGHTS: Final = {"left": 1.8, "right": 1.8, "for left": 1.2, "for right": 1.2}
"""How much it speaks for a call that a side came from it."""

_OF_VARIABLE: Final = 0.6
"""The same of a variable of the line."""

_OF_ARGUMENT: Final = 1.8
"""The same of an argument that a mock got."""

_CTRL_C: Final = "KeyboardInterrupt"

_LEAST_PATH: Final = 800

_SWALLOWED: Final = 3
"""Exceptions that are shown."""

_DEEPEST: Final = 6
_MOST_OF_LEVEL: Final = 2_000
"""Levels below the origin, and calls of one level, that are looked at."""


@dataclass(slots=True)
class Part:
    """A part of the answer.

    Attributes:
        name: As `parts` lists it.
        lines: Its text.
        evidence: What it says about functions.
        most: Characters that it may have.
        least: Characters that it has before others have more.
    """

    name: str
    lines: list[str]
    evidence: list[Finding] = field(default_factory=list)
    most: int = 600
    least: int = 400

    @property
    def size(self) -> int:
        """Characters of its whole text."""
        return sum(len(line) + 1 for line in self.lines)

    def text(self, most: int) -> str:
        """Its lines within a size."""
        whole = "\n".join(self.lines)
        if len(whole) <= most:
            return whole
        kept: list[str] = []
        left = most - 20
        for line in self.lines:
            if len(line) + 1 > left:
                break
            kept.append(line)
            left -= len(line) + 1
        gone = len(self.lines) - len(kept)
        return "\n".join([*kept, f"  … {counted(gone, 'line')} more"])


def failure_part(test: RecordedTest, files: SourceFiles) -> Part:
    """What failed."""
    return Part("failure", failure_lines(test, files), most=1_100, least=600)


def path_part(
    recorded: Recorded,
    test: RecordedTest,
    files: SourceFiles,
    findings: Sequence[Finding] = (),
) -> Part | None:
    """The calls from the test to where the wrong value came from.

    Args:
        recorded: What the process saw.
        test: The test.
        files: The sources.
        findings: Of the other parts; calls of functions that they are about are shown sooner.
    """
    phase = test.failure
    if phase is None and test.outcome == "unfinished":
        return _unended_part(test)
    if phase is None or not (phase.roots or phase.continued):
        return None
    search = OriginSearch(recorded, test, files)
    origin = search.origin()
    wanted = [] if origin is None else origin.chain
    spoken = {key_of(finding.code) for finding in findings}
    lines = path_text(test, phase, wanted, spoken, _PATH).splitlines()
    if not lines:
        return None
    lines += (f"  {text}" for text in recorded.calls_cut)
    gave = _last_calls(recorded, test) if origin is None else _of_origin(origin, test, search)
    evidence = [*gave, *_of_assertion(test, phase), *_inside(origin, phase)]
    if origin is None or not origin.text:
        return Part("path", ["path:", *lines], evidence, most=_PATH + 200, least=_LEAST_PATH)
    heads = [f"path: {_came_from(origin)}"]
    earlier = search.made_before(origin)
    if earlier is not None:
        how = f"left at {earlier.path}" if earlier.path else "returned"
        heads.append(f"  before, it was {how} by {_named(earlier.call)}")
        reason = f"made {short(origin.text, 40)} before"
        evidence.append(Finding(earlier.call.code, "earlier", 3.0, reason))
    return Part("path", [*heads, *lines], evidence, most=_PATH + 300, least=_LEAST_PATH)


def _unended_part(test: RecordedTest) -> Part | None:
    """The calls that have not ended, of a test that did not; Ctrl-C may have ended it."""
    calls = [
        call
        for call in test.calls.values()
        if not call.thread and (not call.has_ended or call.error == _CTRL_C)
    ]
    if not calls:
        return None
    inmost = max(calls, key=lambda call: call.number)
    chain = [*ancestors(inmost), inmost]
    lines = path_text(test, test.phases[-1], chain, (), _PATH).splitlines()
    findings = [
        Finding(call.code, "path", 3.0 / (at + 1), "has not ended")
        for at, call in enumerate(reversed(chain))
    ]
    head = f"path: it was in {_named(inmost)}"
    return Part("path", [head, *lines], findings, most=_PATH + 200, least=_LEAST_PATH)


def _came_from(origin: Origin) -> str:
    call = origin.call
    how = "was left by"
    if call.result == origin.text:
        how = "was returned by"
    elif ("yield", origin.text) in (call.moves or ()):
        how = "was yielded by"
    elif items_text(call) == origin.text:
        how = "came from"
    return f"{short(origin.text, 60)} ({_place(origin)}) {how} {_named(origin.call)}"


def _place(origin: Origin) -> str:
    return f"{origin.side} at {origin.path}" if origin.path else origin.side


def _named(call: Call) -> str:
    number = f" call {call.ordinal}" if call.ordinal > 1 else ""
    return f"{call.code.name}{number}  {call.code.place}"


def _of_origin(origin: Origin, test: RecordedTest, search: OriginSearch) -> list[Finding]:
    """The inmost call speaks most; those above it, and what it called last, less."""
    if origin.text:
        what = f"gave {_place(origin)}: {short(origin.text, 40)}"
        other = _OF_VARIABLE if origin.side.isidentifier() else _OF_ARGUMENT
        weight = _WEIGHTS.get(origin.side, other)
        weights = weight, weight / 3
    else:
        what, weights = f"raised {short(origin.call.error or '', 60)}", (2.0, 0.8)
    findings = [Finding(origin.call.code, "path", weights[0], what)]
    findings += [
        Finding(call.code, "path", weights[1] / (distance + 1), f"on the path, {what}")
        for distance, call in enumerate(reversed(origin.chain[:-1]))
        if call.code is not origin.call.code
    ]
    for distance, call in enumerate(reversed(origin.chain[1:])):
        findings += _of_arguments(call, search.fed_by(call), 1.2 / (1 + distance / 2))
    inner = [
        child
        for child in [*origin.call.children, *_meanwhile(origin.call, test)]
        if child.has_ended and child.code is not origin.call.code
    ]
    findings += [
        Finding(call.code, "path", 0.9 / (at + 1), _went_into(origin.call, call))
        for at, call in enumerate(reversed(inner[-4:]))
    ]
    return findings


def _meanwhile(outer: Call, test: RecordedTest) -> Iterator[Call]:
    """What began and ended while a call ran, but was not called in it: in tasks and threads."""
    for call in test.calls.values():
        is_within = outer.begun_at < call.begun_at and 0 < call.ended_at < outer.ended_at
        if is_within and (call.parent is None or call.parent.begun_at < outer.begun_at):
            yield call


def _went_into(outer: Call, inner: Call) -> str:
    if inner.error is not None:
        return f"raised {kind_of(inner.error)} while {outer.code.name} ran"
    return f"its result went into {outer.code.name}"


def _of_arguments(
    receiver: Call, fed: Sequence[Sequence[Call]], weight: float
) -> Iterator[Finding]:
    """The calls that gave what a call on the path got."""
    for at, chain in enumerate(fed[:3], 1):
        what = f"gave an argument of {receiver.code.name}"
        yield Finding(chain[-1].code, "fed", weight / at, what)
        for call in chain:
            for child in call.children[-3:]:
                what = f"ran inside of {call.code.name}"
                yield Finding(child.code, INSIDE, weight / 2 / at, what)


def _of_assertion(test: RecordedTest, phase: Phase) -> Iterator[Finding]:
    """The function whose assertion failed, if that is not the test, and those that called it."""
    if test.failed is None or not test.failed.op:
        return
    path = path_of_failure(test, phase)
    if not path or (len(path) == 1 and phase.name == "call"):
        return
    *around, inmost = path
    yield Finding(inmost.code, "path", 2.0, "its assertion failed")
    for distance, call in enumerate(reversed(around), 1):
        if call.code is not inmost.code:
            reason = f"on the path to the assertion of {inmost.code.name}"
            yield Finding(call.code, "path", 0.8 / distance, reason)


def _inside(origin: Origin | None, phase: Phase) -> Iterator[Finding]:
    """What ran inside of the origin, or else in the phase: near calls first, late ones first."""
    is_inside = origin is not None and origin.call.children
    level = [origin.call] if is_inside and origin is not None else list(phase.roots)
    seen: set[int] = set()
    for depth in range(1, _DEEPEST):
        level = [child for call in level for child in call.children]
        for call in reversed(level[-_MOST_OF_LEVEL:]):
            if call.code.number not in seen:
                seen.add(call.code.number)
                yield Finding(call.code, INSIDE, 0.4 / depth, ON_THE_WAY)


def _last_calls(recorded: Recorded, test: RecordedTest) -> list[Finding]:
    """Where no call gave the wrong value: what the test called itself, the last first."""
    phase, failed = test.failure, test.failed
    if phase is None:
        return []
    roots = path_of_failure(test, phase)[:1] or phase.roots  # not those of `setUp`
    calls = [child for root in roots for child in root.children]
    if failed is not None:
        calls = [call for call in calls if call.begun_at <= failed.raised_at]
    calls = [call for call in calls if not call.via] or calls  # not a `__str__` that pytest calls
    last = {call.code.number: call for call in reversed(calls[-4:])}
    found = []
    for at, call in enumerate(last.values()):
        how = "by" if at or recorded.calls_cut else "last by"
        reason, weight = f"called {how} the test", 0.8 / (at + 1)
        if not at and failed is not None and call.error is None and (lack := _lack(failed)):
            reason, weight = f"{reason}, and {lack}", 2.0
        found.append(Finding(call.code, "path", weight, reason))
    return found


def _lack(failed: Failed) -> str:
    """What did not happen, if a test failed for that; by `pytest.raises` or `assertWarns`, say."""
    if failed.type not in _MISSED:
        return ""
    if _NOT_RAISED.match(failed.message):
        return "raised nothing"
    return "gave no such warning" if _NOT_WARNED.match(failed.message) else ""


def swallowed_part(test: RecordedTest) -> Part | None:
    """Exceptions that were caught on the way."""
    lines = swallowed(test, _SWALLOWED)
    if not lines:
        return None
    evidence = [
        Finding(each.code, "swallowed", 1.6 if each.is_strong else 0.8, each.reason)
        for each in swallowers(test, _SWALLOWED)
    ]
    lines = ["swallowed:", *(f"  {line}" for line in lines)]
    return Part("swallowed", lines, evidence, least=300)


def edited_part(found: Remarks) -> Part | None:
    """Edits of what the test ran."""
    if not found.lines:
        return None
    evidence = [
        Finding(each.code, "edited", 2.0, each.reason, each.first) for each in found.evidence
    ]
    return Part("edited", found.lines, evidence)


def only_here_part(
    test: RecordedTest,
    tests: Sequence[RecordedTest],
    files: SourceFiles,
    test_files: Collection[str] = (),
) -> Part | None:
    """What ran in the failing test, and in none that passes; and what ran in all of them only."""
    remarks = only_here(test, tests, files, test_files)
    passing = [functions(each.ran) for each in tests if each.outcome == "passed"]
    evidence = [
        Finding(remark.code, "only_here", 2.2, remark.reason, remark.first)
        for remark in remarks.evidence
        if (remark.first, remark.last) != (remark.code.first, remark.code.last)
    ]
    evidence += _rarity(test, passing, {key_of(finding.code) for finding in evidence})
    if not remarks.lines:
        return None if not evidence else Part("", [], evidence)
    head, *lines = remarks.lines
    lines = [f"only here, {head}", *(f"  {line}" for line in lines)]
    return Part("only_here", lines, evidence, least=500)


def _rarity(
    test: RecordedTest, passing: Sequence[Mapping[Key, Function]], explained: Collection[Key]
) -> Iterator[Finding]:
    """How few of the passing neighbours ran all that the test ran of each function.

    Args:
        explained: Functions of which it is said already what of them ran only here.
    """
    count = len(passing)
    for key, function in run_until_failure(test).items() if passing else ():
        there = [ran[key].lines for ran in passing if key in ran]
        line, least = min(
            ((line, sum(line in lines for lines in there)) for line in sorted(function.lines)),
            key=lambda each: each[1],
            default=(0, len(there)),
        )
        reason = ""
        if 2 * len(there) <= count:
            reason = _ran_in(len(there), count)
        elif 2 * least <= count and key not in explained:
            reason = f"line {line} {_ran_in(least, count)}"
        yield Finding(function.code, RARITY, (1 - least / count) ** 2, reason)


def _ran_in(some: int, count: int) -> str:
    neighbours = counted(count, "passing neighbour")
    return f"ran in {some} of {neighbours}" if some else "ran only here"


def differs_part(compared: Compared) -> Part | None:
    """Where it parts from a test that passes, if a call got the same and did something else."""
    first = compared.first
    if first is None or first.left is None or not first.has_same_input:
        return None
    head = f"differs from {compared.right.test.nodeid} ({compared.how}):"
    line = 0 if compared.inside is None else compared.inside.parting.line
    found = [Finding(first.left.code, "differs", 4.0, "got the same and did something else", line)]
    inner = [] if first.child is None else [call for call in first.child if call is not None]
    found += [Finding(call.code, "differs", 1.0, "called otherwise") for call in inner[:1]]
    return Part("differs", [head, *what_differs(compared)], found, most=700, least=600)
