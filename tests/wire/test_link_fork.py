"""The I/O thread is gone while the process forks: no warning, no deadlock, nothing lost.

Each test is a script in a process of its own, where a warning is a failure. CPython warns by
the count of threads, so the thread comes back lazily.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not Path("/proc/self/task").exists(),
    reason="needs fork, and Linux's /proc to count threads",
)

# An error filter would not raise out of a fork but swallow the warning: it is printed instead.
WARNINGS = ("-W", "error", "-W", "always::DeprecationWarning")

PRELUDE = """\
import os
import threading
from pytest_cideldill.protocol.framing import encode_frame
from pytest_cideldill.protocol import NodeStarted, ReleaseAll, Warned
from tests.wire.linked import Linked, system_threads

counts = []
# Hooks before a fork run in reverse order: registered before the link's, this one comes after it.
os.register_at_fork(before=lambda: counts.append(len(system_threads())))

def say(linked, text):
    linked.link.send(Warned(text), urgent=True)
    assert linked.receive(1) == [Warned(text)]

def fork(child=lambda: None):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def run(script: str) -> None:
    """Run a script; it must end well and say nothing, which a warning would."""
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", PRELUDE + textwrap.dedent(script)],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=False,
    )
    if done.returncode or done.stderr:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.decode()}")


@pytest.mark.full
@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython warns from 3.12 on")
def test_a_fork_beside_an_ordinary_thread_does_warn() -> None:
    """The control: the scripts below would see the warning that they must not see."""
    with pytest.raises(AssertionError, match="DeprecationWarning"):
        run(
            """
            ready, done = threading.Event(), threading.Event()
            thread = threading.Thread(target=lambda: (ready.set(), done.wait(10)))
            thread.start()
            ready.wait(10)
            fork()
            done.set()
            thread.join()
            assert counts == [2]
            """
        )


@pytest.mark.full
def test_a_fork_sees_one_thread_and_the_link_comes_back_with_the_next_event() -> None:
    """Also in a second fork before that, which deadlocked the spike, and in many more."""
    run(
        """
        with Linked() as linked:
            for number in range(10):
                say(linked, f"before {number}")
                fork()
                fork()
                say(linked, f"after {number}")
                linked.command(ReleaseAll("stop"))
        assert counts == [1] * 20, counts
        """
    )


@pytest.mark.full
def test_the_child_s_link_is_dead_and_the_parent_s_connection_untouched() -> None:
    """Two processes on one stream would tear its frames."""
    run(
        """
        with Linked() as linked:
            def child():
                linked.link.send(Warned("from the child"), urgent=True)
                linked.link.start()
                assert not linked.link.flush(10)
                linked.link.close(10)
                assert len(system_threads()) == 1
                pid = os.fork()  # a grandchild: the hooks of a dead link do nothing
                if pid == 0:
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
                assert linked.losses.empty()

            say(linked, "before")
            fork(child)
            say(linked, "after")
            linked.command(ReleaseAll("stop"))
            assert linked.losses.empty()
        """
    )


def test_events_queued_before_a_fork_leave_once_and_in_order() -> None:
    """Whatever is in the queue, or half sent, when the thread stops."""
    run(
        """
        with Linked() as linked:
            for size in (1, 10, 200, 3000):
                events = [NodeStarted("x" * 500 + str(n), 0.0) for n in range(size)]
                for event in events:
                    linked.link.send(event)
                fork()
                assert linked.receive(size) == events
        """
        if sys.version_info[:3] != (3, 13, 0)
        # There a thread that comes back in the after-fork hook is counted (cpython#137109), which a
        # queue that is not empty is worth.
        else """
        with Linked() as linked:
            for size in (1, 10, 200):
                events = [NodeStarted("x" * 500 + str(n), 0.0) for n in range(size)]
                for event in events:
                    linked.link.send(event)
                fork()
                assert linked.receive(size) == events
        """
    )


@pytest.mark.full
def test_events_of_other_threads_survive_forks() -> None:
    """They send while the I/O thread stops, is gone and comes back. Their threads warn anyway."""
    run(
        """
        import warnings
        warnings.simplefilter("ignore")

        def produce(name):
            for number in range(2000):
                linked.link.send(Warned(f"{name}.{number}"))

        with Linked() as linked:
            threads = [threading.Thread(target=produce, args=(n,)) for n in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(20):
                fork()
            for thread in threads:
                thread.join()
            received = [each.message for each in linked.receive(6000)]
        for name in range(3):
            mine = [each for each in received if each.startswith(f"{name}.")]
            assert mine == [f"{name}.{number}" for number in range(2000)]
        """
    )


@pytest.mark.full
def test_a_parked_thread_can_be_reached_after_another_thread_s_fork() -> None:
    """Nobody sends an event then: without `is_awaited` its commands would wait for one."""
    run(
        """
        import warnings
        warnings.simplefilter("ignore")
        with Linked(is_awaited=True) as linked:
            for _ in range(5):
                fork()
                linked.command(ReleaseAll("stop"))
        """
    )


@pytest.mark.full
def test_a_thread_that_is_busy_does_not_hold_up_a_fork() -> None:
    """The wait for it is bounded; it goes on afterwards as if nothing had happened."""
    run(
        """
        import warnings
        warnings.simplefilter("ignore")
        entered, leave = threading.Event(), threading.Event()
        with Linked() as linked:
            put = linked.commands.put
            linked.owner.on_command = lambda command: (entered.set(), leave.wait(20), put(command))
            linked.socket.sendall(encode_frame({"kind": "release_all", "by": "stop"}))
            assert entered.wait(10)
            fork()
            leave.set()
            linked.commands.get(timeout=10)
            linked.command(ReleaseAll("again"))
            say(linked, "after")
        """
    )


@pytest.mark.full
def test_a_thread_that_a_fork_did_not_wait_for_comes_back_when_it_has_ended() -> None:
    """It had looked at the queue for the last time; what is queued then is not left there."""
    run(
        """
        import warnings
        warnings.simplefilter("ignore")
        links = []
        entered, leave = threading.Event(), threading.Event()

        def collect(until, is_late):
            if links and links[0]._thread.is_stopping:
                entered.set()
                leave.wait(20)
            return ()

        with Linked(collect=collect) as linked:
            links.append(linked.link)
            fork()  # so early that the thread does nothing but end
            assert entered.wait(10)
            linked.link.send(Warned("while it ends"), urgent=True)
            leave.set()
            assert linked.receive(1) == [Warned("while it ends")]
            assert linked.link.flush(10)
        """
    )


@pytest.mark.full
def test_a_fork_after_close_or_a_loss_is_an_ordinary_fork() -> None:
    """The hooks stay registered for the life of the process."""
    run(
        """
        with Linked():
            pass
        fork()
        lost = Linked()
        lost.socket.close()
        lost.losses.get(timeout=10)
        lost.link.close(10)
        fork()
        assert counts == [1, 1], counts
        """
    )
