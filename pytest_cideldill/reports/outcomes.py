"""The outcome of a test in a recorded run, and each of its failures."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import is_made_again
from pytest_cideldill.protocol.reducer import outcome_after
from pytest_cideldill.reports.words import first_line, said, unstyled


@dataclass(slots=True)
class Test:
    """One test in one process.

    Attributes:
        began: Epoch seconds; None: not known.
        ended: The same; None: its process was gone before.
        duration_s: As pytest counts it.
        phases: The reports that did not just pass, as `protocol.PhaseReported` has them.
        plain: Category → how many reports had nothing else to say.
        is_tried_again: It ended, and begins again.
        is_held: It is one of those that are shown one by one.
    """

    __test__ = False

    nodeid: str
    worker: str
    began: float | None = None
    ended: float | None = None
    duration_s: float = 0.0
    phases: list[dict[str, Any]] = field(default_factory=list)
    plain: dict[str, int] = field(default_factory=dict)
    is_tried_again: bool = False
    is_held: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        return self.ended is not None and not self.is_tried_again

    @property
    def outcome(self) -> str:
        """pytest's category; of several failures the first. `unfinished`: its process was gone."""
        known: str | None = None
        for phase in self.phases:
            category, outcome = phase["category"], phase["outcome"]
            if not is_made_again(category, outcome, phase.get("attempt")):
                known = outcome_after(known, category, outcome)
        return known or ("passed" if self.ended is not None else "unfinished")

    @property
    def why(self) -> str:
        """The cause in the report that made the outcome, in one line; empty: it just passed."""
        outcome = self.outcome
        reports = (each for each in self.phases if outcome in (each["category"], each["outcome"]))
        return next((Failure(self.nodeid, self.worker, report).cause for report in reports), "")


@dataclass(frozen=True, slots=True)
class Failure:
    """A phase of a test that failed, or a file that could not be collected.

    Attributes:
        report: As `protocol.PhaseReported` has it.
    """

    nodeid: str
    worker: str
    report: dict[str, Any]

    @property
    def phase(self) -> str:
        """`setup`, `call`, `teardown`, `collect`; `???`: its process died."""
        return str(self.report.get("phase") or "call")

    @property
    def during(self) -> str:
        """` in setup`, ` in teardown`, after `part`; empty: in the test itself, or in none."""
        return self.part + (f" in {self.phase}" if self.phase in ("setup", "teardown") else "")

    @property
    def part(self) -> str:
        """` [m] (n=1)` of a subtest, as pytest names it; empty: it is all of the test."""
        return f" {part}" if (part := self.report.get("subtest")) else ""

    @property
    def category(self) -> str:
        """`failed` or `error`."""
        return str(self.report.get("category"))

    @property
    def autopsy(self) -> dict[str, Any]:
        """The autopsy, as `exception_get_context` replies it; empty: there is none."""
        return self.report.get("autopsy") or {}

    @property
    def place(self) -> str:
        """`file:line`; empty: it is not known."""
        return place_of(self.report.get("location"))

    @property
    def cause(self) -> str:
        """`AssertionError: assert 1 == 2`, in one line."""
        exception = self.report.get("exception")
        if exception:
            message = first_line(exception.get("message"))
            if not exception.get("type"):  # the class raised is not known
                return message or self.category
            return f"{exception.get('type')}: {message}" if message else str(exception.get("type"))
        text = self.report.get("longrepr") or self.report.get("incomplete")
        return first_line(said(text)) or self.category

    @property
    def explanation(self) -> str:
        """The same in full: of an assertion, what it compared."""
        assertion = self.autopsy.get("assertion") or {}
        exception = self.report.get("exception") or {}
        text = unstyled(assertion.get("explanation") or exception.get("message") or "")
        if not exception.get("type"):
            whole = text or said(self.report.get("longrepr") or self.report.get("incomplete"))
            return whole or self.category
        return f"{exception.get('type')}: {text}" if text else str(exception.get("type"))

    @property
    def frames(self) -> list[dict[str, Any]]:
        """As in the autopsy, innermost first."""
        return list(self.autopsy.get("frames") or ())

    @property
    def statement(self) -> str:
        """The source of the line that `place` names; empty: it is not known."""
        here = (frame for frame in self.frames if place_of(frame.get("location")) == self.place)
        return str(next(here, self.report.get("location") or {}).get("source") or "")

    @property
    def longrepr(self) -> str:
        """What pytest says about it."""
        return unstyled(self.report.get("longrepr") or "")

    @property
    def output(self) -> list[tuple[str, str]]:
        """What was captured: `(stdout, text)`, …"""
        texts = ((name, self.report.get(name)) for name in ("stdout", "stderr", "log"))
        return [(name, unstyled(text)) for name, text in texts if text]


def place_of(location: Any) -> str:
    """`file:line` of a location; empty: there is none."""
    if not isinstance(location, dict) or "line" not in location:
        return ""
    return f"{location.get('file')}:{location['line']}"


def variables_of(frame: dict[str, Any]) -> list[dict[str, Any]]:
    """Arguments and locals of a frame of an autopsy."""
    local = (frame.get("variables") or {}).get("locals") or ()
    return [*(frame.get("arguments") or ()), *local]
