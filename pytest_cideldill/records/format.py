"""The format of a recorded run on disk; `docs/record_format.md` describes it for other programs.

A record is a folder. Each run in it has a folder of its own, `run-TIME-ID`, with one file of events
per process while it goes on, and one of all of them, `events.jsonl`, when it is over. Readers of a
record look at the folders; `manifest.json` is for people and other programs.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_cideldill import protocol
from pytest_cideldill.protocol.checking import are_parts_right, is_moment, misfit
from pytest_cideldill.protocol.encoding import repaired, standard

FORMAT: Final = 1
"""The version that is written. Newer ones are refused; of older ones there are none."""

MANIFEST: Final = "manifest.json"
REPORT: Final = "report.html"
EVENTS: Final = "events.jsonl"
OBJECTS: Final = "objects.sqlite"
PART: Final = ".part.jsonl"
PART_OBJECTS: Final = ".part.objects"
RUN: Final = "run-"

ROWS: Final = frozenset({"hit", "call", "log"})
"""Types of lines that are many; they may be dropped."""

DROPPED: Final = "dropped"
"""Type of a line with the number of rows that were dropped."""

NOTED: Final = (
    protocol.AddLine
    | protocol.AddTrace
    | protocol.AddBreakpoint
    | protocol.AddException
    | protocol.Changed
)
"""Commands that are written when a process obeys them."""

ROW_TYPES: Final[dict[str, dict[str, str]]] = {
    "hit": {
        "nodeid?": "str | None",
        "thread": "int",
        "breakpoint_id": "str",
        "location": "Part",
        "hit_count": "int",
        "message": "str",
    },
    "call": {
        "call_id": "str",
        "method_name": "str",
        "qualified_name": "str",
        "status": "str",
        "pretty_args": "list[str]",
        "pretty_kwargs": "dict[str, str]",
        "started_at": "float",
        "completed_at?": "float | None",
        "parent_id?": "str | None",
        "nodeid?": "str | None",
        "thread": "int",
        "call_site?": "Part | None",
        "cids": "Cids",
        "pretty_result?": "str",
        "defined_in?": "list[str]",
        "exception?": "Part",
    },
    "log": {
        "nodeid?": "str | None",
        "thread": "int",
        "message": "str",
        "values": "dict[str, str]",
    },
    DROPPED: {"rows": "dict[str, int]"},
}
"""What is no message: type of a line → key → type of its value; `?`: it may be absent."""

UNWRITTEN: Final = (
    *(protocol.Replied, protocol.Refused, protocol.Rejoined, protocol.ItemsFound),
    protocol.NodesFinished,
)
"""Events for one client, which a record does not need, or has one by one."""

_NAMES: Final = {
    "hello": "worker_up",
    "departed": "worker_down",
    "node_started": "test_started",
    "phase_reported": "test_phase",
    "node_finished": "test_outcome",
    "stopped": "stop",
    "warned": "warning",
    "finished": "run_finished",
}
"""Kind of a message → type of its line, as the timeline calls it; else it is the kind."""

_KINDS: Final = {name: kind for kind, name in _NAMES.items()}
_OF_A_LINE: Final = ("n", "ts", "type", "worker")
_ABOUT: Final = "about"
"""Key of a message's own `worker`, where it is not the process that wrote the line."""

_decode: Final = JSONDecoder().decode


class Line(NamedTuple):
    """One line of a file of events; there may be very many.

    Attributes:
        n: Number within its process, from 1 on; what is missing between two was not written.
        ts: Epoch seconds.
        type: What happened; see the module's tables.
        worker: The process: `main`, `gw0`, …
    """

    n: int
    ts: float
    type: str
    worker: str
    values: dict[str, Any]

    @property
    def text(self) -> str:
        """As it is written, ASCII, with the line feed."""
        head = {"n": self.n, "ts": self.ts, "type": self.type, "worker": self.worker}
        values = head | self.values
        try:
            return standard(values) + "\n"
        except Exception as error:  # noqa: BLE001 - a border: what is not written did not happen
            return standard(repaired(values, error)) + "\n"

    @classmethod
    def decoded(cls, text: bytes) -> Line:
        """The inverse. Raises ValueError: it is no line of this format."""
        try:
            values = _decode(text.decode("ascii"))
            n, ts, type, worker = (values.pop(key) for key in _OF_A_LINE)
            line = cls(n, ts, type, worker, values)
            wrong = line._misfit()
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"no line of events: {text[:80]!r}") from error
        if wrong is not None:
            raise ValueError(f"no line of events, {wrong}: {text[:80]!r}")
        return line

    def _misfit(self) -> str | None:
        """What is not of the type that we write; None: all is, or it is of a newer version."""
        if not is_moment(self.ts) or not type(self.type) is type(self.worker) is str:
            return "its head is none"
        cls = ROW_TYPES.get(self.type) or protocol.KINDS.get(_KINDS.get(self.type, self.type))
        if cls is None:
            return None
        wrong = misfit(cls, self._of_message)
        return wrong if wrong or are_parts_right(self.values) else "in what is nested"

    @property
    def message(self) -> protocol.Message:
        """What the process said; of lines that are no rows.

        Raises:
            MalformedMessage: This version has no such message.
        """
        return protocol.from_plain(self._of_message | {"kind": _KINDS.get(self.type, self.type)})

    @property
    def _of_message(self) -> dict[str, Any]:
        """The fields of the message."""
        values = {**self.values, "ts": self.ts}
        if _ABOUT in values:
            values["worker"] = values.pop(_ABOUT)
        elif self.type == _NAMES["hello"]:
            values["worker"] = self.worker
        return values


def line_of(n: int, ts: float, worker: str, message: protocol.Message) -> Line:
    """The line of a message; what is None is left out."""
    values = {key: value for key, value in protocol.to_plain(message).items() if value is not None}
    kind = values.pop("kind")
    about = values.pop("worker", None)
    if kind == "hello":
        values["format"] = FORMAT
    elif about is not None:
        values[_ABOUT] = about
    return Line(n, values.pop("ts", ts), _NAMES.get(kind, kind), worker, values)


def part(run: Path, worker: str, pid: int, ending: str = PART) -> Path:
    """The file of one process."""
    name = re.sub(r"[^\w.-]", "_", worker)
    return run / f"{name}-{pid}{ending}"


def parts_of_objects(run: Path) -> list[Path]:
    """The files of objects of processes, as far as they were not put together."""
    return sorted(run.glob(f"*{PART_OBJECTS}"))
