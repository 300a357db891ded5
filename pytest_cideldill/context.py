"""What most parts of the engine need of the process that they watch, in one frozen object.

Made once per process by `composition.Process`. It knows nothing of breakpoints and pauses.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.link.observers import Send
from pytest_cideldill.objects.keeping import Keeping
from pytest_cideldill.project import Project
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import RowSink
from pytest_cideldill.rendering.display import Lens


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is: names its pauses and its calls."""

    run_id: str
    worker: str

    @property
    def prefix(self) -> str:
        """`r1.gw0` or `r1.main`."""
        return f"{self.run_id}.{self.worker}"


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """What most parts of the engine share in one process.

    Attributes:
        lens: Renders values, knows secrets and the project.
        guard: Marks the threads that evaluate for us; they hit nothing.
        rows: Take what the hot path leaves, one row per call or hit.
        keeping: The objects that clients can inspect.
        send: Queues an event for the front end, and notifies the observers.
        warn: Sends a failure of our own as a warning, once.
    """

    identity: Identity
    lens: Lens
    guard: EvaluationGuard
    overtime: Overtime
    position: Position
    rows: RowSink
    keeping: Keeping
    send: Send
    warn: Callable[[str], None]

    @property
    def project(self) -> Project:
        """Which code is the user's."""
        return self.lens.project
