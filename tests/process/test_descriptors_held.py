"""Files and sockets that stay open: where they lie, and what the program may do to them."""

from __future__ import annotations

import errno
import os
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.interpreter.descriptors import (
    HeldFile,
    HeldSocket,
    TakenAway,
    moved,
    wait_for,
)
from pytest_cideldill.link.wakeup import LockBell, SocketBell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fcntl")

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND


@pytest.fixture
def file(tmp_path: Path) -> Iterator[HeldFile]:
    held = HeldFile(tmp_path / "held", NEW)
    yield held
    held.close()


@pytest.fixture
def within() -> Iterator[Any]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("most", [256, 1024, 4096])
def test_a_number_lies_beyond_the_limit_where_the_system_allows_that(
    within: Any, most: int
) -> None:
    within(most)
    number = moved(os.open(os.devnull, os.O_RDONLY), beyond=True)
    assert most <= number < most + 64
    assert not os.get_inheritable(number)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == most
    os.close(number)


@pytest.mark.parametrize(("most", "least"), [(200, 136), (8192, 512)])
def test_a_number_is_high_within_the_limit_while_tests_run(
    within: Any, most: int, least: int
) -> None:
    within(most)
    number = moved(os.open(os.devnull, os.O_RDONLY))
    assert least <= number < min(most, least + 64)
    os.close(number)


def test_what_can_not_be_moved_stays(within: Any) -> None:
    number = os.open(os.devnull, os.O_RDONLY)
    within(number + 1)
    taken = []
    while True:  # all that are free
        try:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            break
    assert moved(number) == number
    for each in (number, *taken):
        os.close(each)


def test_a_file_that_was_closed_is_opened_again(file: HeldFile) -> None:
    os.write(file.number, b"one ")
    os.close(file.number)
    assert not file.is_ours
    os.write(file.number, b"two")
    assert os.pread(file.number, 100, 0) == b"one two"


def test_a_number_of_the_program_is_neither_written_nor_closed(
    file: HeldFile, tmp_path: Path
) -> None:
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    number = file.number
    os.dup2(theirs, number)
    os.write(file.number, b"ours")
    assert file.number != number
    os.dup2(theirs, file.number)
    file.close()
    assert os.fstat(number).st_size == 0
    os.close(number)
    os.close(theirs)


def test_a_file_that_was_removed_or_replaced_is_not_opened_again(
    file: HeldFile, tmp_path: Path
) -> None:
    os.close(file.number)
    (tmp_path / "held").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        assert file.number
    (tmp_path / "held").write_text("another")
    with pytest.raises(FileNotFoundError):
        assert file.number
    (tmp_path / "moved").replace(tmp_path / "held")
    assert file.number


def test_a_file_that_is_closed_stays_closed(file: HeldFile) -> None:
    file.close()
    file.close()
    with pytest.raises(TakenAway):
        assert file.number


def test_a_socket_of_the_program_is_left_alone(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    held = HeldSocket(one)
    number = held.fileno()
    assert held.send(b"x") == 1
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    os.dup2(theirs, number)
    for use in (lambda: held.send(b"x"), lambda: held.receive(1)):
        with pytest.raises(TakenAway) as caught:
            use()
        assert caught.value.errno == errno.EBADF
    held.close()
    assert held.fileno() == -1
    assert os.fstat(number).st_size == 0
    assert (other.recv(10), other.recv(10)) == (b"x", b"")
    os.close(number)
    os.close(theirs)
    other.close()


def test_what_can_be_done_is_waited_for() -> None:
    pairs = [[HeldSocket(each) for each in socket.socketpair()] for _ in range(2)]
    (one, other), (silent, _) = pairs
    assert wait_for([one, silent], [], 0.0) == (set(), set())
    other.send(b"x")
    assert wait_for([one, silent], [silent], None) == ({one}, {silent})
    other.close()
    one.receive(1)
    assert wait_for([one, silent], [], None) == ({one}, set())
    for each in (one, *pairs[1]):
        each.close()
    assert wait_for([silent], [], 0.0) == (set(), set())


@pytest.mark.parametrize("make", [LockBell, SocketBell])
def test_a_waiting_thread_is_woken(make: Any) -> None:
    bell = make()
    assert bell.wait(0.0) == (False, set(), set())
    bell.ring(urgent=False)
    bell.ring(urgent=False)
    assert bell.wait(None)[0]
    assert not bell.take_urgent()
    assert not bell.wait(0.0)[0]
    bell.ring(urgent=True)
    assert bell.wait(None)[0]
    assert (bell.take_urgent(), bell.take_urgent()) == (True, False)
    bell.close()
    bell.ring(urgent=True)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_bell_that_was_taken_away_rings_again(at: int) -> None:
    bell = SocketBell()
    assert bell._pair is not None
    for each in bell._pair if at == 2 else bell._pair[at : at + 1]:
        os.close(each.fileno())
    bell.ring(urgent=True)
    assert bell.wait(None)[0]
    assert bell.take_urgent()
    assert_rings_once_and_closes(bell)


def test_a_bell_without_descriptors_looks_around(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = SocketBell()
    with monkeypatch.context() as patched:
        patched.setattr("pytest_cideldill.link.wakeup._pair", _refused)
        for each in bell._pair or ():
            os.close(each.fileno())
        assert bell.wait(None)[0]
        bell.ring(urgent=True)
        assert bell.wait(None)[0]
        assert bell.take_urgent()
    assert_rings_once_and_closes(bell)


def assert_rings_once_and_closes(bell: SocketBell) -> None:
    while bell.wait(0.0)[0]:
        pass
    bell.ring(urgent=False)
    assert bell.wait(None)[0]
    bell.close()


def _refused(*, beyond: bool) -> Any:
    raise OSError(errno.EMFILE, f"{beyond}")
