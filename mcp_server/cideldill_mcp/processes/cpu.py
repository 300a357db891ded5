"""Whether a process runs, uses the processor or waits, and may be sent a signal; from /proc.

Only Linux has it; elsewhere nothing is known.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

BUSY_SHARE = 0.15
"""From this share of one processor on a process is busy: other processes may want it as well."""


class Usage(NamedTuple):
    """At one moment: the state letter of the first thread, processor seconds of all threads."""

    state: str
    seconds: float


def usage(pid: int) -> Usage | None:
    """Of a process; None: unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return Usage(fields[0], ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def runs(pid: int) -> bool:
    """Whether a process of this machine runs, so that it could still send something."""
    if (found := usage(pid)) is not None:
        return found.state not in ("Z", "X", "x")
    if os.path.exists("/proc/self/stat") or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def verdict(before: Usage | None, after: Usage | None, elapsed_s: float) -> str | None:
    """`busy`, `waiting`, or None when it is not known.

    A processor that is shared may have given it nothing, although it wanted: that is busy, too.
    """
    if before is None or after is None:
        return None
    used = after.seconds - before.seconds >= BUSY_SHARE * elapsed_s
    return "busy" if used or before.state == after.state == "R" else "waiting"


def handles(pid: int, number: int) -> bool:
    """Whether a process that runs has a handler for a signal; where that is unknown, it has."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return not Path("/proc/self/status").exists()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    caught = int(fields.get("SigCgt", "0").strip() or "0", 16)
    # A stopped process would go on: it is to stand still.
    is_stopped = fields.get("State", "").strip()[:1] in ("T", "t")
    return not is_stopped and bool(caught >> (number - 1) & 1)


def has_open(pid: int, path: str) -> bool:
    """Whether a process has a file open; where that is unknown, it has."""
    folder = Path(f"/proc/{pid}/fd")
    try:
        file = os.stat(path)
        numbers = list(folder.iterdir())
    except OSError:
        return not Path("/proc/self/fd").exists()
    for number in numbers:
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(number.stat(), file):
                return True
    return False
