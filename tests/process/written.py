"""Records as they stand on the disk, written line by line without a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_cideldill.records.format import EVENTS, Line, part

BEGAN = 1_790_000_000.0

EMPTY: dict[str, dict[str, Any]] = {
    "worker_up": {"protocol": 1, "executable": "", "argv": [], "cwd": "", "engine": {}},
    "add_line": {"request": 1, "hit_count": 1, "multiple": 0, "max_notifications": 0, "key": []},
    "log": {"thread": 1, "values": {}},
    "call": {"method_name": "total", "started_at": BEGAN, "thread": 1},
}
"""What lines of a type must have, whatever they tell."""

FILE = "test_shop.py"


class Writer:
    """Lines of one process, a millisecond after the other."""

    def __init__(self, worker: str = "main") -> None:
        self.worker = worker
        self.lines: list[Line] = []
        self.now = BEGAN

    def append(self, type: str, **values: Any) -> Writer:
        self.now += 0.001
        whole = EMPTY.get(type, {}) | values
        self.lines.append(Line(len(self.lines) + 1, self.now, type, self.worker, whole))
        return self

    def begin(self) -> Writer:
        root = "/project"
        about = {"run_id": "c1", "python": "3.12.1", "pytest": "9.0.0", "rootdir": root, "pid": 1}
        self.append("worker_up", **about)
        line = {"file": f"{root}/shop.py", "line": 5, "message": "total={total}"}
        return self.append("add_line", id="tp-1", **line)

    def test(
        self, name: str, *inside: dict[str, Any], failure: dict[str, Any] | None = None
    ) -> str:
        """A test with these hits and calls; returns its node id."""
        nodeid = f"{FILE}::{name}"
        self.append("test_started", nodeid=nodeid)
        for values in inside:
            self.append(**{"nodeid": nodeid, **values})
        if failure is not None:
            self.append("test_phase", **phase(nodeid, **failure))
        plain = {} if failure is not None else {"passed": 1}
        self.append("test_outcome", nodeid=nodeid, duration_s=0.002, plain=plain, again=False)
        return nodeid

    def end(self, exit_code: int = 1) -> Writer:
        return self.append("run_finished", exit_code=exit_code).append("worker_down")


def hit(message: str, number: int = 1, id: str = "tp-1") -> dict[str, Any]:
    place = {"file": "shop.py", "line": 5, "function": "total"}
    reported = {"breakpoint_id": id, "location": place, "hit_count": number, "message": message}
    return {"type": "hit", "thread": 1, **reported}


def call(id: str, parent: str | None = None, **values: Any) -> dict[str, Any]:
    reported: dict[str, Any] = {
        "type": "call",
        "call_id": id,
        "parent_id": parent,
        "qualified_name": "shop.total",
        "status": "success",
        "pretty_args": ["2"],
        "pretty_kwargs": {},
        "pretty_result": "4",
        "cids": {"args": [], "kwargs": {}, "result": None},
    }
    return reported | values


def phase(nodeid: str, **values: Any) -> dict[str, Any]:
    """A phase that failed, with the autopsy of an assertion unless it is another one."""
    message = values.pop("message", "assert 3 == 4")
    place = {"file": FILE, "line": 10}
    frame = {
        "index": 0,
        "function": "test_wrong",
        "isExternal": False,
        "location": place,
        "source": "assert total([1, 2]) == 4",
        "arguments": [{"name": "prices", "type": "list", "value": "[1, 2]"}],
        "variables": {"locals": [{"name": "amount", "type": "int", "value": "3"}]},
    }
    reported: dict[str, Any] = {
        "nodeid": nodeid,
        "phase": "call",
        "category": "failed",
        "outcome": "failed",
        "duration_s": 0.001,
        "exception": {"type": "AssertionError", "message": message},
        "location": place,
        "longrepr": f"E       AssertionError: {message}",
        "stdout": "printed",
        "stderr": "",
        "log": "",
        "autopsy": {"frames": [frame], "parameters": {"coupon": "'BULK10'"}},
    }
    return reported | values


def write(record: Path, *writers: Writer, name: str = "run-20260101T000000Z-c1") -> Path:
    """A run that came to its end; returns its folder."""
    folder = record / name
    folder.mkdir(parents=True)
    lines = sorted((line for each in writers for line in each.lines), key=lambda line: line.ts)
    (folder / EVENTS).write_bytes(b"".join(line.text.encode() for line in lines))
    return folder


def write_part(folder: Path, lines: Iterable[Line], worker: str = "main") -> None:
    """What a process wrote that was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    part(folder, worker, 1).write_bytes(b"".join(line.text.encode() for line in lines))
