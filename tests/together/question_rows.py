"""Runs a pytest process that records for a question, and reads the rows that it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cideldill_mcp.questions.recordings.recorded import RecordedTest
from cideldill_mcp.questions.recordings.row_reader import read_recorded
from pytest_cideldill.protocol.trace_rows import VARIABLE
from tests.together.frontend import FEW_GUESTS

SECONDS = 50.0
"""A process that takes longer hangs."""


_ARGS = ("-p", "no:cacheprovider")


@dataclass(frozen=True)
class Recorded:
    """What a process left.

    Attributes:
        rows: In order.
        output: What pytest printed.
        status: Its exit status.
    """

    rows: list[list[Any]]
    output: str
    status: int

    def of(self, *kinds: str) -> list[list[Any]]:
        """The rows of some kinds."""
        return [row for row in self.rows if row[0] in kinds]

    @property
    def names(self) -> dict[int, str]:
        """The name of each call, by number."""
        codes = {row[1]: row[3] for row in self.of("code")}
        return {row[1]: codes[row[3]] for row in self.of("call")}


def read_tests(rows: Recorded, folder: Path) -> dict[str, RecordedTest]:
    """The tests by node id, as the front end reads them; the file lies in a folder for a while."""
    path = folder / "rows"
    path.write_text(json.dumps(rows.rows), encoding="utf-8")
    return read_recorded(path).tests


def record(
    project: Path,
    *nodeids: str,
    args: tuple[str, ...] = _ARGS,
    guests: Mapping[str, str] = FEW_GUESTS,
    **request: Any,
) -> Recorded:
    """The rows of some tests; further arguments are those of `TraceRequest`."""
    descriptor, file = tempfile.mkstemp(dir=project.parent)
    os.close(descriptor)
    asked = json.dumps({"file": file, "nodeids": list(nodeids), **request})
    command = [sys.executable, "-m", "pytest", "-q", *args]
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, **guests, VARIABLE: asked},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    rows = [row for line in lines for row in json.loads(line)]
    return Recorded(rows, done.stdout + done.stderr, done.returncode)
