"""Exception breakpoints of this process: which classes they mean, and which raise stops.

Callers of `want`, `remove`, `refresh` and `disarm` hold the manager's lock; the rest runs on the
threads of the program, without a lock. Classes are examined without running code of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from dis import opmap
from functools import partial
from operator import itemgetter
from types import FrameType, TracebackType
from typing import Final

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.frames.frames import has_run
from pytest_cideldill.interpreter.borders import contained
from pytest_cideldill.interpreter.loaded_names import mro_of
from pytest_cideldill.probes.classes import RaiseProbe, Verdicts
from pytest_cideldill.probes.uncaught import Uncaught
from pytest_cideldill.probes.unhit import Fact, of_exception
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddException, Bound, Event, LinesPassed, Warned
from pytest_cideldill.tracing.interface import Raises

_RAISE: Final = opmap["RAISE_VARARGS"]


class RaiseProbes:
    """Holds the exception breakpoints of this process, and decides which raise stops.

    Args:
        guard: Threads that evaluate for us stop nowhere.
        stop: Parks the thread where an exception is raised: `(probe, frame, error, traceback)`.
        stop_uncaught: The same where nothing catches one.
        send: Sends the classes that a name means, once they are known, and counts before each stop.
    """

    def __init__(
        self,
        project: Project,
        guard: EvaluationGuard,
        stop: Callable[[RaiseProbe, FrameType, BaseException, TracebackType], None],
        stop_uncaught: Callable[[RaiseProbe, FrameType, BaseException, TracebackType | None], None],
        send: Callable[[Event], None],
    ) -> None:
        self._project = project
        self._guard = guard
        self._stop = stop
        self._stop_uncaught = stop_uncaught
        self._send = send
        self._uncaught = Uncaught(self._is_uncaught)
        # Replaced whole, and read without a lock.
        self._probes: dict[str, RaiseProbe] = {}
        self.were_any = False
        self.raises: Raises | None = None

    def want(self, spec: AddException, *, from_start: bool = True) -> Bound:
        """Add a breakpoint, or change whether the one with this id is enabled.

        `from_start`: no code of the tests has run yet.
        """
        self.were_any = True
        probe = self._probes.get(spec.id)
        if probe is None:
            probe = RaiseProbe(spec, from_start=from_start)
            probe.resolve()
        else:
            probe.spec = replace(probe.spec, enabled=spec.enabled)
            probe.watching.change(spec.enabled)
        self._replace({**self._probes, spec.id: probe})
        self._send(probe.bound)
        return probe.bound

    def unhit(self) -> dict[str, Fact]:
        """Why each was not hit."""
        for probe in self._probes.values():
            probe.resolve()
        return {id: of_exception(probe) for id, probe in self._probes.items()}

    def remove(self, id: str) -> None:
        """Forget a breakpoint; unknown ids are no error."""
        if id in self._probes:
            self._replace({key: probe for key, probe in self._probes.items() if key != id})

    def disarm(self) -> None:
        """Forget all of them."""
        self._replace({})

    def refresh(self) -> None:
        """Look for classes that were imported, and install our hooks again; pytest removes them.

        To be called at the start of each phase of a test.
        """
        probes = [probe for probe in self._probes.values() if not probe.known and probe.resolve()]
        if probes:
            self._replace(self._probes)  # what was decided about classes may be wrong now
        for probe in probes:
            self._send(probe.bound)
        self._reach()

    # --- on the threads of the program ------------------------------------------------------

    def raised(self, frame: FrameType, error: BaseException, traceback: TracebackType) -> None:
        """An exception of a class that is meant passes a frame: stop where it is seen first."""
        __tracebackhide__ = True
        scopes = self._first_seen(frame, traceback)
        if not scopes:
            return
        probes = [probe for probe in self._meaning(type(error)) if probe.spec.first_chance]
        hit = self._count(probe for probe in probes if probe.spec.scope in scopes)
        if hit is not None:
            self._stop(hit, frame, error, traceback)

    def escaped(self, error: BaseException) -> RaiseProbe | None:
        """Count what escaped a test, a fixture or a thread; which breakpoint stops there."""
        return self._count(each for each in self._meaning(type(error)) if each.spec.second_chance)

    def _is_uncaught(
        self, error: BaseException, traceback: TracebackType | None, frame: FrameType
    ) -> None:
        look = partial(self._look_at_uncaught, error, traceback, frame)
        contained("looking at what nobody catches", look, self._warn, None)

    def _warn(self, message: str) -> None:
        self._send(Warned(message))

    def _look_at_uncaught(
        self, error: BaseException, traceback: TracebackType | None, frame: FrameType
    ) -> None:
        if self._guard.is_quiet() or self._is_inside_us(frame):
            return
        hit = self.escaped(error)
        if hit is not None:
            self._stop_uncaught(hit, frame, error, traceback)

    def _is_inside_us(self, frame: FrameType | None) -> bool:
        """Whether code that is not the user's runs on our behalf, or on a thread of ours.

        Nothing stops there: a lock may be held, and the I/O thread must never wait.
        """
        project, outermost = self._project, frame
        called_by_user = False
        while frame is not None:
            called_by_user = called_by_user or project.has(frame)
            if not called_by_user and project.is_ours(frame.f_code.co_filename):
                return True
            outermost, frame = frame, frame.f_back
        return outermost is not None and project.is_ours(outermost.f_code.co_filename)

    def _first_seen(self, frame: FrameType, traceback: TracebackType) -> tuple[str, ...]:
        """For which scopes this is the first frame that sees an exception."""
        project, innermost, place = self._project, traceback, traceback.tb_next
        is_user = project.has(frame)
        while place is not None:
            if has_run(place.tb_frame):
                innermost = place
                if not is_user or project.has(place.tb_frame):
                    return ()  # most often: it is on its way out
            place = place.tb_next
        if self._is_the_client_s(innermost) or self._is_inside_us(frame):
            return ()
        is_first = innermost is traceback
        return ("user",) * is_user + ("all",) * is_first

    def _is_the_client_s(self, place: TracebackType) -> bool:
        """Whether a client has this exception raised: our own code raises it.

        What our code calls, a wrapped callable of C, is the program's.
        """
        code = place.tb_frame.f_code
        return self._project.is_ours(code.co_filename) and code.co_code[place.tb_lasti] == _RAISE

    def _count(self, probes: Iterator[RaiseProbe]) -> RaiseProbe | None:
        """Count a stop of all these, and report the first of them."""
        hit = None
        for probe in probes:
            probe.hits.next()
            hit = hit or probe
        if hit is not None:
            counts = {id: {"passes": probe.hits.value} for id, probe in self._probes.items()}
            self._send(LinesPassed(counts))
        return hit

    # --- which classes are meant ------------------------------------------------------------

    def _enabled(self) -> list[RaiseProbe]:
        return [probe for probe in self._probes.values() if probe.spec.enabled]

    def _meaning(self, cls: type) -> list[RaiseProbe]:
        """The enabled breakpoints that mean a class, the most exact first."""
        found = []
        for probe in self._enabled():
            is_news = not probe.known and probe.resolve()
            distance = probe.distance(cls)
            if distance is not None:
                is_news = probe.add(mro_of(cls)[distance]) or is_news
                found.append((distance, probe))
            if is_news:
                self._send(probe.bound)
        return [probe for _, probe in sorted(found, key=itemgetter(0))]

    def _replace(self, probes: dict[str, RaiseProbe]) -> None:
        self._probes = probes
        self._reach()
        first = [probe.spec for probe in self._enabled() if probe.spec.first_chance]
        if not first:
            self.raises = None
            return
        project = self._project
        anywhere = any(spec.scope == "all" for spec in first)
        in_file = (lambda file: not project.is_ours(file)) if anywhere else project.is_user
        self.raises = Raises(Verdicts(self._is_meant).of, in_file, self.raised)

    def _reach(self) -> None:
        self._uncaught.reach(any(probe.spec.second_chance for probe in self._enabled()))

    def _is_meant(self, cls: type) -> bool:
        return any(probe.spec.first_chance for probe in self._meaning(cls))
