"""A child that is forked at the worst moment goes on: locks of ours are held by other threads.

Those threads do not exist in the child, so that nobody would ever let go. The link's I/O thread is
gone then (`tests/wire/test_link_fork.py`), unless it is busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SCRIPT = """
    import os, signal, threading, warnings
    from tests.process.debuggee import debuggee
    from tests.process.tills import price_of

    warnings.simplefilter("ignore")  # 3.12 warns about any fork of a process with threads

    with debuggee() as process:
        process.add(f"{price_of.__module__}:price_of")
        running = process.call(price_of, 4)
        stop = process.stop()
        pauses, guard = process.pauses, process.manager._guard
        locks = [
            process.manager._lock,
            process.manager._discovery._lock,
            guard._lock,
            pauses._gate._parked[stop["id"]].lock,
        ]
        held, enough = threading.Event(), threading.Event()

        def hold():
            for lock in locks: lock.acquire()
            guard.depths[threading.get_ident()] = 1
            held.set()
            enough.wait(30)
            del guard.depths[threading.get_ident()]
            for lock in locks: lock.release()

        holder = threading.Thread(target=hold)
        holder.start()
        assert held.wait(30)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)  # a hang ends in a status of its own
            works = []
            thread = threading.Thread(target=lambda: works.append(price_of(2)))
            thread.start()
            thread.join()
            with guard.evaluating():
                works.append(price_of(3))
            process.manager.release("stop")
            os._exit(7 if works == [6, 9] and not pauses.are_waiting and not guard.depths else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        enough.set()
        holder.join()
        assert status == 7, status
        process.resume(stop["id"])
        assert running.result() == 12
"""


@pytest.mark.full
def test_a_child_takes_no_lock_that_a_thread_of_its_parent_held() -> None:
    """It ends with its own status; the pause of its parent goes on."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
