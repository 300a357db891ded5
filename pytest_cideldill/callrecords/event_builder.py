"""Events of recorded calls: of one row, or of many at once. On the I/O thread.

A batch has hundreds of calls, most of them of few functions. So what those of a function share is
worked out once, and their arguments and results column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from types import CodeType
from typing import Any

from pytest_cideldill.callrecords.active_call import (
    AS_KEPT,
    KWARGS,
    Intercepted,
    Start,
    start_of,
)
from pytest_cideldill.frames.arguments import DottedPath
from pytest_cideldill.interpreter.clock import wall_at
from pytest_cideldill.objects.content_ids import Objects
from pytest_cideldill.protocol.call_rows import CallMaker, Calls
from pytest_cideldill.protocol.rows import Row
from pytest_cideldill.rendering.display import Lens

_SHARED = ("name", "args", "caller", "place", "nodeid", "thread")

_begun_of, _ended_of, _result_of, _frozen_result_of = map(itemgetter, range(1, 5))
_ALIKE = [itemgetter(Start._fields.index(each)) for each in _SHARED]
_number_of, _args_of, _parent_of, _began_of, _frozen_of = (
    itemgetter(Start._fields.index(each))
    for each in ("number", "args", "parent", "began", "frozen")
)


class CallEventBuilder(CallMaker):
    """Makes events of the rows of recorded calls.

    It is the first item of the rows of calls that returned and that nobody intercepted: `(self,
    the tuple of a Start, moment of its end, kept result, frozen result)`.

    Args:
        prefix: What the ids of calls begin with: `r1.main`.
    """

    def __init__(self, lens: Lens, prefix: str, objects: Objects | None) -> None:
        self._lens = lens
        self._prefix = f"{prefix}.c"
        self._objects = objects

    def id_of(self, number: int) -> str:
        """The `call_id` that clients see."""
        return f"{self._prefix}{number}"

    # --- one by one -------------------------------------------------------------------------

    def __call__(self, row: Row) -> dict[str, Any]:
        """The event of a call that returned."""
        _, begun, ended, result, frozen = row
        return self.event_of((None, begun, "success", ended, result, None, frozen))

    def event_of(self, row: Row) -> dict[str, Any]:
        """An event of type `call` from a row (docs/record_format.md).

        A row is `(event_of, begun, status, moment of its end, kept result, exception, frozen
        result)`.
        A call that was logged as running is logged again, under its id, when it ended.
        """
        _, begun, status, ended, result, exception, frozen = row
        start, show = start_of(begun), self._lens.render_kept
        began_at = wall_at(start.began)
        values: dict[str, Any] = {
            "type": "call",
            "ts": began_at,
            "call_id": self.id_of(start.number),
            "method_name": start.name.rpartition(".")[2],
            "qualified_name": start.name,
            "status": status,
            "pretty_args": list(map(show, start.args)),
            "pretty_kwargs": {name: show(value) for name, value in start.kwargs.items()},
            "started_at": began_at,
            "completed_at": None if ended is None else wall_at(ended),
            "parent_id": None if start.parent is None else self.id_of(start.parent),
            "nodeid": start.nodeid,
            "thread": start.thread,
            "call_site": self._site(start.caller, start.place),
        }
        arguments = start.frozen
        if type(begun) is Intercepted:
            arguments = begun.frozen
            altered = {"altered": begun.altered, "replaced_by": begun.replaced_by}
            values |= {name: value for name, value in altered.items() if value is not None}
        if arguments is AS_KEPT:
            arguments = start.args, start.kwargs  # type: ignore[assignment]
        values["cids"] = None
        if self._objects is not None:
            identify, (args, kwargs) = self._objects.identify, arguments
            values["cids"] = {
                "args": [identify(arg).cid for arg in args],
                "kwargs": {name: identify(kwarg).cid for name, kwarg in kwargs.items()},
                "result": identify(frozen).cid if status == "success" else None,
            }
        if status == "success":
            values["pretty_result"] = show(result)
        values |= self._definition(start.name)
        if exception is not None:
            message = self._lens.text(exception["message"])
            values["exception"] = {**exception, "message": message}
        return values

    def _definition(self, name: str) -> dict[str, Any]:
        if not isinstance(name, DottedPath):
            return {}
        return {"defined_in": [name.module, self._lens.project.relative(name.file)]}

    def _site(self, code: CodeType | None, place: int) -> dict[str, Any] | None:
        if code is None:
            return None
        for first, end, line in code.co_lines():
            if first <= place < end:
                return None if line is None else self._lens.site(code, line)
        return None

    # --- many at once -----------------------------------------------------------------------

    def together(self, rows: Sequence[Row]) -> list[Calls]:
        """The calls of a batch that returned, by function, place, test and thread."""
        at = [index for index, row in enumerate(rows) if row[0] is self and not row[1][KWARGS]]
        if not at:
            return []
        mine = rows if len(at) == len(rows) else [rows[index] for index in at]
        return [self._calls(*each) for each in _alike(at, mine, list(map(_begun_of, mine)))]

    def _calls(self, at: Sequence[int], rows: Sequence[Row], starts: Sequence[Row]) -> Calls:
        shown = self._lens.render_all_kept
        args, results = list(map(_args_of, starts)), list(map(_result_of, rows))
        columns = list(zip(*args, strict=True))
        arg_cids: list[list[str]] | None = None
        result_cids: list[str] = []
        if self._objects is not None:
            cids, taken = self._objects.cids, list(map(_frozen_of, starts))
            if set(map(id, taken)) == {id(AS_KEPT)}:
                arg_cids = list(map(cids, columns))
            else:
                both = zip(args, taken, strict=True)
                frozen = [mine if each is AS_KEPT else each[0] for mine, each in both]
                arg_cids = list(map(cids, zip(*frozen, strict=True)))
            result_cids = cids(list(map(_frozen_result_of, rows)))
        return Calls(
            at,
            self._common(Start._make(starts[0])),
            self._prefix,
            list(map(_number_of, starts)),
            list(map(_parent_of, starts)),
            list(map(_began_of, starts)),
            list(map(_ended_of, rows)),
            list(map(shown, columns)),
            shown(results),
            arg_cids,
            result_cids,
        )

    def _common(self, start: Start) -> dict[str, Any]:
        return {
            "type": "call",
            "method_name": start.name.rpartition(".")[2],
            "qualified_name": start.name,
            "status": "success",
            "pretty_kwargs": {},
            "nodeid": start.nodeid,
            "thread": start.thread,
            "call_site": self._site(start.caller, start.place),
            **self._definition(start.name),
        }


def _alike(
    at: Sequence[int], rows: Sequence[Row], starts: Sequence[Row]
) -> Iterator[tuple[Sequence[int], Sequence[Row], Sequence[Row]]]:
    """The calls of one function, from one place, in one test and thread, with as many arguments."""
    names, args, callers, places, nodeids, threads = (map(each, starts) for each in _ALIKE)
    shared = (map(id, names), map(id, callers), places, nodeids, threads, map(len, args))
    columns = list(map(list, shared))
    if all(each.count(each[0]) == len(starts) for each in columns):  # made without many tuples
        yield at, rows, starts
        return
    picked: dict[tuple[object, ...], list[int]] = {}
    for index, key in enumerate(zip(*columns, strict=True)):
        picked.setdefault(key, []).append(index)
    for some in picked.values():
        yield tuple([[each[index] for index in some] for each in (at, rows, starts)])  # type: ignore[misc]
