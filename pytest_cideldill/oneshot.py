"""Helper processes of the front end: one JSON request on stdin, one reply on stdout.

What else there is on stdout is somebody else's: a `sitecustomize` or a `.pth` file that prints, or
code of a record. So the reply is a line of its own behind a mark.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any
from typing import Final

_MARK: Final = "\ncideldill-reply:"
"""JSON holds no line break, so no reply can hold it."""


def reply_once(answer: Callable[[], dict[str, Any]]) -> None:
    """Write the one reply of this process; what is printed meanwhile and after goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    os.dup2(2, 1)
    out.write(f"{_MARK}{json.dumps(answer())}\n")
    out.close()


def request() -> Any:
    """The request.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is nested too deeply.
    """
    return json.load(sys.stdin.buffer)


def reply_in(output: bytes) -> dict[str, Any]:
    """The reply in all that a process wrote to stdout.

    Raises:
        ValueError: There is none.
    """
    _, mark, rest = output.rpartition(_MARK.encode("ascii"))
    if not mark:
        raise ValueError("it did not reply")
    reply: dict[str, Any] = json.loads(rest.partition(b"\n")[0])
    return reply
