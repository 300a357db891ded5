"""The files behind `debugger://source/{+file}`: what a URI names, what may be shown, and its text.

Names come from clients and are not trusted; a file may be anything. A file of the project is one
that counts as the user's code by its place, but nothing hidden (`.env`, `.git/config`): what is in
there is no source. The caller decides which other files may be shown.

Secrets in source text are hidden as in every other text that leaves a run: a stop shows the same
lines, and a value that is hidden there must not be shown here. Lines keep their numbers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from urllib.parse import unquote_to_bytes

from cideldill_mcp.replies.render import MAX_MAX_CHARS
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.interpreter.untrusted_files import NO_LINK, open_regular
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.reading import Unreadable, encoding_of

PREFIX = "debugger://source/"
TEMPLATE = f"{PREFIX}{{+file}}"

MAX_BYTES = 4 * (MAX_MAX_CHARS + 4_096)
"""Bytes of a file that are read: some more characters than are shown, so that a secret at the end
of these is recognized."""

_NOTICE_CHARS = 200

Redact = Callable[..., str]
"""`Redactor.redact_source`."""


def name_in(uri: str) -> str:
    """The file that a URI names; percent-encoding is undone once.

    Raises:
        Refusal: `invalid_parameter`: it names none.
    """
    try:
        name = os.fsdecode(unquote_to_bytes(uri.removeprefix(PREFIX)))
    except UnicodeError:
        name = ""
    # A path of another machine: looking at it would connect there (Windows only).
    if not name or "\0" in name or os.path.splitdrive(name)[0].startswith(("\\\\", "//")):
        raise Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"{uri!r} names no file; give a path from the rootdir, or an absolute one",
        )
    return name


def real_path(project: Project, name: str) -> str:
    """Where a name leads, links followed."""
    return os.path.realpath(os.path.join(project.rootdir, name))


def is_of_project(project: Project, path: str) -> bool:
    """Whether a real path is one of the user's own sources."""
    if not project.is_user(path):
        return False
    around = [root for root in project.roots if _is_in(root, path)]
    below = min((os.path.relpath(path, each) for each in around), key=len)
    return not any(part[:1] == "." != part for part in below.split(os.sep))


def _is_in(tree: str, path: str) -> bool:
    return path == tree or path.startswith(tree.rstrip(os.sep) + os.sep)


async def text_of(path: str, name: str, redact: Redact) -> str:
    """The text of a file for clients: at most 200,000 characters, with a notice if it has more.

    It is read and decoded beside the event loop.

    Args:
        path: A real path that may be shown.
        name: What the client called it.
        redact: Hides secrets.

    Raises:
        Refusal: `file_not_found`, `invalid_source`: it is no text.
    """
    try:
        text, size, is_whole = await asyncio.to_thread(_read, path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Refusal(ErrorCode.FILE_NOT_FOUND, f"file {name!r} is not found: {path}") from error
    except OSError as error:
        raise Refusal(
            ErrorCode.FILE_NOT_FOUND, f"{name!r} can't be read: {error.strerror}"
        ) from error
    if "\0" in text:
        raise Refusal(ErrorCode.INVALID_SOURCE, f"{name!r} is no text file")
    is_python = path.endswith((".py", ".pyi"))
    redacted = await asyncio.to_thread(redact, text, is_python=is_python)
    if len(redacted) <= MAX_MAX_CHARS and is_whole:
        return redacted
    lines = (
        redacted[: MAX_MAX_CHARS - _NOTICE_CHARS].rpartition("\n")[0]
        or redacted[: MAX_MAX_CHARS // 2]
    )
    shown = lines.count("\n") + 1
    return f"{lines}\n[cut here: the first {shown} lines of a file of {size} bytes]\n"


def _read(path: str) -> tuple[str, int, bool]:
    """The first characters of a regular file, how many bytes it has, and whether this is all of it.

    Raises:
        OSError: It can't be read.
    """
    with open_regular(path, NO_LINK) as file:
        data = file.read(MAX_BYTES)
        size = os.fstat(file.fileno()).st_size if len(data) == MAX_BYTES else len(data)
    return _decoded(data), size, len(data) == size


def _decoded(data: bytes) -> str:
    """By its cookie or byte order mark (PEP 263), as Python reads it; else what is UTF-8 of it."""
    try:
        return _text(data, encoding_of(data))
    except (Unreadable, LookupError, UnicodeError):
        return _text(data, "utf-8")


def _text(data: bytes, encoding: str) -> str:
    return TextIOWrapper(BytesIO(data), encoding, errors="replace").read()
