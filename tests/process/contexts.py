"""The context of a process whose parts a check makes one by one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pytest_cideldill.context import Context, Identity
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.link.observers import Observers
from pytest_cideldill.link.row_log import RowLog
from pytest_cideldill.objects.keeping import Keeping
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import Event
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import RowSink
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens


def made_context(
    lens: Lens | None = None,
    rows: RowSink | None = None,
    *,
    position: Position | None = None,
    take: Callable[[Event], object] = id,
    warn: Callable[[str], None] | None = None,
) -> Context:
    """A context of the process `r0.main`; what is sent goes to `take`."""
    lens = lens or Lens(Project("."), Redactor(environ={}))
    guard = EvaluationGuard()

    def send(event: Event, **_: Any) -> None:
        take(event)

    return Context(
        identity=Identity("r0", "main"),
        lens=lens,
        guard=guard,
        overtime=Overtime(guard),
        position=position or Position(),
        rows=rows or RowLog(_nothing),
        keeping=Keeping(os.devnull, b"key", lens, guard, _nothing),
        send=Observers(send).send,
        warn=warn or _ignore,
    )


def _nothing() -> None:
    """Nothing is to be done."""


def _ignore(_message: str) -> None:
    """No check reads it."""
