"""What speaks for a function as the cause of a failure, and which functions it speaks for most.

Each part of `test_why` gives what it found; nothing is weighed that no part has found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cideldill_mcp.questions.recordings.ran import Key, is_of_tests, key_of
from cideldill_mcp.questions.recordings.recorded import BODIES, Code, Recorded

INSIDE: Final = "inside"
"""The kind of evidence that says only that a function ran on the way."""

ON_THE_WAY: Final = "ran on the way"
"""The reason of a function about which nothing else is to be said."""

RARITY: Final = "rarity"
"""The kind of evidence that says how few passing tests ran a function: its weight is the square of
the share of them that did not run all of it, so that one of many says little."""

_OF_VALUES: Final = frozenset({"path", "earlier", "fed", INSIDE})
"""Kinds that are about the way of a value. They count as much as the function is rare: what passing
tests ran as well gave them right values."""

_LEAST: Final = 0.2
"""The part of it that counts for a function that all passing tests ran whole."""

_UNKNOWN: Final = 0.5
"""The rarity of a function where no passing test is known."""

_RARITY: Final = 1.5
"""What rarity counts by itself, at most."""

_FURTHER: Final = 0.25
"""How much further evidence of one kind counts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that speaks for a function.

    Attributes:
        code: The function.
        kind: The part of the answer that has found it.
        weight: How much it says.
        reason: What was found, in a few words; empty: it is not worth a word.
        line: The line that it is about; 0: the whole function.
    """

    code: Code
    kind: str
    weight: float
    reason: str
    line: int = 0


@dataclass(slots=True, eq=False)
class Culprit:
    """A function, and what speaks for it; the strongest first."""

    code: Code
    evidence: list[Finding] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The sum of the weights; of one kind the first counts in full."""
        rarity = next((each.weight for each in self.evidence if each.kind == RARITY), None)
        part = _LEAST + (1 - _LEAST) * (_UNKNOWN if rarity is None else rarity)
        seen: set[str] = set()
        score = 0.0
        for finding in self.evidence:
            weight = finding.weight * (_FURTHER if finding.kind in seen else 1)
            if finding.kind == RARITY:
                weight *= _RARITY
            score += weight * part if finding.kind in _OF_VALUES else weight
            seen.add(finding.kind)
        return score

    @property
    def reason(self) -> str:
        """Why, in a few words."""
        useful = [each for each in self.evidence if each.reason and each.kind != INSIDE]
        worded = useful or [each for each in self.evidence if each.reason]
        return "; ".join(dict.fromkeys(each.reason for each in worded[:3])) or ON_THE_WAY

    def lines(self) -> list[int]:
        """The lines that the evidence is about."""
        return list(dict.fromkeys(finding.line for finding in self.evidence if finding.line))

    def to_plain(self) -> dict[str, object]:
        """An item of `suspects`."""
        code = self.code
        return {
            "function": code.dotted,
            "file": code.file,
            "line": code.first,
            "reason": self.reason,
        }


def culprits(found: Iterable[Finding], is_of_a_test: Callable[[Code], bool]) -> list[Culprit]:
    """The functions, those for which most speaks first; of test files only if there are no others.

    Args:
        found: In the order in which it was found, which decides between equal ones.
        is_of_a_test: Whether code is of a test file.
    """
    by_function: dict[Key, Culprit] = {}
    for finding in found:
        code = finding.code
        if code.kind not in BODIES:
            by_function.setdefault(key_of(code), Culprit(code)).evidence.append(finding)
    for culprit in by_function.values():
        culprit.evidence.sort(key=lambda finding: -finding.weight)
    ranked = sorted(by_function.values(), key=lambda each: -each.score)
    return [each for each in ranked if not is_of_a_test(each.code)] or ranked


def of_tests(recorded: Recorded) -> Callable[[Code], bool]:
    """Whether code is of the files of tests, or a `conftest.py`."""
    files = {*recorded.test_files, *(nodeid.partition("::")[0] for nodeid in recorded.tests)}

    return lambda code: is_of_tests(code, files)
