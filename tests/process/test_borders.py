"""Where failures of ours end, and what passes there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_cideldill
from pytest_cideldill.interpreter.borders import add_to, at_fork, contained, every, is_ours, passes
from pytest_cideldill.protocol.encoding import encoded, repaired


class Late(Exception):
    """What a handler raises."""


def ring(_signum: int, _frame: object) -> None:
    raise Late("too late")


class Bell:
    def ring(self, _signum: int, _frame: object) -> None:
        raise Late("too late")

    __call__ = ring


HANDLERS: dict[str, Callable[[], Callable[..., None]]] = {
    "a function": lambda: ring,
    "a function that takes what comes": lambda: lambda *given: ring(*given),
    "a method": lambda: Bell().ring,
    "a callable object": lambda: Bell(),
    "one that wants a keyword": lambda: lambda signum, frame, more=None: ring(signum, frame),
}


def fails() -> Any:
    raise ValueError("ours")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there are no alarms")
@pytest.mark.parametrize("kind", HANDLERS)
def test_what_a_signal_handler_raises_passes(kind: str) -> None:
    reported: list[str] = []
    before = signal.signal(signal.SIGALRM, HANDLERS[kind]())
    try:
        with pytest.raises(Late):
            contained("work", lambda: signal.raise_signal(signal.SIGALRM), reported.append, None)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert reported == []


@pytest.mark.parametrize(
    "leaving", [KeyboardInterrupt(), SystemExit(3), pytest.exit.Exception("enough")]
)
def test_what_ends_the_program_or_the_run_passes(leaving: BaseException) -> None:
    def work() -> None:
        raise leaving

    with pytest.raises(type(leaving)):
        contained("work", work, fails_to_report, None)


def fails_to_report(_message: str) -> None:
    raise AssertionError("nothing is to be reported")


def test_a_failure_is_reported_with_its_place_and_something_else_stands_for_the_result() -> None:
    reported: list[str] = []
    assert contained("the work", fails, reported.append, "instead") == "instead"
    (message,) = reported
    line = fails.__code__.co_firstlineno + 1
    expected = f"pytest-cideldill: the work failed: ValueError: ours at test_borders.py:{line}"
    assert message == expected
    assert contained("the work", fails, fails_to_report, "instead") == "instead"


def test_a_failure_with_odd_arguments_runs_no_code_of_theirs() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    def work() -> None:
        raise ValueError(Odd())

    reported: list[str] = []
    contained("work", work, reported.append, None)
    assert "work failed: ValueError at" in reported[0]


def test_all_steps_are_taken_whatever_fails() -> None:
    done: list[str] = []

    def stops() -> None:
        raise KeyboardInterrupt

    steps = [lambda: done.append("first"), fails, stops, lambda: done.append("last")]
    with pytest.raises(KeyboardInterrupt):
        every("the end", steps, done.append)
    assert [each.partition(" at ")[0] for each in done] == [
        "first",
        "pytest-cideldill: the end failed: ValueError: ours",
        "last",
    ]


def test_a_failure_that_did_not_come_by_a_signal_does_not_pass() -> None:
    """Though a function was given the frame that calls it."""

    def look(frame: object) -> None:
        raise ValueError(frame)

    with pytest.raises(ValueError, match="frame") as caught:
        look(sys._getframe(1))
    assert not passes(caught.value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_meets_no_failure_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    wanted = [True]

    def once() -> None:
        if wanted:
            fails()

    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    at_fork(reported.append, before=once, after_in_parent=once, after_in_child=once)
    if not (child := os.fork()):
        os._exit(len(unraisable))
    _, status = os.waitpid(child, 0)
    wanted.clear()
    assert (status, unraisable) == (0, [])
    assert [each.partition(")")[0] for each in reported] == [
        "pytest-cideldill: a fork (before",
        "pytest-cideldill: a fork (after_in_parent",
    ]


def test_a_report_goes_without_the_parts_that_fail() -> None:
    report: dict[str, Any] = {"id": 1}
    add_to(report, lambda: {"first": 1}, dict.fromkeys, lambda: {"last": 2})  # type: ignore[arg-type]
    assert {name: report[name] for name in ("id", "first", "last")} == {
        "id": 1,
        "first": 1,
        "last": 2,
    }
    assert report["incomplete"].startswith("the report could not be made: TypeError: ")


def test_what_can_be_encoded_stays_and_the_rest_is_named() -> None:
    values: dict[Any, Any] = {
        "kept": [1, "x", None, {"a": 1.5}],
        "odd": {"deep": [object(), b"x"]},
        (1, 2): 3,
    }
    made = repaired(values, TypeError("no"))
    assert made["kept"] == values["kept"]
    assert made["odd"] == {"deep": ["<object>", "<bytes>"]}
    assert "odd.deep[0], odd.deep[1]" in made["incomplete"]
    assert encoded(made)


def test_a_shortened_copy_is_short() -> None:
    values = {"text": "x" * 10_000, "items": list(range(1_000))}
    made = repaired(values, ValueError("too long"), shortened=True)
    assert len(encoded(made)) < 3_000
    assert made["incomplete"] == "text, items could not be sent: ValueError: too long"


def test_every_file_of_the_package_is_ours_and_no_other() -> None:
    """Wherever in it: whose call it is, what began here and what is hidden hangs on that."""
    package = Path(pytest_cideldill.__file__).parent
    files = [str(path) for path in package.rglob("*.py")]
    assert len(files) > 200
    assert [file for file in files if not is_ours(file)] == []
    for other in (__file__, os.__file__, f"{package}_other/x.py", "<string>"):
        assert not is_ours(other)
