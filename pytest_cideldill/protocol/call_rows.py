"""Recorded calls of a kind as columns: what many of them have in common is worked out once.

Of such calls a batch has hundreds. The events of a front end and the lines of a file are made of
these columns; what their calls have of their own is put beside what they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol import columns
from pytest_cideldill.protocol.columns import Column, Series


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls of one function that returned: from one place, in one test, on one thread.

    All sequences but `args` and `arg_cids` have an item for each call; these two have a column for
    each argument.

    Attributes:
        at: Their places among the rows of the batch.
        common: What their events share: `type`, `qualified_name`, `nodeid`, …
        prefix: What `call_id` begins with; the number follows.
        parents: Numbers of the calls that made them.
        began: Moments of `clock.monotonic`, as in `ended`.
        args: Texts.
        arg_cids: None, if they have no content ids; then `result_cids` is empty.
    """

    at: Sequence[int]
    common: dict[str, Any]
    prefix: str
    numbers: Sequence[int]
    parents: Sequence[int | None]
    began: Sequence[float]
    ended: Sequence[float]
    args: Sequence[Sequence[str]]
    results: Sequence[str]
    arg_cids: Sequence[Sequence[str]] | None
    result_cids: Sequence[str]

    def series(self) -> Series:
        """Them as a series for a front end (docs/record_format.md)."""
        prefix, epoch = self.prefix, clock.wall_at(0.0)
        began = columns.floats(self.began, epoch)
        return {
            "count": len(self.at),
            "common": self.common,
            "columns": {
                "ts": began,
                "call_id": columns.numbered(prefix, self.numbers),
                "pretty_args": columns.lists(list(map(columns.texts, self.args))),
                "started_at": began,
                "completed_at": columns.floats(self.ended, epoch),
                "parent_id": columns.numbered(prefix, self.parents),
                "cids": self._cids(),
                "pretty_result": columns.texts(self.results),
            },
        }

    def _cids(self) -> Column:
        if self.arg_cids is None:
            return columns.same(None)
        args = columns.lists(list(map(columns.choices, self.arg_cids)))
        result = columns.choices(self.result_cids)
        return columns.objects({"args": args, "kwargs": columns.same({}), "result": result})


class CallMaker:
    """First item of the rows of calls that returned."""

    def __call__(self, row: tuple[Any, ...]) -> dict[str, Any]:
        """The event of one row."""
        raise NotImplementedError

    def together(self, rows: Sequence[tuple[Any, ...]]) -> list[Calls]:
        """The calls of a batch that can be handled together; rows of other kinds are passed over.

        Those that are in none are to be handled one by one.
        """
        raise NotImplementedError
