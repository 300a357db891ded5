"""From the row of a recorded call to its event; on the I/O thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_cideldill.callrecords.active_call import Intercepted, Start, start_of
from pytest_cideldill.frames.arguments import DottedPath
from pytest_cideldill.interpreter.clock import wall_at
from pytest_cideldill.objects.content_ids import Frozen, Objects
from pytest_cideldill.rendering.display import Lens


class CallEventBuilder:
    """Makes events of the rows of recorded calls.

    Args:
        lens: Shows values.
        prefix: What the ids of calls begin with: `r1.main`.
        objects: Gives values their content ids.
    """

    def __init__(self, lens: Lens, prefix: str, objects: Objects | None) -> None:
        self._lens = lens
        self._prefix = prefix
        self._objects = objects

    def id_of(self, number: int) -> str:
        """The `call_id` that clients see."""
        return f"{self._prefix}.c{number}"

    def event_of(self, row: tuple[Any, ...]) -> dict[str, Any]:
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
            "call_site": self._site(start),
        }
        arguments = start.frozen
        if type(begun) is Intercepted:
            arguments = begun.frozen
            altered = {"altered": begun.altered, "replaced_by": begun.replaced_by}
            values |= {name: value for name, value in altered.items() if value is not None}
        values["cids"] = self._cids(arguments, frozen)
        if status == "success":
            values["pretty_result"] = show(result)
        if isinstance(path := start.name, DottedPath):
            values["defined_in"] = [path.module, self._lens.project.relative(path.file)]
        if exception is not None:
            message = self._lens.text(exception["message"])
            values["exception"] = {**exception, "message": message}
        return values

    def _cids(
        self, arguments: tuple[Sequence[Frozen], Mapping[str, Frozen]], result: Frozen | None
    ) -> dict[str, Any] | None:
        if self._objects is None:
            return None
        identify = self._objects.identify
        args, kwargs = arguments
        return {
            "args": [identify(each).cid for each in args],
            "kwargs": {name: identify(each).cid for name, each in kwargs.items()},
            "result": None if result is None else identify(result).cid,
        }

    def _site(self, start: Start) -> dict[str, Any] | None:
        if start.caller is None:
            return None
        code, place = start.caller
        for first, end, line in code.co_lines():
            if first <= place < end:
                return None if line is None else self._lens.site(code, line)
        return None
