"""The answer to `test_why`: what the other questions find about one failure, and whom it points to.

A part without evidence is absent. Each has a size of its own; what they leave is for the source of
the functions that most speaks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cideldill_mcp.questions.call_text import proposal
from cideldill_mcp.questions.diff import Compared, what_differs
from cideldill_mcp.questions.edited import Edited
from cideldill_mcp.questions.evidence import INSIDE, Culprit, Finding, culprits, of_tests
from cideldill_mcp.questions.failure_text import failure_lines
from cideldill_mcp.questions.fitting import Answer, clipped, counted, short
from cideldill_mcp.questions.listing import SourceFiles
from cideldill_mcp.questions.only_here import only_here
from cideldill_mcp.questions.origin import Origin, fed_by, made_before, origin_of
from cideldill_mcp.questions.ran import Function, Key, Remark, functions, key_of
from cideldill_mcp.questions.recorded import BODIES, Call, Phase, Recorded, RecordedTest
from cideldill_mcp.questions.swallowed import swallowed, swallowers
from cideldill_mcp.questions.tree import path_text

SUSPECTS: Final = 3
"""Functions that are named at the end."""

_AROUND: Final = 6
"""Lines before and behind a line of a function that has no room as a whole."""

_PATH: Final = 1_200
"""Characters of the path."""

_SWALLOWED: Final = 3
"""Exceptions that are shown."""

_LONG: Final = 40
"""Lines of a function that are shown as a whole, at most."""


_DEEPEST: Final = 6
_MOST_OF_LEVEL: Final = 2_000
"""Levels below the origin, and calls of one level, that are looked at."""

_ASKED: Final = 8
"""Functions whose source one further question shows."""

_LINES_OF_OTHERS: Final = 8
"""Lines of a function that is no suspect, at most."""


@dataclass(slots=True)
class Part:
    """A part of the answer.

    Attributes:
        name: As `parts` lists it.
        lines: Its text.
        evidence: What it says about functions.
        most: Characters that it may have.
    """

    name: str
    lines: list[str]
    evidence: list[Finding] = field(default_factory=list)
    most: int = 600

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
    return Part("failure", failure_lines(test, files), most=1_100)


def path_part(recorded: Recorded, test: RecordedTest) -> Part | None:
    """The calls from the test to where the wrong value came from."""
    phase = test.failure
    if phase is None or not (phase.roots or phase.continued):
        return None
    origin = origin_of(recorded, test)
    wanted = [] if origin is None else origin.chain
    lines = path_text(test, phase, wanted, _PATH).splitlines()
    if not lines:
        return None
    evidence = [*_of_origin(origin, test), *_inside(origin, phase)]
    if origin is None or not origin.text:
        return Part("path", ["path:", *lines], evidence, most=_PATH + 200)
    heads = [f"path: {_came_from(origin)}"]
    earlier = made_before(recorded, test, origin)
    if earlier is not None:
        how = f"left at {earlier.path}" if earlier.path else "returned"
        heads.append(f"  before, it was {how} by {_named(earlier.call)}")
        reason = f"made {short(origin.text, 40)} before"
        evidence.append(Finding(earlier.call.code, "earlier", 3.0, reason))
    return Part("path", [*heads, *lines], evidence, most=_PATH + 300)


def _came_from(origin: Origin) -> str:
    how = "returned by" if origin.call.result == origin.text else "left by"
    return f"{short(origin.text, 60)} ({_place(origin)}) was {how} {_named(origin.call)}"


def _place(origin: Origin) -> str:
    return f"{origin.side} at {origin.path}" if origin.path else origin.side


def _named(call: Call) -> str:
    number = f" call {call.ordinal}" if call.ordinal > 1 else ""
    return f"{call.code.name}{number}  {call.code.place}"


def _of_origin(origin: Origin | None, test: RecordedTest) -> list[Finding]:
    """The inmost call speaks most; those above it, and what it called last, less."""
    if origin is None:
        return _last_calls(test)
    if origin.text:
        what = (
            f"gave {origin.side}{' at ' * bool(origin.path)}{origin.path}: {short(origin.text, 40)}"
        )
        weights = (3.0, 1.0)
    else:
        what, weights = f"raised {short(origin.call.error or '', 60)}", (2.0, 0.8)
    found = [Finding(origin.call.code, "path", weights[0], what)]
    found += [
        Finding(call.code, "path", weights[1] / (distance + 1), f"on the path, {what}")
        for distance, call in enumerate(reversed(origin.chain[:-1]))
    ]
    for at, chain in enumerate(fed_by(test, origin)[:3], 1):
        what = f"gave an argument of {origin.call.code.name}"
        found.append(Finding(chain[-1].code, "fed", 1.2 / at, what))
        found += [
            Finding(each.code, INSIDE, 0.6 / at, f"ran inside of {call.code.name}")
            for call in chain
            for each in call.children[-3:]
        ]
    inner = [each for each in origin.call.children if each.has_ended]
    found += [
        Finding(call.code, "path", 0.9 / (at + 1), f"its result went into {origin.call.code.name}")
        for at, call in enumerate(reversed(inner[-4:]))
    ]
    return found


def _inside(origin: Origin | None, phase: Phase) -> Iterator[Finding]:
    """What ran inside of the origin, or else in the phase: near calls first, late ones first."""
    roots = phase.roots if origin is None or origin.call.code.kind in BODIES else [origin.call]
    if origin is not None and not origin.call.children:
        roots = phase.roots
    seen: set[int] = set()
    level = list(roots)
    for depth in range(1, _DEEPEST):
        level = [child for call in level for child in call.children]
        for call in reversed(level[-_MOST_OF_LEVEL:]):
            if call.code.number not in seen:
                seen.add(call.code.number)
                yield Finding(call.code, INSIDE, 0.4 / depth, "ran on the way")


def _last_calls(test: RecordedTest) -> list[Finding]:
    """Where no call gave the wrong value: what the test called itself, the last first."""
    phase = test.failure
    roots = [] if phase is None else phase.roots
    calls = [child for root in roots for child in root.children]
    return [
        Finding(call.code, "path", 0.8 / (at + 1), "called last by the test")
        for at, call in enumerate(reversed(calls[-4:]))
    ]


def swallowed_part(test: RecordedTest) -> Part | None:
    """Exceptions that were caught on the way."""
    lines = swallowed(test, _SWALLOWED)
    if not lines:
        return None
    evidence = [
        Finding(each.code, "swallowed", 1.6 if each.caught.left else 1.0, each.reason)
        for each in swallowers(test, _SWALLOWED)
    ]
    return Part("swallowed", ["swallowed:", *(f"  {each}" for each in lines)], evidence)


def edited_part(found: Edited) -> Part | None:
    """Edits of what the test ran."""
    if not found.lines:
        return None
    evidence = [
        Finding(each.code, "edited", 2.0, each.reason, each.first) for each in found.evidence
    ]
    return Part("edited", found.lines, evidence)


def only_here_part(
    test: RecordedTest, tests: Sequence[RecordedTest], files: SourceFiles
) -> Part | None:
    """What ran in the failing test, and in none that passes; and what ran in all of them only."""
    found = only_here(test, tests, files)
    passing = [functions(each.ran) for each in tests if each.outcome == "passed"]
    evidence = [
        Finding(each.code, "only_here", _only_here_weight(each), each.reason, each.first)
        for each in found.evidence
    ]
    evidence += _seldom(test, passing)
    if not found.lines:
        return None if not evidence else Part("", [], evidence)
    head, *lines = found.lines
    return Part("only_here", [f"only here, {head}", *(f"  {each}" for each in lines)], evidence)


def _only_here_weight(remark: Remark) -> float:
    """Lines inside of a function that others ran say more than a whole function."""
    is_whole = (remark.first, remark.last) == (remark.code.first, remark.code.last)
    return 1.2 if is_whole else 2.2


def _seldom(test: RecordedTest, passing: Sequence[Mapping[Key, Function]]) -> Iterator[Finding]:
    """Functions that few of the passing neighbours ran."""
    for key, each in functions(test.ran).items():
        count = sum(key in ran for ran in passing)
        if 0 < count <= len(passing) // 2:
            reason = f"ran in {count} of {len(passing)} passing neighbours"
            yield Finding(each.code, "seldom", 0.8 * (1 - count / len(passing)), reason)


def differs_part(compared: Compared) -> Part | None:
    """Where it parts from a test that passes, if a call got the same and did something else."""
    first = compared.first
    if first is None or first.left is None or not first.has_same_input:
        return None
    head = f"differs from {compared.right.test.nodeid} ({compared.how}):"
    line = 0 if compared.inside is None else compared.inside.parting.line
    found = [Finding(first.left.code, "differs", 4.0, "got the same and did something else", line)]
    inner = [] if first.child is None else [each for each in first.child if each is not None]
    found += [Finding(each.code, "differs", 1.0, "called otherwise") for each in inner[:1]]
    return Part("differs", [head, *what_differs(compared)], found, most=700)


# --- the whole ----------------------------------------------------------------------------------


def why_answer(
    recorded: Recorded,
    test: RecordedTest,
    parts: Sequence[Part],
    files: SourceFiles,
    max_chars: int,
) -> Answer:
    """The answer out of its parts.

    Args:
        recorded: What the process saw in which the test failed.
        test: The test.
        parts: In order; the failure is the first.
        files: The sources.
        max_chars: Most characters of the text.
    """
    found = [each for part in parts for each in part.evidence]
    everyone = culprits(found, of_tests(recorded.tests))
    ranked = everyone[:SUSPECTS]
    names = [f"{at}. {_head(each)}" for at, each in enumerate(ranked, 1)]
    kept = sum(len(each) + 1 for each in names) + min(max_chars // 3, 1_300) * bool(ranked)
    room = max_chars - kept
    texts: list[str] = []
    is_cut = False
    for part in (each for each in parts if each.lines):
        share = max(80, min(part.most, room))
        text = part.text(share)
        is_cut = is_cut or len(text) < sum(len(line) + 1 for line in part.lines) - 1
        if len(text) > room:
            is_cut = True
            continue
        texts.append(text)
        room -= len(text) + 1
    room = max_chars - sum(len(each) + 1 for each in texts)
    shown = _suspects(ranked, names, files, room)
    texts += shown
    room -= sum(len(each) + 1 for each in shown)
    texts += _lines_of(everyone[SUSPECTS:], test, files, room)
    given = [part.name for part in parts if part.lines] + ["suspects"] * bool(ranked)
    fields = {"parts": given, "suspects": [each.to_plain() for each in ranked]}
    text = clipped("\n".join(texts), max_chars)
    return Answer(text, fields, is_cut, _next(test, everyone, text))


def _lines_of(
    others: Sequence[Culprit], test: RecordedTest, files: SourceFiles, room: int
) -> list[str]:
    """The lines that ran of further functions on the path, as far as there is room."""
    ran = functions(test.ran)
    texts = ["the lines that ran of others on the way:"]
    room -= len(texts[0]) + 1
    for culprit in others:
        code = culprit.code
        function = ran.get(key_of(code))
        if function is None:
            continue
        listing = files.listing(code)
        numbers = sorted({listing.start(line) for line in function.lines} - {listing.first})
        lines = [f"{number:>6}  {short(listing.statement(number), 90)}" for number in numbers]
        head = short(listing.statement(listing.first), 100)
        lines = [f"  {code.name}  {code.place}  {head}", *lines]
        size = sum(len(line) + 1 for line in lines)
        if 0 < len(numbers) <= _LINES_OF_OTHERS and size <= room:
            texts += lines
            room -= size
    return texts if len(texts) > 1 else []


def _head(culprit: Culprit) -> str:
    code = culprit.code
    return f"{code.dotted}  {code.file}:{code.first}–{code.last}  {short(culprit.reason, 160)}"


def _suspects(
    ranked: Sequence[Culprit], names: Sequence[str], files: SourceFiles, room: int
) -> list[str]:
    """The functions, with their source as far as there is room."""
    if not ranked:
        return []
    room -= sum(len(name) + 1 for name in names) + len("suspects:\n")
    lines = ["suspects:"]
    for at, (culprit, name) in enumerate(zip(ranked, names, strict=True)):
        lines.append(name)
        source = _source(culprit, files)
        size = sum(len(line) + 1 for line in source)
        if size > room and at == 0:
            source = _part_of(source, room)
            size = sum(len(line) + 1 for line in source)
        if source and size <= room:
            lines += source
            room -= size
    return lines


def _source(culprit: Culprit, files: SourceFiles) -> list[str]:
    """The source of a function, numbered; of a long one what is around its evidence."""
    listing = files.listing(culprit.code)
    about = {line for line in culprit.lines() if listing.first <= line <= listing.last}
    lines = listing.text_lines()
    if len(lines) > _LONG and about:
        near = {n for line in about for n in range(line - _AROUND, line + _AROUND + 1)}
        lines = [each for each in lines if each[0] in near or each[0] == listing.first]
    shown: list[str] = []
    before = 0
    for number, text in lines:
        if shown and number != before + 1:
            shown.append("     …")
        before = number
        shown.append(f"{'>' if number in about else ' '}{number:>5}  {text}".rstrip())
    return shown


def _part_of(source: list[str], room: int) -> list[str]:
    """As many lines as there is room for: around the evidence, else from the beginning."""
    marked = next((at for at, line in enumerate(source) if line.startswith(">")), 0)
    low = high = marked
    size = len(source[marked]) + 1 if source else 0
    while source and (low > 0 or high < len(source) - 1):
        grows = [at for at in (high + 1, low - 1) if 0 <= at < len(source)]
        fitting = [at for at in grows if size + len(source[at]) + 1 <= room - 10]
        if not fitting:
            break
        at = fitting[0] if high - marked <= marked - low or len(fitting) == 1 else fitting[-1]
        size += len(source[at]) + 1
        low, high = min(low, at), max(high, at)
    shown = source[low : high + 1]
    if high < len(source) - 1:
        shown.append("     …")
    return shown if sum(len(line) + 1 for line in shown) <= room else []


def _next(test: RecordedTest, everyone: Sequence[Culprit], text: str) -> list[str]:
    """The source of functions that are not shown, those first for which more speaks; then lines."""
    nodeid = test.nodeid
    hidden = [
        each.code.dotted
        for each in everyone
        if f"def {each.code.name.rpartition('.')[2]}(" not in text
        and each.code.name.rpartition(".")[2].isidentifier()
    ]
    steps = [
        proposal(
            "test_source", "the next functions on the way", function=", ".join(some), nodeid=nodeid
        )
        for some in (hidden[:_ASKED], hidden[_ASKED : 2 * _ASKED])
        if some
    ]
    why = "each line of a call of it"
    steps += [
        proposal("test_trace", why, nodeid=nodeid, function=each.code.dotted)
        for each in everyone[:2]
    ]
    return [*steps[:3], proposal("test_trace", "all calls of the test", nodeid=nodeid)]
