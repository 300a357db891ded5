"""How a run ended: every combination of evidence, through `classify`.

The rule: finish seen → its code; else bye seen → startup error; else process gone → crashed.
Exit codes alone lie.
"""

from __future__ import annotations

import signal
from itertools import product
from typing import Any

import pytest

from cideldill_mcp.runs.end import MAX_MESSAGE, MAX_STACKS, Cut, Evidence, classify
from pytest_cideldill.protocol.current_test_file import FilePosition

LAST = FilePosition("call", "test_a.py::test_b", 0.0)
FATAL = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"


def evidence(returncode: int | None, exit_code: int | None, bye: bool, **more: Any) -> Evidence:
    return Evidence(
        connected=more.pop("connected", True),
        exit_code=exit_code,
        departed=bye,
        returncode=returncode,
        **more,
    )


WAYS: tuple[tuple[str, Evidence, str], ...] = (
    ("segfault", evidence(-11, None, False, last=LAST), "crashed"),
    ("abort", evidence(-6, None, False, last=LAST), "crashed"),
    ("kill -9", evidence(-9, None, False, last=LAST), "crashed"),
    ("os._exit(3)", evidence(3, None, False, last=LAST), "crashed"),
    ("os._exit(0)", evidence(0, None, False, last=LAST), "crashed"),
    ("sys.exit or RecursionError in a test", evidence(1, 1, True), "finished"),
    ("Ctrl-C", evidence(2, 2, True, interrupted="KeyboardInterrupt"), "interrupted"),
    ("pytest.exit()", evidence(2, 2, True, interrupted="Exit: enough"), "interrupted"),
    ("pytest.exit(returncode=42)", evidence(42, 42, True, interrupted="Exit: 42"), "finished"),
    ("pytest.exit(returncode=3)", evidence(3, 3, True, interrupted="Exit: 3"), "finished"),
    ("pytest.exit(returncode=5)", evidence(5, 5, True, interrupted="Exit: 5"), "finished"),
    ("-x", evidence(1, 1, True), "finished"),
    ("collection error", evidence(2, 2, True), "finished"),
    ("plugin bug in a hook", evidence(3, 3, True, internal_error="boom"), "internal_error"),
    ("unknown option", evidence(4, None, True, errors="unrecognized arguments"), "startup_error"),
    (
        "never connected",
        evidence(4, None, False, connected=False, errors="ImportError"),
        "startup_error",
    ),
    ("segfault before it connected", evidence(-11, None, False, connected=False), "crashed"),
    ("unknown node id", evidence(4, 4, True, errors="not found: x.py"), "startup_error"),
    ("nothing selected", evidence(5, 5, True), "no_tests"),
    ("all passed", evidence(0, 0, True), "finished"),
    ("segfault after the verdict", evidence(-11, 0, True), "finished"),
    ("hangs after the verdict", evidence(1, 1, False), "finished"),
    ("still alive after the verdict", evidence(None, 1, True), "finished"),
    ("killed by a client", evidence(-9, None, False, last=LAST, stopped=True), "interrupted"),
)


def test_every_way_a_run_can_end_is_distinguished() -> None:
    """The kinds are those of `end` in replies."""
    for way, seen, kind in WAYS:
        assert classify(seen)["kind"] == kind, way


@pytest.mark.parametrize(
    ("number", "name"), [(11, "SIGSEGV"), (6, "SIGABRT"), (9, "SIGKILL"), (63, "signal 63")]
)
def test_a_crash_by_a_signal_names_it_and_the_last_test(number: int, name: str) -> None:
    """`signal`, `lastTest`; real-time signals have no name of their own."""
    end = classify(evidence(-number, None, False, last=LAST))
    assert end == {
        "kind": "crashed",
        "signal": name,
        "message": f"the test process was ended by {name}",
        "lastTest": "test_a.py::test_b",
        "lastPhase": "call",
    }


def test_an_exit_without_a_verdict_says_its_code() -> None:
    """`os._exit(3)` is not an internal error of pytest."""
    end = classify(evidence(3, None, False))
    assert "exit code 3" in end["message"]
    assert not {"signal", "lastTest", "stacks"} & set(end)


@pytest.mark.parametrize("before", ["", "warning: something\n"])
def test_the_stacks_are_the_last_fatal_error_on_stderr(before: str) -> None:
    """From pytest's faulthandler; an earlier block belongs to a child that the test crashed."""
    errors = before + FATAL + "  File old\n" + FATAL + "  File new\n"
    end = classify(evidence(-signal.SIGSEGV, None, False, errors=errors))
    assert end["stacks"] == FATAL + "  File new\n"


def test_stacks_and_messages_are_bounded() -> None:
    """They are part of every reply about this run: of stacks the top, of messages the end."""
    crashed = classify(evidence(-11, None, False, errors=FATAL + "x" * 100_000))
    assert len(crashed["stacks"]) == MAX_STACKS
    assert crashed["stacks"].startswith("Fatal")
    failed = classify(evidence(4, None, True, errors="y" * 100_000 + "end"))
    assert len(failed["message"]) == MAX_MESSAGE
    assert failed["message"].endswith("end")


@pytest.mark.parametrize(
    ("errors", "output", "message"),
    [
        ("ERROR: usage\n", "ignored", "ERROR: usage"),
        (" \n", "ImportError in conftest\n", "ImportError in conftest"),
        ("", "", "pytest ended with exit code 4 and no message"),
    ],
)
def test_a_startup_error_carries_pytest_s_text(errors: str, output: str, message: str) -> None:
    """Text on stderr, else on stdout (a conftest that fails under capture)."""
    end = classify(evidence(4, None, True, errors=errors, output=output))
    assert end == {"kind": "startup_error", "message": message}


def test_an_internal_error_carries_pytest_s_text() -> None:
    """From `pytest_internalerror`; without it what stderr says."""
    seen = evidence(3, 3, True, internal_error="INTERNALERROR> boom", errors="other")
    assert classify(seen)["message"] == "INTERNALERROR> boom"
    assert classify(evidence(3, 3, True, errors="other"))["message"] == "other"


def test_an_interrupted_run_says_what_struck() -> None:
    """Ctrl-C, or the reason given to `pytest.exit`, also with a code of its own."""
    assert classify(evidence(2, 2, True, interrupted="Exit: enough"))["message"] == "Exit: enough"
    assert classify(evidence(9, 9, True, interrupted="Exit: nine"))["message"] == "Exit: nine"


def test_whatever_was_cut_has_an_end_that_says_so() -> None:
    """Without an end the run would go on for ever."""
    for case in product(
        (-15, -9, 1, None), (None, 0.0, 30.04), (None, LAST), (True, False), (None, 2)
    ):
        code, seconds, last, tore_down, exit_code = case
        cut = Cut("SIGTERM", seconds, tore_down)
        ended = classify(evidence(code, exit_code, False, stopped=True, cut=cut, last=last))
        was_cut = exit_code is None or (code or 0) < 0
        kind = "finished" if exit_code else "interrupted"
        assert (ended["kind"], "teardown" in ended) == (kind, was_cut), case
        if was_cut:
            signal_name = "(SIGKILL)" if code == -9 else "(SIGTERM)"
            assert ended["message"].endswith(signal_name), case
        if exit_code is None and last is not None:
            assert ended["lastPhase"] == ("teardown" if tore_down else "call"), case


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (Cut("SIGTERM", 30.04, True), "teardown of test_a.py::test_b was cut after 30 s (SIGTERM)"),
        (Cut("SIGKILL", None, True), "teardown of test_a.py::test_b was cut (SIGKILL)"),
        (Cut("SIGKILL", None, False), "its fixtures were not torn down (SIGKILL)"),
        (
            Cut("SIGTERM", 2.0, False),
            "test_a.py::test_b did not end, so its fixtures were not torn down (SIGTERM)",
        ),
    ],
)
def test_what_was_cut_is_a_sentence(cut: Cut, message: str) -> None:
    ended = classify(evidence(None, None, False, stopped=True, cut=cut, last=LAST))
    assert ended["message"] == f"ended by a client; {message}"
