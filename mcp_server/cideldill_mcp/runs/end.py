"""Classifies the end of a run by what its process reported, never by its exit code alone."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from pytest_cideldill.protocol.current_test_file import FilePosition

_FATAL = "Fatal Python error"
MAX_STACKS = 4_000
MAX_MESSAGE = 2_000
LAST_LINES = 12
"""Of the output of a run, which say why it has another exit status."""

# pytest.ExitCode; plugins may use further ones.
_BY_CODE = {3: "internal_error", 4: "startup_error", 5: "no_tests"}


@dataclass(frozen=True, slots=True)
class Cut:
    """A client's order did not wait any longer.

    Attributes:
        signal: The last one that was sent.
        seconds: Since Ctrl-C when the first one was sent; None: there was no Ctrl-C.
        tore_down: Its fixtures were being torn down.
    """

    signal: str
    seconds: float | None
    tore_down: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known when the main process of a run is gone.

    Attributes:
        exit_code: Of its `Finished`, None when it never came.
        departed: pytest unconfigured itself in order.
        returncode: The process's; negative for a signal. None while it still lives.
        interrupted: Text of Ctrl-C or `pytest.exit`.
        internal_error: Text of pytest's internal error.
        last: What was under way at the end.
        errors: The end of its stderr.
        output: The end of its stdout.
        stopped: A client had it ended.
        cut_off: Its connection ended before it did.
        cut: How, if not by Ctrl-C alone.
        ran: How many tests have ended.
        failed: How many failures there were, in collection too.
        searched: What a collection without tests looked for.
    """

    connected: bool
    exit_code: int | None
    departed: bool
    returncode: int | None
    interrupted: str | None = None
    internal_error: str | None = None
    last: FilePosition | None = None
    errors: str = ""
    output: str = ""
    stopped: bool = False
    cut_off: bool = False
    cut: Cut | None = None
    ran: int = 0
    failed: int = 0
    searched: str | None = None


def classify(evidence: Evidence) -> dict[str, Any]:
    """The `end` of a run, as clients see it: `kind` and what else is known."""
    if evidence.exit_code is not None:
        return _finished(evidence, evidence.exit_code) | _cut_at_exit(evidence)
    if evidence.stopped:
        return {"kind": "interrupted", **_stopped(evidence)}
    by_signal = evidence.returncode is not None and evidence.returncode < 0
    if evidence.departed or (not evidence.connected and not by_signal):
        return {"kind": "startup_error", "message": _message(evidence)}
    return _crashed(evidence)


def _finished(evidence: Evidence, code: int) -> dict[str, Any]:
    if _was_set(evidence, code):
        return {"kind": "finished", "message": _set_by_others(evidence, code)}
    kind = _BY_CODE.get(code, "finished")
    if evidence.interrupted is not None:  # pytest.exit may choose any code, also one of pytest's
        kind = "interrupted" if code == 2 else "finished"
    end: dict[str, Any] = {"kind": kind}
    if kind in ("interrupted", "internal_error"):
        end |= _last(evidence)
    if evidence.interrupted is not None:
        end["message"] = evidence.interrupted or "pytest.exit gave no reason"
    elif kind == "no_tests":
        end["message"] = evidence.searched or "pytest found no tests"
    elif kind == "internal_error":
        end["message"] = (evidence.internal_error or _message(evidence))[-MAX_MESSAGE:]
    elif kind == "startup_error":
        end["message"] = _message(evidence)
    return end


def _was_set(evidence: Evidence, code: int) -> bool:
    """Whether the code is not the one that pytest makes of what its tests did."""
    is_explained = evidence.interrupted is not None or (code == 3 and evidence.internal_error)
    return evidence.ran > 0 and not is_explained and code != (1 if evidence.failed else 0)


def _set_by_others(evidence: Evidence, code: int) -> str:
    what = f"{evidence.failed} failed" if evidence.failed else "all tests passed"
    lines = "\n".join(evidence.output.rstrip().splitlines()[-LAST_LINES:])
    sentence = f"{what}; something else set the exit status to {code}: a plugin or a conftest"
    return f"{sentence}. Its last lines:\n{lines[-MAX_MESSAGE:]}" if lines else sentence


def _stopped(evidence: Evidence) -> dict[str, Any]:
    cut, last = evidence.cut, _last(evidence)
    if cut is None:
        return {"message": "ended by a client", **last}
    where = last.get("lastTest", "the run")
    if cut.tore_down:
        last = last and last | {"lastPhase": "teardown"}
        after = "" if cut.seconds is None else f" after {cut.seconds:.3g} s"
        how = f"teardown of {where} was cut{after}"
    elif cut.seconds is None:
        how = "its fixtures were not torn down"
    else:
        how = f"{where} did not end, so its fixtures were not torn down"
    message = f"ended by a client; {how} ({_last_signal(evidence, cut)})"
    return {"message": message, "teardown": "cut", **last}


def _cut_at_exit(evidence: Evidence) -> dict[str, Any]:
    """The end of a run that was over but for what Python does at its exit."""
    if evidence.cut is None or evidence.returncode is None or evidence.returncode >= 0:
        return {}
    signal = _last_signal(evidence, evidence.cut)
    how = f"its threads, or what it does at its exit, were cut ({signal})"
    message = f"{evidence.interrupted}; {how}" if evidence.interrupted else how
    return {"message": message, "teardown": "cut"}


def _last_signal(evidence: Evidence, cut: Cut) -> str:
    code = evidence.returncode
    return cut.signal if code is None or code >= 0 else _signal_name(-code)


def _crashed(evidence: Evidence) -> dict[str, Any]:
    end: dict[str, Any] = {"kind": "crashed"}
    code = evidence.returncode
    if code is not None and code < 0:
        end["signal"] = _signal_name(-code)
        end["message"] = f"the test process was ended by {end['signal']}"
    elif code is None:
        end["message"] = "the record has no end: the test process was killed, or it still runs"
    elif evidence.cut_off:
        end["message"] = (
            "the test process lost its connection to the server, so that nothing is known of what "
            f"came later (did a test close all descriptors?); it ended with exit code {code}"
        )
    else:
        end["message"] = f"the test process ended without finishing, exit code {code} (os._exit?)"
    end |= _last(evidence)
    fatal = evidence.errors.rfind(_FATAL)
    if fatal >= 0:
        end["stacks"] = evidence.errors[fatal:][:MAX_STACKS]
    return end


def _last(evidence: Evidence) -> dict[str, str]:
    """The test that was under way."""
    if evidence.last is None:
        return {}
    return {"lastTest": evidence.last.nodeid, "lastPhase": evidence.last.phase}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _message(evidence: Evidence) -> str:
    text = evidence.errors.strip() or evidence.output.strip()
    return (
        text[-MAX_MESSAGE:] or f"pytest ended with exit code {evidence.returncode} and no message"
    )
