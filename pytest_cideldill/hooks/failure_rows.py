"""Leaves what failed in a test: the exception, its frames, both sides of a comparison.

For a question's process, on pytest's main thread. Both sides are left with their insides, so that
it can be said where they differ; no object is kept.
"""

from __future__ import annotations

from _thread import get_ident
from typing import Any, Final

import pytest

from pytest_cideldill.calltraces.leaves import Leaf, LeafReader, is_flat
from pytest_cideldill.calltraces.row_file import RowFile
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.frames.causes import inner_exceptions
from pytest_cideldill.frames.failure import Place, describe_exception
from pytest_cideldill.frames.frames import locals_of, notice_secrets_behind
from pytest_cideldill.frames.operands import names_in, statement_at
from pytest_cideldill.hooks.assertions import Assertions, given_to_method, method_of_unittest
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host
from pytest_cideldill.hooks.tracebacks import Raised, crash_message, visible_places
from pytest_cideldill.rendering.display import Lens

_MOST_FRAMES: Final = 12
_MOST_LOCALS: Final = 8
_SIDES: Final = ("left", "right")

_OF_ASSERTION: Final = (
    "left", "op", "right", "leftExpression", "rightExpression", "stoppedAt",
)  # fmt: skip
"""What the row has of an assertion."""

Insides = dict[str, list[Leaf]]
"""`left` and `right` → the leaves of a value whose text does not say all."""


class FailureRows:
    """Writes the row `failed`.

    Attributes:
        assertions: A plugin of its own, which sees comparisons fail.
    """

    def __init__(self, lens: Lens, host: Host, rows: RowFile) -> None:
        self.host = host
        self.assertions = Assertions(lens, host)
        self._lens, self._rows = lens, rows
        self._reader = LeafReader(Values(lens))
        # Thread → the texts of both sides of its latest comparison, and their insides.
        self._latest: dict[int, tuple[tuple[str, str], Insides]] = {}

    @guest
    def pytest_runtest_setup(self) -> None:
        """A test begins."""
        self._latest.clear()
        self.assertions.forget()

    @guest
    def pytest_assertrepr_compare(self, left: object, right: object) -> None:
        """A comparison failed; pytest asks for an explanation, and gets none from us."""
        shown = self._lens.show(left), self._lens.show(right)
        self._latest[get_ident()] = shown, self._insides(left, right)

    @pytest.hookimpl(trylast=True)
    @guest
    def pytest_exception_interact(
        self, call: pytest.CallInfo[Any], report: pytest.CollectReport | pytest.TestReport
    ) -> None:
        """A phase has failed."""
        if isinstance(report, pytest.TestReport) and call.excinfo is not None:
            self._rows.add(["failed", report.when, self._facts(call.excinfo, report)])

    def _facts(self, excinfo: Raised, report: pytest.TestReport) -> dict[str, Any]:
        lens = self._lens
        notice_secrets_behind(excinfo.value, lens)
        exception = describe_exception(excinfo.value, crash_message(report), lens)
        places = visible_places(excinfo, lens.project)
        facts: dict[str, Any] = {
            **exception,
            "behind": self._behind(excinfo.value),
            "frames": [self._frame(place) for place in places[:_MOST_FRAMES]],
            "locals": self._locals(places),
        }
        assertion = self.assertions.failed(excinfo, places, exception["message"])
        if assertion is None:
            return facts
        facts |= {name: assertion.get(name) for name in _OF_ASSERTION}
        return facts | {"insides": self._insides_of(excinfo, assertion)}

    def _behind(self, error: BaseException) -> list[list[Any]]:
        """What Python prints with an exception: `[relation, type, message, place or None]`."""
        rows = []
        for each in inner_exceptions(error, self._lens, printed=True)["innerExceptions"]:
            where = each["location"]
            place = where and [where["file"], where["line"], where["function"]]
            rows.append([each["relation"], each["type"], each["message"], place])
        return rows

    def _frame(self, place: Place) -> list[Any]:
        frame, line = place
        where = self._lens.place(frame, line)
        name = frame.f_code.co_qualname
        return [where["file"], where["line"], name, self._lens.project.has(frame)]

    def _locals(self, places: list[Place]) -> list[list[str]]:
        """Of the innermost frame of the user, first those that the failing line uses."""
        for frame, line in places:
            if self._lens.project.has(frame):
                statement = statement_at(frame.f_code, line, self._lens.texts.of(frame))
                first = names_in(statement, self._lens.source(frame, line)["source"])
                shown = locals_of(frame, self._lens, first=first)[:_MOST_LOCALS]
                return [[each["name"], each["value"]] for each in shown]
        return []

    # --- both sides -------------------------------------------------------------------------

    def _insides_of(self, excinfo: Raised, assertion: dict[str, Any]) -> Insides:
        """Those of the operands, if they are what was compared last."""
        method = method_of_unittest(excinfo)
        if method is not None:  # which asks nobody to explain
            held = given_to_method(method)
            return self._insides(*held) if len(held) == len(_SIDES) else {}
        texts, insides = self._latest.get(get_ident(), (("", ""), {}))
        return insides if texts == (assertion.get("left"), assertion.get("right")) else {}

    def _insides(self, left: object, right: object) -> Insides:
        return {
            side: self._reader.leaves("", value)
            for side, value in zip(_SIDES, (left, right), strict=True)
            if not is_flat(value)
        }
