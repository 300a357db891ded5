"""Ranks the functions that failing tests run, and makes the text of that. Pure.

By Ochiai's coefficient: `failing that ran it / sqrt(all failing * all that ran it)`; 1 for what
all failing tests ran and no passing one, 0 for what no failing one ran. Ties: the fewer passing
tests, the nearer to where the failures arose by their tracebacks, the later in the failing tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final

from cideldill_mcp.questions.recordings.ran import Key, is_of_tests, key_of
from cideldill_mcp.questions.recordings.recorded import Code, Recorded, RecordedTest
from cideldill_mcp.questions.texts.fitting import Answer, Item, counted, fit, short
from cideldill_mcp.replies.proposals import proposal

_MESSAGE: Final = 160
"""Characters of why a test failed."""

_FAILURES: Final = 3
"""Failing tests that are named."""

_NAMED: Final = 2
"""Tests that ran a function, up to which they are named."""

_OF_TESTS: Final = 3
"""Functions of test files that are listed, at most."""

_FURTHER: Final = 8
"""Functions beyond the limit that are named."""

_FAILED: Final = frozenset({"failed", "error"})
_PASSED: Final = frozenset({"passed", "xpassed"})


@dataclass(slots=True, eq=False)
class Suspect:
    """A function, and the tests that ran it.

    Attributes:
        code: One of its code objects.
        failing: The failing tests.
        passing: The passing tests.
        nearness: How near it is to the failures: for each test 1 for the innermost frame of the
            traceback, less for outer ones, 0 for no frame.
        lateness: How late it started first in the failing tests: the sum of shares.
        score: Ochiai's.
    """

    code: Code
    failing: list[RecordedTest] = field(default_factory=list)
    passing: list[RecordedTest] = field(default_factory=list)
    nearness: float = 0.0
    lateness: float = 0.0
    score: float = 0.0

    @property
    def order(self) -> tuple[Any, ...]:
        """What it is sorted by."""
        late = self.lateness / max(1, len(self.failing))
        return -self.score, len(self.passing), -self.nearness, -late, self.code.dotted

    def to_plain(self) -> dict[str, Any]:
        """An item of `functions`."""
        return {
            "function": self.code.dotted,
            "file": self.code.file,
            "line": self.code.first,
            "score": round(self.score, 2),
            "failing": len(self.failing),
            "passing": len(self.passing),
        }


class Contrast:
    """The failing and the passing tests of a process, and what they ran.

    Args:
        recorded: What it saw.

    Attributes:
        failing: Failed, or had an error; in order.
        passing: Passed.
        others: How many did neither: they were skipped, were expected to fail, or did not end.
        suspects: Functions that a failing test ran, outside of test files; sorted.
        of_tests: The same of test files: fixtures and helpers. Test functions are neither.
    """

    def __init__(self, recorded: Recorded) -> None:
        tests = list(recorded.tests.values())
        self.failing = [test for test in tests if test.outcome in _FAILED]
        self.passing = [test for test in tests if test.outcome in _PASSED]
        self.others = len(tests) - len(self.failing) - len(self.passing)
        suspects: dict[Key, Suspect] = {}
        for test in self.failing:
            _add_failing(suspects, test)
        for test in self.passing:
            for key in _ran(test):
                if key in suspects:
                    suspects[key].passing.append(test)
        for suspect in suspects.values():
            count = len(suspect.failing)
            suspect.score = count / sqrt(len(self.failing) * (count + len(suspect.passing)))
        names = {_function_of(test.nodeid) for test in tests}
        files = frozenset(recorded.test_files)
        ranked = sorted(suspects.values(), key=lambda each: each.order)
        self.suspects = [suspect for suspect in ranked if not is_of_tests(suspect.code, files)]
        self.of_tests = [
            each
            for each in ranked
            if is_of_tests(each.code, files) and (each.code.file, each.code.name) not in names
        ]

    def is_ran_more(self, suspect: Suspect) -> bool:
        """Whether a larger share of the failing tests than of the passing ones ran it."""
        failing, passing = len(suspect.failing), len(suspect.passing)
        return failing * len(self.passing) > passing * len(self.failing)


def _add_failing(found: dict[Key, Suspect], test: RecordedTest) -> None:
    ran = _ran(test)
    for at, (key, code) in enumerate(ran.items(), 1):
        suspect = found.setdefault(key, Suspect(code))
        suspect.failing.append(test)
        suspect.lateness += at / len(ran)
    frames = test.failure.frames if test.failure is not None else []
    for at, key in enumerate(dict.fromkeys(map(key_of, frames)), 1):
        if key in ran:
            found[key].nearness += 1 / at


def _ran(test: RecordedTest) -> dict[Key, Code]:
    """What a test started, in order; of a failed one not what came after the failure."""
    codes: dict[Key, Code] = {}
    for phase in test.phases:
        for code in phase.starts:
            codes.setdefault(key_of(code), code)
        if phase is test.failure:
            break
    return codes


def _function_of(nodeid: str) -> tuple[str, str]:
    """File and qualified name of a test function."""
    file, _, rest = nodeid.partition("::")
    return file, rest.partition("[")[0].replace("::", ".")


# --- the text -----------------------------------------------------------------------------------


def suspects_answer(contrast: Contrast, *, limit: int, max_chars: int) -> Answer:
    """The answer.

    Args:
        contrast: Has a failing and a passing test.
        limit: Most functions outside of test files.
        max_chars: Of the text.
    """
    shown = contrast.suspects[:limit]
    of_tests = contrast.of_tests[:_OF_TESTS]
    items = list(_items(contrast, shown, of_tests, limit))

    def closing(missing: Sequence[Item]) -> str:
        count = sum(item.weight for item in missing)
        return f"left out: {counted(count, 'line')}; max_chars has room for them"

    text, missing = fit(items, max_chars, closing)
    functions = [suspect.to_plain() for suspect in (*shown, *of_tests)]
    return Answer(text, {"functions": functions}, bool(missing), _next(contrast, shown or of_tests))


def _items(
    contrast: Contrast, shown: list[Suspect], of_tests: list[Suspect], limit: int
) -> Iterator[Item]:
    yield Item(_summary(contrast), 0)
    for at, test in enumerate(contrast.failing[:_FAILURES]):
        yield Item(_failure(test), 0.5 if at == 0 else 20 + at)
    if len(contrast.failing) > _FAILURES:
        yield Item(f"✗ … {len(contrast.failing) - _FAILURES} more", 30)
    if not shown:
        yield Item("failing tests ran no function of your code outside of test files", 1)
    elif not any(map(contrast.is_ran_more, shown)):
        yield Item("failing tests ran no function more than passing tests did", 1)
    for at, suspect in enumerate(shown):
        yield Item(_row(suspect, contrast), 2 + at)
    if line := _further(contrast, limit):
        yield Item(line, 12)
    if of_tests:
        yield Item("in test files:", 13, weight=0)
    for at, suspect in enumerate(of_tests):
        yield Item(_row(suspect, contrast), 14 + at)


def _summary(contrast: Contrast) -> str:
    failing, passing = len(contrast.failing), len(contrast.passing)
    count = counted(failing + passing + contrast.others, "test")
    others = f", {contrast.others} neither" if contrast.others else ""
    return f"{count}: {failing:,} failed, {passing:,} passed{others}"


def _failure(test: RecordedTest) -> str:
    failure = test.failure
    assert failure is not None
    where = "" if failure.name == "call" else f"{failure.name}: "
    place = f"  {failure.file}:{failure.line}" if failure.line else ""
    return f"✗ {test.nodeid}  {where}{short(failure.text, _MESSAGE)}{place}"


def _row(suspect: Suspect, contrast: Contrast) -> str:
    failing = f"{len(suspect.failing)} of {len(contrast.failing)} failing"
    passing = f"{len(suspect.passing)} of {len(contrast.passing)} passing"
    named = [
        f"{word} {', '.join(_short_id(test.nodeid) for test in ran)}"
        for word, ran, all_of in (
            ("failing", suspect.failing, contrast.failing),
            ("passing", suspect.passing, contrast.passing),
        )
        if 0 < len(ran) <= _NAMED and len(ran) < len(all_of)
    ]
    code = suspect.code
    names = f"  ({'; '.join(named)})" if named else ""
    return f"{suspect.score:.2f}  {code.name}  {code.place}  {failing}, {passing}{names}"


def _short_id(nodeid: str) -> str:
    before, bracket, parameters = nodeid.partition("[")
    return short(before.rpartition("::")[2] + bracket + parameters, 60)


def _further(contrast: Contrast, limit: int) -> str:
    """What else only failing tests ran."""
    only = [suspect for suspect in contrast.suspects[limit:] if not suspect.passing]
    if not only:
        return ""
    names = ", ".join(suspect.code.name for suspect in only[:_FURTHER])
    more = " …" if len(only) > _FURTHER else ""
    return f"only failing tests ran {counted(len(only), 'more function')}: {names}{more}"


def _next(contrast: Contrast, shown: list[Suspect]) -> list[str]:
    """The likeliest function in a failing test, line by line; its source; the calls of the test."""
    if not shown:
        return [proposal("test_trace", "its calls", nodeid=contrast.failing[0].nodeid)]
    nodeid, function = shown[0].failing[0].nodeid, shown[0].code.dotted
    return [
        proposal("test_trace", "each line of a call", nodeid=nodeid, function=function),
        proposal("test_trace", "its calls, with arguments and results", nodeid=nodeid),
        proposal("test_source", "which of its lines ran", function=function, nodeid=nodeid),
    ]
