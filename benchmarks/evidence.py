"""How often the first answer names the fault: `python -m benchmarks.evidence`.

Each case of `evidence_cases` is an intact project with one edit of one function, and a test that
fails by it. Asked is `cideldill why NODEID --json`, then the first two questions that it proposes;
beside them stand `pytest -q` and `pytest -l` with the same test. A text *names* the function by its
qualified name or by a line inside it, and *shows* it by lines of its source. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.evidence_cases import MADE_UP, REAL
from benchmarks.evidence_cases.cases import Case
from benchmarks.evidence_questions import Asked, further, pytest_says, why
from benchmarks.evidence_truth import Truth

FURTHER: Final = 2
"""Questions that are asked after the first one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text, or several, shows of the function that was edited.

    Attributes:
        names: Its name, or a line of it by number.
        shows: Lines of its source.
        edit: A line that the edit made.
        characters: Of the text.
    """

    names: bool
    shows: bool
    edit: bool
    characters: int

    @classmethod
    def of(cls, truth: Truth, *texts: str) -> Reading:
        """All that the texts tell together."""
        whole = "\n".join(texts)
        found = truth.is_named_in(whole), truth.is_shown_in(whole), truth.has_edit_in(whole)
        return cls(*found, sum(map(len, texts)))

    @property
    def is_found(self) -> bool:
        """Whether a reader knows the function, and sees it."""
        return self.names and self.shows


@dataclass(frozen=True, slots=True)
class Result:
    """What one case gave.

    Attributes:
        hidden: The traceback does not go through the function.
        suspect: The function's rank among the suspects; 0 if it is none of them.
        first: The first answer.
        three: It and two questions that it proposed.
        questions: Those two.
        first_s: Seconds until the first answer.
        seconds: Seconds until all three.
        refused: Why there is no answer, if there is none.
        texts: The answers.
    """

    name: str
    kind: str
    is_real: bool
    function: str
    hidden: bool
    suspect: int
    parts: list[str]
    first: Reading
    three: Reading
    questions: list[str]
    first_s: float
    seconds: float
    quiet: Reading
    locals: Reading
    refused: str
    texts: list[str]


def measured(case: Case, folder: Path) -> Result:
    """Ask about a case, whose project is made in the folder."""
    root = case.written(folder)
    truth = Truth.of(case, root)
    answer = why(case, root)
    more = list(further(case, root, answer.proposals[:FURTHER]))
    texts = [answer.text, *(each.text for each in more)]
    quiet, with_locals = (pytest_says(case, root, option) for option in ("-q", "-l"))
    return Result(
        case.name,
        case.kind,
        case.is_real,
        case.truth.function,
        not truth.is_in_traceback_of(quiet),
        truth.rank_among(answer.suspects),
        answer.parts,
        Reading.of(truth, answer.text),
        Reading.of(truth, *texts),
        [each.question for each in more],
        answer.seconds,
        sum(each.seconds for each in (answer, *more)),
        Reading.of(truth, quiet),
        Reading.of(truth, with_locals),
        _refusals(answer, *more),
        texts,
    )


def _refusals(*asked: Asked) -> str:
    return "; ".join(each.refused for each in asked if each.refused)


# --- what is printed ----------------------------------------------------------------------------

HEAD: Final = (
    f"{'':24}{'first answer':34}{'with two more':24}{'pytest -q':16}{'pytest -l':16}\n"
    f"{'case':24}{'names shows edit rank  chars    s':34}{'found  chars     s':24}"
    f"{'names  chars':16}{'names  chars':16}function\n"
)


def line(result: Result) -> str:
    """A case in one line, and why a question was refused."""
    first, more = result.first, result.three
    marks = "".join(f"{_mark(is_so):6}" for is_so in (first.names, first.shows, first.edit))
    pytests = (
        f"{_mark(each.names):5}{each.characters:7,}" for each in (result.quiet, result.locals)
    )
    columns = (
        f"{result.name:24}",
        f"{marks}{result.suspect or '-':>3}{first.characters:7,}{result.first_s:5.0f}".ljust(34),
        f"{_mark(more.is_found):6}{more.characters:7,}{result.seconds:5.0f}".ljust(24),
        *(each.ljust(16) for each in pytests),
        result.function if result.hidden else f"{result.function} (in the traceback)",
    )
    refused = f"\n    {result.refused}" if result.refused else ""
    return "".join(columns).rstrip() + refused


def _mark(is_so: bool) -> str:
    return "yes" if is_so else "-"


def totals(title: str, results: Sequence[Result]) -> Iterator[str]:
    """Percentages and medians of some cases."""
    if not results:
        return
    hidden = _percent(each.hidden for each in results)
    yield f"{title}: {len(results)} cases, {hidden} of them outside the traceback"
    firsts = [each.first for each in results]
    yield (
        f"    first answer: {_read(firsts)}, shows the edit {_percent(r.edit for r in firsts)}; "
        f"the first suspect {_percent(each.suspect == 1 for each in results)}, "
        f"one of three {_percent(each.suspect > 0 for each in results)}; "
        f"{median(each.first_s for each in results):.1f} s"
    )
    yield (
        f"    with two more questions: {_read([each.three for each in results])}; "
        f"{median(each.seconds for each in results):.1f} s"
    )
    until = [each.first if each.first.is_found else each.three for each in results]
    yield f"    read until it is found: {median(each.characters for each in until):,.0f} characters"
    yield f"    pytest -q: {_read([each.quiet for each in results])}"
    yield f"    pytest -l: {_read([each.locals for each in results])}"


def _read(readings: Sequence[Reading]) -> str:
    characters = median(each.characters for each in readings)
    return (
        f"{characters:,.0f} characters, names {_percent(each.names for each in readings)}, "
        f"names and shows {_percent(each.is_found for each in readings)}"
    )


def _percent(answers: Iterable[bool]) -> str:
    counted = list(answers)
    return f"{sum(counted) * 100 / len(counted):.0f} %"


def chosen_cases(arguments: Sequence[str] | None = None) -> tuple[list[Case], bool]:
    """The cases that the command line chooses, and whether to print JSON."""
    parser = argparse.ArgumentParser("python -m benchmarks.evidence", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--real", action="store_true", help="only releases of packages")
    which.add_argument("--made-up", action="store_true", help="only small programs")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="cases whose names have this; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each case")
    chosen = parser.parse_args(arguments)
    cases = [*(() if chosen.real else MADE_UP), *(() if chosen.made_up else REAL)]
    if chosen.only:
        cases = [each for each in cases if any(name in each.name for name in chosen.only)]
        if not cases:
            parser.error(f"no case has {' or '.join(chosen.only)} in its name")
    return cases, chosen.json


def main() -> None:
    """Measure the cases, one after the other, and print them."""
    cases, as_json = chosen_cases()
    if not as_json:
        print(f"Python {platform.python_version()}\n\n{HEAD}")
    results = []
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="cideldill-evidence-") as folder:
            result = measured(case, Path(folder).resolve())
        results.append(result)
        print(json.dumps(asdict(result)) if as_json else line(result), flush=True)
    if as_json:
        return
    made_up = [each for each in results if not each.is_real]
    real = [each for each in results if each.is_real]
    print()
    for title, some in (("made up", made_up), ("real", real), ("all", results)):
        print(*totals(title, some), sep="\n")


if __name__ == "__main__":
    main()
