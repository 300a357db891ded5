"""Steps: from a place where a thread stands to the next one that a client wants to see.

Runs on the thread that steps. Knows which frames are the user's and what a step means; where events
come from is the source's business, what a stop means the consumer's.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from functools import partial
from types import FrameType

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.patching.code_swap import is_trampoline
from pytest_cideldill.project import Project
from pytest_cideldill.tracing.interface import REST, Left, Source, Trail

# Before 3.12 comprehensions are functions of their own; nobody steps into them.
_INLINE = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})


@dataclass(frozen=True, slots=True)
class StepOrder:
    """What a client wants.

    Attributes:
        mode: `in | over | out`.
        count: How many such steps.
        until: Run on to this line of the frame instead, or to the frame's end.
    """

    mode: str = "over"
    count: int = 1
    until: int | None = None


class Steps:
    """Lets threads step from where they stand to the next place that a client wants to see.

    Args:
        source: Gives the event source; raises `SourceUnavailable`.
        stop: Called where a step ends; parks the thread.
        finish: Called when the code of the user ends before the step does.
    """

    def __init__(
        self,
        project: Project,
        source: Callable[[], Source],
        stop: Callable[[FrameType], None],
        finish: Callable[[], None],
    ) -> None:
        self._project = project
        self._source = source
        self.stop = stop
        self.finish = finish
        # Thread → its trail. Each is written by its thread; `seize` is for others.
        self._trails: dict[int, Trail] = {}

    def begin(self, frame: FrameType | None, order: StepOrder, *, enters: bool = False) -> None:
        """Let the calling thread step.

        Args:
            frame: Where it stands; None: no code of the user's is on the stack.
            enters: Whether a call has begun that `order.until` means a line of.

        Raises:
            SourceUnavailable: There are no events here.
        """
        _Walk(self, order).begin(frame, enters=enters)

    def halt(self) -> None:
        """The calling thread stands still, for this reason or that: its step is over."""
        if get_ident() in self._trails:
            self.follow(get_ident(), REST)

    def leave(self) -> None:
        """The calling thread goes on without stepping."""
        self.follow(get_ident(), None)

    def follow(self, ident: int, trail: Trail | None) -> Trail | None:
        """Replace the trail by which the source follows a thread; the one before.

        Raises:
            SourceUnavailable: There are no events here.
        """
        before = self._trails.get(ident)
        if trail is not None:
            self._trails[ident] = trail
        elif before is not None:
            del self._trails[ident]
        if trail is not None or before is not None:
            self._source().follow(ident, trail)
        return before

    def seize(self, ident: int, stop: Callable[[FrameType], None]) -> Callable[[], object]:
        """Stop a thread at the next place in user code, once; any thread may call.

        Returns:
            The undo: a step that was under way goes on.

        Raises:
            SourceUnavailable: There are no events here.
        """

        def on_line(frame: FrameType, _line: int) -> None:
            __tracebackhide__ = True
            if self.is_user(frame):
                stop(frame)

        before = self.follow(ident, Trail(anywhere=True, on_line=on_line))
        return partial(self.follow, ident, before)

    def is_user(self, frame: FrameType) -> bool:
        """Whether a frame is one to stop in."""
        code = frame.f_code
        if not self._project.has(frame) or code.co_name in _INLINE:
            return False
        return not is_trampoline(code)

    def user_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame to stop in, from `frame` outwards."""
        while frame is not None and not self.is_user(frame):
            frame = frame.f_back
        return frame


class _Walk:
    """An order under way on its thread."""

    __slots__ = ("_left", "_mode", "_order", "_steps", "_until")

    def __init__(self, steps: Steps, order: StepOrder) -> None:
        self._steps = steps
        self._order = order
        self._left = 1 if order.until is not None else order.count
        self._until = order.until
        self._mode = order.mode

    def begin(self, frame: FrameType | None, *, enters: bool) -> None:
        if self._until is None:
            self._aim(frame, self._order.mode)
        elif enters:
            self._aim(frame, "in")
        else:
            self._aim(frame, "over", self._until)

    def _aim(self, frame: FrameType | None, mode: str, only: int | None = None) -> None:
        """Stop at the next line of the frame; `in`: or of one that starts; `out`: behind it."""
        self._mode = mode
        if frame is None and mode != "in":
            self._steps.follow(get_ident(), REST)
            self._steps.finish()
            return
        trail = Trail(
            frame,
            lines=mode != "out",
            only=only,
            starts=mode == "in",
            on_line=self._on_line,
            on_start=self._on_start,
            on_leave=self._on_leave,
        )
        self._steps.follow(get_ident(), trail)

    def _on_line(self, frame: FrameType, _line: int) -> None:
        __tracebackhide__ = True
        self._left -= 1
        if self._left:
            self._aim(frame, self._order.mode)
        else:
            self._steps.stop(frame)

    def _on_start(self, frame: FrameType) -> None:
        if self._steps.is_user(frame):
            self._aim(frame, "over", self._until)

    def _on_leave(self, frame: FrameType, left: Left) -> None:
        if left is Left.AWAIT:
            if self._mode == "in":
                self._aim(frame, "over")  # else the next task would be entered
            return
        above = self._steps.user_frame(frame.f_back)
        is_entering = self._order.mode == "in" and self._until is None and above is not None
        self._until = None
        self._aim(above, "in" if is_entering else "over")
