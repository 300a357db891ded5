"""Parking threads: who may let them go on, and that nothing can make them wait for ever.

Keyboard interrupts strike in
processes of their own.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import textwrap
import threading
from _queue import SimpleQueue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.pauses.parking import Gate, Job, Pause, Resolution, Work
from tests.process.debuggee import DEADLINE_S, ROOT, Running


class Parking:
    """A gate that notes what it calls, in order."""

    def __init__(self, lease_s: float = 600.0) -> None:
        self.notes: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self.rejected: SimpleQueue[str] = SimpleQueue()
        self.gate = Gate(
            lease_s,
            self._around,
            lambda pause: self.notes.put(("stopped", pause.id)),
            lambda pause, resolution: self.notes.put(("resumed", resolution)),
        )

    @contextlib.contextmanager
    def _around(self) -> Iterator[None]:
        self.notes.put(("timers stopped", threading.get_ident()))
        try:
            yield
        finally:
            self.notes.put(("timers going", threading.get_ident()))

    def park(self, id: str = "r1.main.1") -> Running:
        """Park a new thread; returns when commands can reach it."""
        running = Running(lambda: self.gate.park(pause(id)))
        assert self.note() == ("timers stopped", running.thread.ident)
        assert self.note() == ("stopped", id)
        return running

    def note(self) -> tuple[str, Any]:
        return self.notes.get(timeout=DEADLINE_S)

    def submit(self, work: Work, id: str = "r1.main.1") -> None:
        self.gate.submit(id, Job(work, lambda: self.rejected.put(id)))


def pause(id: str) -> Pause:
    return Pause(id, "before", [], {}, lambda command, pause: Resolution())


def at_once(*works: Callable[[], object]) -> list[Refusal]:
    """Run all on threads that begin together; what was refused."""
    barrier = threading.Barrier(len(works))

    def begin(work: Callable[[], object]) -> None:
        barrier.wait(DEADLINE_S)
        work()

    refused = []
    for each in [Running(functools.partial(begin, work)) for work in works]:
        try:
            each.result()
        except Refusal as refusal:
            refused.append(refusal)
    return refused


def go_on(resolution: Resolution) -> Work:
    return lambda _: resolution


def test_a_thread_is_parked_until_a_resolution_lets_it_go_on() -> None:
    """The caller of `park` gets it; timers stand still in between, on that thread."""
    parking = Parking()
    running = parking.park()
    assert parking.gate.holds_any
    parking.submit(go_on(Resolution("skip", value=[1])))
    assert running.result() == Resolution("skip", "client", [1])
    assert parking.note() == ("timers going", running.thread.ident)
    assert parking.note() == ("resumed", Resolution("skip", "client", [1]))
    assert not parking.gate.holds_any


def test_jobs_run_on_the_parked_thread_one_after_the_other() -> None:
    """That is what makes evaluation in the real frame possible; None keeps the thread parked."""
    parking = Parking()
    running = parking.park()
    ran: SimpleQueue[tuple[int, int, str]] = SimpleQueue()
    for number in range(5):

        def work(pause: Pause, number: int = number) -> None:
            ran.put((number, threading.get_ident(), pause.id))

        parking.submit(work)
    expected = [(number, running.thread.ident, "r1.main.1") for number in range(5)]
    assert [ran.get(timeout=DEADLINE_S) for _ in range(5)] == expected
    assert running.thread.is_alive()
    parking.submit(go_on(Resolution()))
    running.result()


@pytest.mark.full
def test_of_two_who_resume_at_once_one_wins_and_the_other_is_refused() -> None:
    """`breakpoint_continue`: the other gets `pause_not_found`, in any interleaving."""
    for _ in range(50):
        parking = Parking()
        running = parking.park()
        refused = at_once(
            functools.partial(parking.submit, go_on(Resolution("skip"))),
            functools.partial(parking.submit, go_on(Resolution("raise"))),
        )
        assert running.result().action in ("skip", "raise")
        assert len(refused) + parking.rejected.qsize() == 1
        assert all(each.code is ErrorCode.PAUSE_NOT_FOUND for each in refused)


@pytest.mark.parametrize("id", ["", "r1.main.2", "r2.main.1"])
def test_nothing_can_be_handed_to_what_is_not_parked(id: str) -> None:
    """The refusal names the pause and where to look."""
    parking = Parking()
    running = parking.park()
    with pytest.raises(Refusal, match="breakpoint_list_paused") as caught:
        parking.submit(go_on(Resolution()), id)
    assert caught.value.to_plain()["error"] == "pause_not_found"
    assert caught.value.extra["pause_id"] == id
    parking.gate.release_all("stop")
    running.result()


def test_several_threads_are_parked_apart() -> None:
    """Each has its own queue: a job reaches the thread it was meant for."""
    parking = Parking()
    running = {id: parking.park(id) for id in ("r1.main.1", "r1.main.2", "r1.main.3")}
    for id in reversed(running):
        parking.submit(go_on(Resolution(value=id)), id)
        assert running[id].result().value == id
        assert parking.note()[0] == "timers going"
        assert parking.note() == ("resumed", Resolution(value=id))


def test_a_lease_that_ends_lets_the_thread_go_on() -> None:
    """The default lease; `by: lease`. Nobody may have to come back."""
    parking = Parking(lease_s=0.01)
    assert parking.gate.park(pause("r1.main.1")) == Resolution(by="lease")
    with pytest.raises(Refusal):
        parking.submit(go_on(Resolution()))


def test_every_touch_renews_the_lease() -> None:
    """Renewed by every call that touches the pause."""
    parking = Parking(lease_s=600)
    reported: SimpleQueue[float] = SimpleQueue()
    running = parking.park()
    for _ in range(3):
        parking.submit(lambda pause: reported.put(pause.report["lease_expires_at"]))
    ends = [reported.get(timeout=DEADLINE_S) for _ in range(3)]
    assert ends == sorted(set(ends))
    parking.submit(go_on(Resolution()))
    running.result()


@pytest.mark.parametrize("by", ["disconnect", "stop"])
def test_releasing_all_lets_every_thread_go_on_and_nobody_park_again(by: str) -> None:
    """A later park returns at once: no stop is told, timers go on."""
    parking = Parking()
    everyone = [parking.park(f"r1.main.{number}") for number in range(5)]
    assert not parking.gate.is_open
    parking.gate.release_all(by)
    assert [each.result() for each in everyone] == [Resolution(by=by)] * 5
    assert parking.gate.is_open
    while not parking.notes.empty():
        parking.notes.get()
    assert parking.gate.park(pause("r1.main.9")) == Resolution(by=by)
    assert parking.notes.empty()
    assert not parking.gate.holds_any


@pytest.mark.full
def test_a_release_misses_no_thread_that_is_just_parking() -> None:
    """The two races: parked after the release looked, and looked at before it was parked."""
    for _ in range(30):
        parking = Parking()
        pauses = [pause(f"r1.main.{number}") for number in range(3)]
        parks = [functools.partial(parking.gate.park, each) for each in pauses]
        at_once(*parks, functools.partial(parking.gate.release_all, "stop"))
        assert not parking.gate.holds_any


def test_work_before_a_release_is_done_and_work_behind_it_rejected() -> None:
    """Every job has exactly one end: it ran, or it was rejected."""
    parking = Parking()
    running = parking.park()
    entered, leave = threading.Event(), threading.Event()

    def slow(_: Pause) -> None:
        entered.set()
        leave.wait(DEADLINE_S)

    parking.submit(slow)
    entered.wait(DEADLINE_S)
    parking.gate.release_all("stop")
    for _ in range(3):
        parking.submit(slow)
    leave.set()
    assert running.result() == Resolution(by="stop")
    assert parking.rejected.qsize() == 3


def test_an_exception_out_of_a_job_closes_the_pause() -> None:
    """Callers hand in jobs that don't raise; what passes anyway leaves nothing parked."""
    parking = Parking()
    running = parking.park()

    def fail(_: Pause) -> None:
        parking.submit(go_on(Resolution()))
        raise ZeroDivisionError

    parking.submit(fail)
    with pytest.raises(ZeroDivisionError):
        running.result()
    assert parking.rejected.qsize() == 1
    assert parking.note()[0] == "timers going"
    assert parking.note() == ("resumed", Resolution(by="stop"))
    assert not parking.gate.holds_any


# --- Ctrl-C, on the main thread of another process ----------------------------------------------

PRELUDE = """\
import signal, threading
from tests.process.test_gate import *

def strike():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

class Struck(Parking):
    def __init__(self, on_stopped):
        super().__init__()
        self.gate._on_stopped = on_stopped

def parks_until_interrupted(parking):
    try:
        parking.gate.park(pause("r1.main.1"))
    except KeyboardInterrupt:
        assert not parking.gate.holds_any
        notes = []
        while not parking.notes.empty():
            notes.append(parking.notes.get())
        assert notes[-1] == ("resumed", Resolution(by="stop")), notes
        try:
            parking.submit(go_on(Resolution()))
        except Refusal:
            return
    raise AssertionError("not interrupted")
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "script",
    [
        # While it waits, or just before: the thread strikes when the stop was told.
        "parks_until_interrupted(Struck(lambda _: threading.Thread(target=strike).start()))",
        # While a job runs, with others behind it.
        pytest.param(
            """
            def stopped(_):
                parking.submit(lambda _: strike())
                parking.submit(go_on(Resolution("skip")))
                parking.submit(go_on(Resolution("raise")))
            parking = Struck(stopped)
            parks_until_interrupted(parking)
            assert parking.rejected.qsize() == 2
            """,
            marks=pytest.mark.full,
        ),
        # While the stop is being reported.
        pytest.param("parks_until_interrupted(Struck(lambda _: strike()))", marks=pytest.mark.full),
    ],
    ids=["waiting", "working", "reporting"],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs pthread_kill")
def test_ctrl_c_passes_through_and_closes_the_pause(script: str) -> None:
    """Pytest ends the run as it does without us; whoever had asked for something is told."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0
