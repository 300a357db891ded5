"""Asks `cideldill why` in a process of its own, and reads what it answers.

In pytest's process, when the session is over. Whatever goes wrong is a sentence.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass

PATIENCE_S: Final = 120.0
"""Seconds after which the process is killed. It ends by itself after half of that."""

_GOODBYE_S: Final = 5.0
"""Seconds that it has after Ctrl-C, to end the processes that it has started."""

_TICK_S: Final = 1.0

_MODULE: Final = "cideldill_mcp.commands.main"


@dataclass(frozen=True, slots=True)
class Ways:
    """How the session was started, so that the question's processes are started alike.

    Attributes:
        arguments: pytest's.
        folder: Where.
        environment: The variables, as they were then.
    """

    arguments: Sequence[str]
    folder: str
    environment: dict[str, str]


def command_line(nodeid: str, arguments: Sequence[str]) -> list[str]:
    """The command for a test.

    Args:
        nodeid: The test.
        arguments: Those of the session. All are handed on: a conftest that one names may define
            the next. What selects and what reports is taken back by the question's process; that
            `-k` leaves out what could be compared is taken back here. What `-m` leaves out may not
            be able to run here.
    """
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    # -P: no folder of the project is taken for the package.
    ours = [sys.executable, "-P", "-m", _MODULE, "why", nodeid, "--json"]
    options = [*arguments[:cut], "-k", "", *arguments[cut:]]
    return [*ours, "--python", sys.executable, "--", *options]


def asked(nodeid: str, ways: Ways, waits: Callable[[float], object]) -> dict[str, Any]:
    """The reply object of the command.

    Args:
        nodeid: The test.
        ways: How to ask.
        waits: Called every second with the seconds since the start.

    Raises:
        NoAnswer: There is none; its text says why.
        KeyboardInterrupt: The process has ended, too.
    """
    try:
        process = subprocess.Popen(
            command_line(nodeid, ways.arguments),
            cwd=ways.folder,
            env=ways.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise NoAnswer(f"the command can't be started: {error.strerror}") from error
    try:
        out, err = _output(process, waits)
    except BaseException:
        _end(process)
        raise
    return _reply(out, err, process.returncode)


class NoAnswer(Exception):
    """The command had no answer."""


def _output(
    process: subprocess.Popen[bytes], waits: Callable[[float], object]
) -> tuple[bytes, bytes]:
    seconds = 0.0
    while True:
        try:
            return process.communicate(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            seconds += _TICK_S
            if seconds >= PATIENCE_S:
                raise NoAnswer(f"the command did not end within {PATIENCE_S:.0f} s") from None
            waits(seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it. Ctrl-C on a terminal has reached it as well; a second one it can bear."""
    try:
        for seconds in (1.0, _GOODBYE_S):
            try:
                process.communicate(timeout=seconds)
                return
            except subprocess.TimeoutExpired:
                if os.name == "posix":
                    process.send_signal(signal.SIGINT)
    finally:
        process.kill()
        process.wait()


def _reply(out: bytes, err: bytes, status: int) -> dict[str, Any]:
    try:
        reply = json.loads(out)
    except ValueError:
        reply = None
    if isinstance(reply, dict):
        if isinstance(reply.get("text"), str):
            return reply
        said = reply.get("message") or reply.get("error")
        if isinstance(said, str):
            raise NoAnswer(said)
    lines = err.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    raise NoAnswer(f"the command ended with {status}: {last}")
