"""Room on the stack: found for what recurses, and for our own thread."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from pytest_cideldill.interpreter import stack_room
from tests.together.driver import DEADLINE_S


def run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_main_thread_has_room() -> None:
    assert not stack_room.is_small()
    assert stack_room.with_room(threading.get_ident) == threading.get_ident()


def test_a_small_thread_gets_room_elsewhere() -> None:
    run("""
        import threading
        from pytest_cideldill.interpreter import stack_room
        from pytest_cideldill.sourcecode.quiet import parse

        def inside():
            found.append((stack_room.is_small(), stack_room.with_room(stack_room._size)))
            parse("[" * 90 + "]" * 90)
            try:
                stack_room.with_room(lambda: 1 / 0)
            except ZeroDivisionError as error:
                found.append(str(error))

        for size, is_small in ((32, True), (128, True), (256, False), (2048, False)):
            found = []
            threading.stack_size(size * 1024)
            thread = threading.Thread(target=inside)
            thread.start()
            thread.join()
            assert threading.stack_size(0) == size * 1024
            (was_small, room), raised = found  # one may get a larger stack that another one had
            assert was_small is is_small or room == stack_room.STACK
            assert room >= 256 * 1024
            assert raised == "division by zero"
    """)


@pytest.mark.parametrize("size", [0, 32 * 1024, 16 * 1024 * 1024])
def test_a_thread_of_ours_has_its_own_size_and_the_program_keeps_its_own(size: int) -> None:
    run(f"""
        import threading
        from pytest_cideldill.interpreter import stack_room
        threading.stack_size({size})
        found, done = [], threading.Event()
        stack_room.start(lambda: (found.append(stack_room._size()), done.set()))
        assert done.wait(10)
        assert found == [stack_room.STACK]
        assert threading.stack_size() == {size}
    """)


def test_a_thread_that_can_not_be_started_leaves_the_size_alone() -> None:
    run("""
        import threading
        from pytest_cideldill.interpreter import stack_room
        threading.stack_size(64 * 1024)
        stack_room.STACK = 1 << 46
        try:
            stack_room.start(print)
        except RuntimeError:
            pass
        else:
            raise AssertionError
        assert threading.stack_size() == 64 * 1024
    """)
