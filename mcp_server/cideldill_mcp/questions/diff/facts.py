"""A test in two runs, by what both have recorded of it: calls, hits, and the frames of its failure.

A recorded run has no tree of all calls. What it has is put side by side by function and ordinal.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cideldill_mcp.questions.asking.past import Past
from cideldill_mcp.questions.diff.differences import ABSENT, ADDRESS, Difference
from pytest_cideldill.protocol.reducer import FAILED
from pytest_cideldill.redaction.tags import TAG
from pytest_cideldill.reports.words import first_line

CALL: Final = "call"
HIT: Final = "hit"
FRAME: Final = "frame"

FAILURE: Final = ("outcome", "phase", "exception")
"""Values of a failure that are none of the program."""

_ANY_TAG: Final = "<redacted>"
_ENDS: Final = ("return", "raises")
_STEP: Final = re.compile(r"[\[{]")


@dataclass(frozen=True, slots=True)
class Fact:
    """A call, a hit, or a frame of the failure.

    Attributes:
        kind: `call`, `hit` or `frame`.
        subject: The function, or `file:line` of a hit.
        ordinal: The how-manieth of it in the test, from 1.
        file: Where a call came from, where the hit is, or where the frame stood.
        line: The same.
        values: Path → text.
        began: Seconds since the first call or hit.
        ended: The same of its end.
    """

    kind: str
    subject: str
    ordinal: int
    file: str
    line: int
    values: Mapping[str, str]
    began: float
    ended: float

    @property
    def key(self) -> tuple[str, str, int]:
        """What its counterpart has, too."""
        return self.kind, self.subject, self.ordinal


@dataclass(frozen=True, slots=True)
class Parted:
    """Two facts that differ.

    Attributes:
        left: None: only the right side has it.
        right: None: only the left side has it.
        differences: Of their values; none if one of both is missing.
    """

    left: Fact | None
    right: Fact | None
    differences: tuple[Difference, ...] = ()

    @property
    def fact(self) -> Fact:
        """One of both."""
        found = self.left or self.right
        assert found is not None
        return found

    @property
    def moment(self) -> float:
        """When they part: with other arguments at the start of a call, else at its end."""
        is_at_end = bool(self.differences) and all(each.path in _ENDS for each in self.differences)
        return self.fact.ended if is_at_end else self.fact.began


@dataclass(slots=True)
class FactNoise:
    """What differs between two runs of one side.

    Attributes:
        values: Kind, subject and path.
        facts: Kind and subject of those that one run alone has.
    """

    values: set[tuple[str, str, str]] = field(default_factory=set)
    facts: set[tuple[str, str]] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.values) + len(self.facts)


def facts_of(past: Past) -> list[Fact]:
    """What a run has recorded of a test, in the order of the program."""
    counts: Counter[tuple[str, str]] = Counter()
    rows = [*past.calls, *past.hits]
    zero = min(map(_began, rows), default=0.0)

    def made(kind: str, subject: str, values: Mapping[str, str], at: Any, *times: float) -> Fact:
        counts[kind, subject] += 1
        place = at if isinstance(at, dict) else {}
        file, line = str(place.get("file") or ""), place.get("line")
        number = line if isinstance(line, int) else 0
        began, ended = times if times else (math.inf, math.inf)
        return Fact(kind, subject, counts[kind, subject], file, number, values, began, ended)

    found = []
    for row in sorted(rows, key=_began):
        began = _began(row) - zero
        if row["type"] == CALL:
            ended = float(row.get("completed_at") or math.inf) - zero
            values, at = _of_call(row), row.get("call_site")
            found.append(made(CALL, str(row["qualified_name"]), values, at, began, ended))
        else:
            at = row["location"]
            subject = f"{at.get('file')}:{at.get('line')}"
            found.append(made(HIT, subject, {"message": str(row["message"])}, at, began, began))
    for frame in _frames(past):
        subject = f"{frame.get('module') or ''}.{frame.get('function')}".lstrip(".")
        found.append(made(FRAME, subject, _of_frame(frame), frame.get("location")))
    return found


def _began(row: Mapping[str, Any]) -> float:
    return float(row["started_at"] if row["type"] == CALL else row["ts"])


def failure_values(past: Past) -> dict[str, str]:
    """The outcome of a test, and the exception of its failure with the sides of the assertion."""
    values = {"outcome": past.result.outcome or "unfinished"}
    report = past.result.report
    if report is None or past.result.outcome not in FAILED:
        return values
    if report.phase != "call":
        values["phase"] = report.phase
    exception = report.exception or {}
    message = first_line(exception.get("message"))
    values["exception"] = f"{exception.get('type')}: {message}"
    autopsy = report.autopsy or {}
    assertion = autopsy.get("assertion") or {}
    for name in ("left", "right"):
        if (text := assertion.get(name)) is not None:
            values[str(assertion.get(f"{name}Expression") or name)] = str(text)
    return values


def compared(left: Past, right: Past, noise: FactNoise | None = None) -> list[Parted]:
    """What differs, in the order in which it comes about.

    Frames are compared where both failed.
    """
    noise = noise or FactNoise()
    ours = {fact.key: fact for fact in facts_of(left)}
    theirs = {fact.key: fact for fact in facts_of(right)}
    both_failed = bool(_frames(left)) and bool(_frames(right))
    found = []
    for key in {**ours, **theirs}:
        a, b = ours.get(key), theirs.get(key)
        if key[0] == FRAME and not both_failed:
            continue
        if a is None or b is None:
            if key[:2] not in noise.facts:
                found.append(Parted(a, b))
            continue
        different = [
            difference
            for difference in differences(a.values, b.values)
            if (*key[:2], difference.path) not in noise.values
        ]
        if different:
            found.append(Parted(a, b, tuple(different)))
    return sorted(found, key=lambda each: each.moment)


def noise_of(first: Past, second: Past) -> FactNoise:
    """What differs between two runs of the same side."""
    noise = FactNoise()
    for each in compared(first, second):
        kind, subject = each.fact.kind, each.fact.subject
        if not each.differences:
            noise.facts.add((kind, subject))
        noise.values |= {(kind, subject, value.path) for value in each.differences}
    return noise


def differences(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    """Values that differ; of one whose parts differ only these."""
    found = [
        Difference(path, left.get(path, ABSENT), right.get(path, ABSENT))
        for path in {**left, **right}
        if _comparable(left.get(path, ABSENT)) != _comparable(right.get(path, ABSENT))
    ]
    outer = {_outer(each.path) for each in found if each.path not in (_outer(each.path), "")}
    return [difference for difference in found if difference.path not in outer]


def _outer(path: str) -> str:
    """The name of which a path shows a part."""
    return _STEP.split(path, maxsplit=1)[0].partition(".")[0]


def _comparable(text: str) -> str:
    """Without addresses, and with one tag for all secrets: each record has tags of its own."""
    return TAG.sub(_ANY_TAG, ADDRESS.sub("", text))


def _of_call(row: Mapping[str, Any]) -> dict[str, str]:
    values = {f"argument {at}": text for at, text in enumerate(row["pretty_args"], 1)}
    values |= row["pretty_kwargs"]
    if (error := row.get("exception")) is not None:
        values["raises"] = f"{error.get('type')}: {error.get('message')}"
    elif row.get("pretty_result") is not None:
        values["return"] = row["pretty_result"]
    return values


def _frames(past: Past) -> list[dict[str, Any]]:
    """The frames of the failure in the user's code, innermost first."""
    report = past.result.report
    if report is None or report.autopsy is None or past.result.outcome not in FAILED:
        return []
    return [each for each in report.autopsy.get("frames") or () if not each.get("isExternal")]


def _of_frame(frame: Mapping[str, Any]) -> dict[str, str]:
    values = {"line": str(frame.get("source") or "")}
    held = [*(frame.get("arguments") or ()), *((frame.get("variables") or {}).get("locals") or ())]
    for each in held:
        values.update(_entries(each))
    return values


def _entries(entry: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of a value, and of its parts."""
    path = f"{above}{entry.get('name')}"
    yield path, str(entry.get("value"))
    for child in entry.get("children") or ():
        yield from _entries(child, path)
