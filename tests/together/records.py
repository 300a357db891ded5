"""Runs of pytest that are recorded, and what is in their records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cideldill.records.format import EVENTS, RUN
from tests.together.driver import DEADLINE_S
from tests.together.frontend import FEW_GUESTS

QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of pytest that has ended.

    Attributes:
        record: The folder that was given.
        exit_code: pytest's.
        out: What it printed.
        err: The same of stderr.
    """

    record: Path
    exit_code: int
    out: str
    err: str

    @property
    def runs(self) -> list[Path]:
        """The folders of its runs, oldest first."""
        return sorted(self.record.glob(f"{RUN}*"))

    @property
    def run(self) -> Path:
        """The folder of its only run."""
        (run,) = self.runs
        return run

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of its only run, once all processes ended in order."""
        return [json.loads(each) for each in (self.run / EVENTS).read_text().splitlines()]

    def of(self, type: str) -> list[dict[str, Any]]:
        """Those of one type."""
        return [each for each in self.events if each["type"] == type]


def command(*arguments: str) -> list[str]:
    """What starts pytest."""
    return [sys.executable, "-m", "pytest", *QUIET, *arguments]


def recorded(
    project: Path, *arguments: str, record: str = "rec", environment: dict[str, str] | None = None
) -> Recorded:
    """Run pytest in a project and record it; `environment` may have further guests."""
    done = subprocess.run(
        command(f"--cideldill-record={record}", *arguments),
        cwd=project,
        env={**os.environ, **FEW_GUESTS, **(environment or {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S * 4,
        check=False,
    )
    return Recorded(project / record, done.returncode, done.stdout, done.stderr)
