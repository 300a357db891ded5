"""The protocol of helper processes: a JSON request on stdin, mostly a single reply on stdout.

Other code may print to stdout too: a `sitecustomize` or a `.pth` file, or code of a record. So each
reply is a line of its own after a mark.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

_MARK: Final = "\ncideldill-reply:"
"""JSON holds no line break, so no reply can hold it."""


def reply_once(answer: Callable[[], dict[str, Any]]) -> None:
    """Write the one reply of this process; other code's output goes to stderr from now on."""
    reply_each(each() for each in (answer,))


def reply_each(answers: Iterable[dict[str, Any]]) -> None:
    """Write several replies, as `reply_once`; each is sent before the next one is made."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    os.dup2(2, 1)
    for answer in answers:
        out.write(f"{_MARK}{json.dumps(answer)}\n")
        out.flush()
    out.close()


def request() -> Any:
    """Read the request.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is nested too deeply.
    """
    return json.load(sys.stdin.buffer)


def reply_in(output: bytes) -> dict[str, Any]:
    """The reply in the whole output of a process. Raises ValueError: there is none."""
    _, mark, rest = output.rpartition(_MARK.encode("ascii"))
    if not mark:
        raise ValueError("it did not reply")
    reply: dict[str, Any] = json.loads(rest.partition(b"\n")[0])
    return reply


def reply_on(line: bytes) -> dict[str, Any] | None:
    """The reply in a line of stdout; None if other code printed the line.

    Raises:
        ValueError: It was cut off.
    """
    mark = _MARK[1:].encode("ascii")
    return json.loads(line.removeprefix(mark)) if line.startswith(mark) else None
