"""A process under test in miniature: the engine with a `DirectLink`, its calls on threads.

The test plays the front end: it applies commands and reads events.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from _queue import Empty, SimpleQueue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pytest_cideldill.composition import Process, ProcessOptions
from pytest_cideldill.context import Identity
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import (
    AddBreakpoint,
    Evaluate,
    Event,
    RemoveBreakpoint,
    Replied,
    Resume,
    Resumed,
    Stopped,
)
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from tests.wire.linked import DirectLink

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 10.0
"""No wait of a test takes longer."""

E = TypeVar("E")


class Refused(Exception):
    """A command was answered with this error object."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(str(body))
        self.body = body


class Running:
    """A call on a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._value: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001 - handed on by `result`
            self._error = error

    def result(self) -> Any:
        """What the call returned; raises what it raised."""
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive(), "the call does not come back"
        if self._error is not None:
            raise self._error
        return self._value


class Debuggee:
    """See the module.

    Args:
        lease_s: How long a pause lasts.
        keeps_objects: Whether recorded calls have content ids.

    Attributes:
        events: What was sent and not yet taken by `next`.
        lens: What renders values.
        rows: What recorded calls and hits left behind.
    """

    def __init__(self, lease_s: float = 600.0, *, keeps_objects: bool = False) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self._replies: dict[int, SimpleQueue[Replied]] = {}
        self._requests = itertools.count(1)
        lens = self.lens = Lens(Project(str(ROOT)), Redactor(environ={}))
        options = ProcessOptions(
            Identity("r1", "main"), os.devnull, b"key", lease_s, identifies=keeps_objects
        )
        process = Process(DirectLink(self._take), lens, options, EvaluationGuard())
        self.rows, self.pauses, self.manager = process.rows, process.pauses, process.manager

    def _take(self, event: Event) -> None:
        if isinstance(event, Replied) and event.request in self._replies:
            self._replies[event.request].put(event)
        else:
            self.events.put(event)

    def next(self, kind: type[E]) -> E:
        """The next event of this kind; those before it are passed over."""
        while True:
            try:
                event = self.events.get(timeout=DEADLINE_S)
            except Empty:
                raise AssertionError(f"no {kind.__name__} came") from None
            if isinstance(event, kind):
                return event

    def has(self, kind: type[Event]) -> bool:
        """Whether an event of this kind is there; passes over what is."""
        while not self.events.empty():
            if isinstance(self.events.get(), kind):
                return True
        return False

    # --- commands ---------------------------------------------------------------------------

    def start(self, make: Callable[[int], Any]) -> Callable[[], dict[str, Any]]:
        """Apply a command; the returned function waits for its answer.

        Raises:
            Refused: From that function, when it is an error.
        """
        request = next(self._requests)
        answers = self._replies[request] = SimpleQueue()
        self.manager.apply(make(request))

        def answer() -> dict[str, Any]:
            replied = answers.get(timeout=DEADLINE_S)
            assert answers.empty(), "answered twice"
            if replied.error is not None:
                raise Refused(replied.error)
            assert replied.result is not None
            return replied.result

        return answer

    def add(
        self, name: str, behavior: str = "stop", condition: str | None = None, id: str = "fn-1"
    ) -> dict[str, Any]:
        """Add a breakpoint, or change the one with this id."""
        return self.start(lambda n: AddBreakpoint(n, id, name, behavior, condition))()

    def remove(self, id: str = "fn-1") -> dict[str, Any]:
        """Remove a breakpoint."""
        return self.start(lambda n: RemoveBreakpoint(n, id))()

    def stop(self) -> dict[str, Any]:
        """The pause of the next stop."""
        return self.next(Stopped).pause

    def resume(self, pause_id: str, action: str = "continue", **how: Any) -> dict[str, Any]:
        """Resume and wait for the answer."""
        return self.start(lambda n: Resume(n, pause_id, action, **how))()

    def evaluate(self, pause_id: str, source: str, **how: Any) -> dict[str, Any]:
        """Evaluate and wait for the answer."""
        return self.start(lambda n: Evaluate(n, pause_id, source, **how))()

    def refused(self, work: Callable[..., object], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The error object of a command that must be refused."""
        try:
            answer = work(*args, **kwargs)
        except Refused as refused:
            return refused.body
        raise AssertionError(f"not refused: {answer}")

    # --- calls ------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Running:
        """Call a function of the program under test."""
        return Running(lambda: function(*args, **kwargs))

    def passes(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of a call that must not pause."""
        result = self.call(function, *args, **kwargs).result()
        assert not self.has(Stopped)
        return result

    def stops(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The pause of a call that must stop once; it is continued plainly."""
        running = self.call(function, *args, **kwargs)
        pause = self.stop()
        self.resume(pause["id"])
        running.result()
        assert self.next(Resumed).by == "client"
        assert not self.has(Stopped)
        return pause


@contextlib.contextmanager
def debuggee(lease_s: float = 600.0) -> Iterator[Debuggee]:
    """A debuggee that leaves every function as it was and no thread parked."""
    made = Debuggee(lease_s)
    try:
        yield made
    finally:
        made.manager.release("stop")
        for _ in made.rows.take(made.rows):
            pass  # hooks of forks keep all of it
