"""The text of `test_diff` against a run or a record: what differs, and what could be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cideldill_mcp.questions.asking.past import Past
from cideldill_mcp.questions.diff.diff_text import VALUE, around, value_text
from cideldill_mcp.questions.diff.differences import ABSENT, Difference
from cideldill_mcp.questions.diff.facts import (
    CALL,
    FAILURE,
    FRAME,
    HIT,
    Fact,
    FactNoise,
    Parted,
    differences,
    facts_of,
    failure_values,
)
from cideldill_mcp.questions.texts.fitting import Answer, Item, counted, fit, left_out_text, short
from cideldill_mcp.replies.proposals import proposal
from pytest_cideldill.protocol.reducer import FAILED
from pytest_cideldill.reports.words import first_line

_VALUES: Final = 4
_LATER: Final = 5
_SUBJECTS: Final = 3


@dataclass(frozen=True, slots=True)
class RecordsCompared:
    """A test here, and the same test in another run.

    Attributes:
        left: Here.
        right: There.
        parted: What differs, but for outcome and failure.
        noise: What was left out.
    """

    left: Past
    right: Past
    parted: Sequence[Parted]
    noise: FactNoise

    @property
    def failure(self) -> list[Difference]:
        """How outcome and failure differ, as far as no value of a frame says it already."""
        found = differences(failure_values(self.left), failure_values(self.right))
        if self.left.result.outcome != self.right.result.outcome:
            return found[:1]
        known = {(value.left, value.right) for each in self.parted for value in each.differences}
        return [
            each for each in found if each.path in FAILURE or (each.left, each.right) not in known
        ]

    @property
    def is_equal(self) -> bool:
        """Whether nothing that could be compared differs."""
        return not self.parted and not self.failure


def record_answer(compared: RecordsCompared, max_chars: int) -> Answer:
    """The answer, its text of at most so many characters."""
    items = [*_heads(compared), *_differences(compared), *_ends(compared)]

    text, left_out = fit(items, max_chars, left_out_text, room=70)
    return Answer(text, _fields(compared), bool(left_out), _next(compared))


def _heads(compared: RecordsCompared) -> list[Item]:
    left, right = compared.left, compared.right
    lines = [f"left:  {heading(left)}", f"right: {heading(right)}  (in {right.name})"]
    others = [
        f"{difference.path} {difference.left} | {difference.right}"
        for difference in differences(left.environment, right.environment)
        if difference.path != "worker" or ABSENT not in (difference.left, difference.right)
    ]
    if others and right.environment:
        lines.append(f"environment: {'; '.join(others)}")
    return [Item(text, -5.0) for text in lines]


def heading(past: Past) -> str:
    """The test, its outcome, and the failure with its place."""
    test, report = past.result, past.result.report
    text = f"{test.nodeid}  {test.outcome or 'unfinished'}"
    if report is None or report.exception is None or test.outcome not in FAILED:
        return text
    message = first_line(report.exception.get("message"))
    place = report.location or {}
    where = f"  {place.get('file')}:{place.get('line')}" if place.get("file") else ""
    return f"{text}: {report.exception.get('type')}: {short(message, 200)}{where}"


def _differences(compared: RecordsCompared) -> list[Item]:
    if compared.is_equal:
        return [Item("equal: nothing that could be compared differs", -4.0)]
    items: list[Item] = []
    for at, each in enumerate(compared.parted[: _LATER + 1]):
        if at == 1:
            items.append(Item("later:", 1.0))
        head = "first difference: " if at == 0 else "  "
        items.append(Item(f"{head}{_subject(each)}", -4.0 if at == 0 else 1.0 + at))
        for number, value in enumerate(each.differences[: _VALUES if at == 0 else 2]):
            items.append(Item(f"  {'  ' * bool(at)}{value_text(value)}", at + number / 10 - 3.0))
    more = len(compared.parted) - _LATER - 1
    if more > 0:
        items.append(Item(f"  … {more} more", 8.0))
    if compared.failure:
        what = "first difference" if not compared.parted else "outcome and failure"
        items.append(Item(f"{what}:" if compared.parted else f"{what}: the failure", -3.5))
        items += [Item(f"  {value_text(difference)}", -3.0) for difference in compared.failure]
    return items


def _subject(parted: Parted) -> str:
    """What differs."""
    fact = parted.fact
    place = f"{fact.file}:{fact.line}"
    if fact.kind == FRAME:
        text = f"{fact.subject} at the failure  {place}"
    elif fact.kind == HIT:
        text = f"hit {fact.ordinal} of {fact.subject}"
    else:
        text = f"call {fact.ordinal} of {fact.subject}{f' from {place}' if fact.file else ''}"
    if parted.differences:
        return text
    values = ", ".join(f"{name}: {short(value, 60)}" for name, value in fact.values.items())
    return f"only {'left' if parted.left else 'right'}: {text}: {values}"


def _ends(compared: RecordsCompared) -> list[Item]:
    left, right = compared.left, compared.right
    parts = ["outcome"]
    if left.result.outcome in FAILED and right.result.outcome in FAILED:
        parts.append("failure")
    ours, theirs = facts_of(left), facts_of(right)
    if (frames := sum(fact.kind == FRAME for fact in ours)) and any(
        fact.kind == FRAME for fact in theirs
    ):
        parts.append(f"locals of {counted(frames, 'frame')}")
    parts += [_counted(kind, theirs) for kind in (CALL, HIT)]
    items = [Item(f"compared: {', '.join(filter(None, parts))}", -3.0)]
    if not any(fact.kind in (CALL, HIT) for fact in theirs):
        text = "no calls and no hits were recorded there (--cideldill-record-calls=GLOB)"
        items.append(Item(text, 2.0))
    if compared.noise.count:
        noise = counted(compared.noise.count, "value")
        items.append(Item(f"noise: {noise} that differ between two runs of left", 3.0))
    return items


def _counted(kind: str, facts: Sequence[Fact]) -> str:
    """`12 recorded calls of shop.cart.total, …`; empty: there are none."""
    counts = Counter(fact.subject for fact in facts if fact.kind == kind)
    if not counts:
        return ""
    what = counted(counts.total(), "recorded call" if kind == CALL else "hit")
    more = ", …" if len(counts) > _SUBJECTS else ""
    return f"{what} of {', '.join(list(counts)[:_SUBJECTS])}{more}"


def _fields(compared: RecordsCompared) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "against": compared.right.name,
        "equal": compared.is_equal,
        "noise": compared.noise.count,
    }
    if compared.is_equal:
        return fields
    report = compared.left.result.report or compared.right.result.report
    location = (report.location if report is not None else None) or {}
    function, file, line = "", location.get("file") or "", location.get("line") or 0
    if compared.parted:
        first = compared.parted[0]
        fact = first.fact
        function, file, line = fact.subject, fact.file, fact.line
        whole = ", ".join(fact.values.values())
        value = Difference(fact.kind, *((whole, ABSENT) if first.left else (ABSENT, whole)))
        value = first.differences[0] if first.differences else value
    else:
        value = compared.failure[0]
    left, right = around(value.left, value.right, VALUE)
    place = {"function": function, "file": file, "line": line}
    fields["divergence"] = {**place, "path": value.path, "left": left, "right": right}
    return fields


def _next(compared: RecordsCompared) -> list[str]:
    first = next((each.left for each in compared.parted if each.left is not None), None)
    nodeid = compared.left.result.nodeid
    if first is None or first.kind == HIT:
        return []
    number = {"call": first.ordinal} if first.kind == CALL and first.ordinal > 1 else {}
    why = "each line of it here"
    return [proposal("test_trace", why, nodeid=nodeid, function=first.subject, **number)]
