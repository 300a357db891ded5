"""The answer to `test_why`: its parts within a size, and the functions that they point to.

Each part has a size of its own; what they leave is for the source of the functions for which most
speaks, then for the lines that ran of others on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.ran import Function, Key, functions, key_of
from cideldill_mcp.questions.recordings.recorded import Recorded, RecordedTest
from cideldill_mcp.questions.texts.fitting import Answer, clipped, short
from cideldill_mcp.questions.why.evidence import Culprit, culprits, of_tests
from cideldill_mcp.questions.why.why_parts import Part
from cideldill_mcp.replies.proposals import proposal

SUSPECTS: Final = 3
"""Functions that are named at the end."""

_AROUND: Final = 4
"""Lines before and behind a line of a function that has no room as a whole."""

_LONG: Final = 24
"""Lines of a function that are shown as a whole, at most."""

_LINES_OF_OTHERS: Final = 8
"""Lines of a function that is no suspect, at most."""

_STATEMENT: Final = 300
"""Characters of one of these lines, which may be a statement over several."""

_ASKED: Final = 8
"""Functions whose source one further question shows."""


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
    findings = [finding for part in parts for finding in part.evidence]
    everyone = culprits(findings, of_tests(recorded))
    ranked = everyone[:SUSPECTS]
    names = [f"{at}. {_head(culprit)}" for at, culprit in enumerate(ranked, 1)]
    kept = sum(len(name) + 1 for name in names) + min(max_chars // 4, 1_000) * bool(ranked)
    present = [each for each in parts if each.lines]
    texts = _fitted(present, max_chars - kept)
    is_cut = sum(map(len, texts)) < sum(each.size - 1 for each in present)
    texts = [each for each in texts if each]
    room = max_chars - sum(len(each) + 1 for each in texts)
    ran = functions(each for other in recorded.tests.values() for each in other.ran)
    shown = _suspects(ranked, names, _Sources(files, ran), room)
    texts += shown
    room -= sum(len(each) + 1 for each in shown)
    texts += _lines_of(everyone[SUSPECTS:], ran, files, room)
    given = [part.name for part in parts if part.lines] + ["suspects"] * bool(ranked)
    fields = {"parts": given, "suspects": [culprit.to_plain() for culprit in ranked]}
    text = clipped("\n".join(texts), max_chars)
    return Answer(text, fields, is_cut, _next(test, everyone, text))


def _fitted(parts: Sequence[Part], room: int) -> list[str]:
    """The texts of the parts: each has what it needs at least, the rest of the room in turn."""
    shares = [min(part.size, part.least) for part in parts]
    left = room - sum(shares) - len(parts)
    for at, part in enumerate(parts):
        more = max(0, min(part.size - shares[at], part.most - shares[at], left))
        shares[at] += more
        left -= more
    at = len(parts) - 1
    while left < 0 and at > 0:  # a small answer has the first parts
        left += shares[at]
        shares[at] = 0
        at -= 1
    if left < 0:
        shares[0] += left
    return [
        part.text(share) if share > 0 else "" for part, share in zip(parts, shares, strict=True)
    ]


def _lines_of(
    others: Sequence[Culprit], ran: Mapping[Key, Function], files: SourceFiles, room: int
) -> list[str]:
    """The lines that ran of further functions on the path, as far as there is room."""
    texts = ["the lines that ran of others on the way:"]
    room -= len(texts[0]) + 1
    for culprit in others:
        code = culprit.code
        function = ran.get(key_of(code))
        if function is None:
            continue
        listing = files.listing(code)
        numbers = sorted({listing.start(line) for line in function.lines} - {listing.first})
        lines = [
            f"{number:>6}  {short(listing.statement(number), _STATEMENT)}" for number in numbers
        ]
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
    ranked: Sequence[Culprit], names: Sequence[str], sources: _Sources, room: int
) -> list[str]:
    """The functions, with their source as far as there is room."""
    if not ranked:
        return []
    room -= sum(len(name) + 1 for name in names) + len("suspects:\n")
    lines = ["suspects:"]
    for at, (culprit, name) in enumerate(zip(ranked, names, strict=True)):
        lines.append(name)
        source = sources.of(culprit)
        size = sum(len(line) + 1 for line in source)
        share = room if at == len(ranked) - 1 else room * 2 // 3
        if size > share:
            source = _part_of(source, share)
            size = sum(len(line) + 1 for line in source)
        if source and size <= room:
            lines += source
            room -= size
    return lines


class _Sources:
    """The source of functions as the answer shows it.

    Args:
        files: The sources.
        ran: The functions that ran, with their lines.
    """

    def __init__(self, files: SourceFiles, ran: Mapping[Key, Function]) -> None:
        self._files, self._ran = files, ran

    def of(self, culprit: Culprit) -> list[str]:
        """Numbered lines; of a long function those that ran, or are near to its evidence."""
        listing = self._files.listing(culprit.code)
        about = {line for line in culprit.lines() if listing.first < line <= listing.last}
        lines = listing.text_lines()
        function = self._ran.get(key_of(culprit.code))
        if len(lines) > _LONG and (about or function is not None):
            near = {n for line in about for n in range(line - _AROUND, line + _AROUND + 1)}
            if not about and function is not None:
                near = {n for line in function.lines for n in range(listing.start(line), line + 1)}
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
        culprit.code.dotted
        for culprit in everyone
        if f"def {culprit.code.name.rpartition('.')[2]}(" not in text
        and culprit.code.name.rpartition(".")[2].isidentifier()
    ]
    steps = [
        proposal(
            "test_source", "the next functions on the way", function=", ".join(some), nodeid=nodeid
        )
        for some in (hidden[:_ASKED], hidden[_ASKED : 2 * _ASKED])
        if some
    ]
    why = "each line of a call of it"
    here = {*functions(test.ran), *(key_of(call.code) for call in test.calls.values())}
    steps += [
        proposal("test_trace", why, nodeid=nodeid, function=culprit.code.dotted)
        for culprit in everyone[:2]
        if key_of(culprit.code) in here  # not one of a test before it
    ]
    return [*steps[:3], proposal("test_trace", "all calls of the test", nodeid=nodeid)]
