"""Whether a call pauses, as the condition of its breakpoint says; on the thread that calls."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

from pytest_cideldill.guard import EvaluationGuard
from pytest_cideldill.probes.behaviors import FunctionBreakpoint


class Conditions:
    """See the module.

    Args:
        guard: What a condition calls hits nothing.
        on_failure: Told about the first error of a condition.
    """

    def __init__(self, guard: EvaluationGuard, on_failure: Callable[[str], None]) -> None:
        self._guard = guard
        self._on_failure = on_failure
        self._failed: set[str] = set()

    def forget(self, id: str) -> None:
        """A breakpoint has a new condition, which may fail once too."""
        self._failed.discard(id)

    def reason(self, governing: FunctionBreakpoint, frame: FrameType) -> str | None:
        """Why this call pauses, None when its condition says no.

        A condition that raises stops once, then counts as false (contract, section 3).
        """
        if governing.condition is None:
            return "breakpoint"
        try:
            with self._guard.evaluating():
                # One namespace: with two, nested scopes would not see the arguments.
                holds = eval(governing.condition, {**frame.f_globals, **frame.f_locals})
                return "breakpoint" if holds else None
        except Exception as error:  # noqa: BLE001 - the user's expression; signals pass through
            if governing.id in self._failed:
                return None
            self._failed.add(governing.id)
            self._on_failure(
                f"condition of {governing.id} ({governing.name.text}) raised {type(error).__name__}"
            )
            return "condition_error"
