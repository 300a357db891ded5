"""What `git` says of the files of a project: the changes of the working tree, the last commit.

Asked in threads, with a time limit each; without an answer there are no changes. Nothing is
written, no lock is taken, and settings of the user that change the output, or start programs for
it, are overridden.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Final

from cideldill_mcp.questions.patches.unified_diff import Hunk, MalformedDiff, read_diff

_TIMEOUT_S: Final = 2.0
"""Seconds of one process of git."""

_MOST: Final = 4_000_000
"""Bytes of an answer that are read."""

_MOST_STATUS: Final = 2_000_000
"""Bytes of a list of changed files; a longer one is no edit of somebody who looks for a bug."""

_MOST_FILES: Final = 500
"""Files that are asked for."""

_GIT: Final = (
    *("git", "--no-pager", "--no-optional-locks", "--literal-pathspecs"),
    *("-c", "core.quotepath=off", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false"),
)
_DIFF: Final = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--text", "--relative"),
    *("--find-renames", "--ignore-submodules=all", "--ignore-cr-at-eol", "--diff-algorithm=myers"),
)
_AS_PATCH: Final = (
    *("--unified=0", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--patch", "--submodule=short"),
)

_KEPT: Final = ("GIT_CONFIG", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY", "GIT_EXEC_PATH")
"""Beginnings of git's variables that remain; others choose a repository or change the output."""

_AGES: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60))


@dataclass(frozen=True, slots=True)
class FileChange:
    """The changes of one file, in the order of its lines.

    Attributes:
        before: Its name before, relative to the folder that was asked about.
        is_new: Whether there was none.
        hunks: Empty for a new file.
    """

    before: str
    is_new: bool = False
    hunks: list[Hunk] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit.

    Attributes:
        name: Short hash.
        subject: As written.
        time: When it was made, in seconds since the epoch.
    """

    name: str
    subject: str
    time: float

    @property
    def age(self) -> str:
        """`2 hours ago`."""
        passed = time.time() - self.time
        for unit, seconds in _AGES:
            if passed >= seconds:
                count = int(passed // seconds)
                return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
        return "just now"


async def working_tree(root: str, files: Collection[str]) -> dict[str, FileChange] | None:
    """What differs between files and the last commit, staged or not.

    Args:
        root: A folder.
        files: Paths relative to it, with `/`.

    Returns:
        By path. None: there is no repository, no commit, or no answer.
    """
    wanted = sorted(files)[:_MOST_FILES]
    untracked = ("ls-files", "--others", "--exclude-standard", "-z", "--", *wanted)
    changed, others = await asyncio.gather(
        _changes(root, ("HEAD",), wanted), asyncio.to_thread(_ask, root, untracked)
    )
    if changed is None:
        return None
    for name in _names(others or b""):
        if name in files:
            changed[name] = FileChange(name, is_new=True)
    return changed


async def last_commit(
    root: str, files: Collection[str]
) -> tuple[Commit, dict[str, FileChange]] | None:
    """What the last commit changed, against its first parent.

    Args:
        root: As for `working_tree`.
        files: The same, as they are named in that commit.

    Returns:
        The commit and the changes by path. None: there is no such commit, or no answer.
    """
    shown = ("log", "-1", "--no-color", "--no-notes", "--encoding=UTF-8", "--format=%h%n%ct%n%s")
    changed, about = await asyncio.gather(
        _changes(root, ("HEAD~1", "HEAD"), sorted(files)[:_MOST_FILES]),
        asyncio.to_thread(_ask, root, (*shown, "HEAD")),
    )
    lines = (about or b"").decode("utf-8", "replace").split("\n")
    if changed is None or len(lines) < 3 or not lines[1].isdigit():
        return None
    return Commit(lines[0], lines[2], float(lines[1])), changed


def line_now(line: int, hunks: Iterable[Hunk]) -> int | None:
    """Where a line is after changes; None: they changed it."""
    moved = line
    for hunk in hunks:
        first = (hunk.start or 0) + (not hunk.old)
        if line < first:
            break
        if line < first + len(hunk.old):
            return None
        moved += len(hunk.new) - len(hunk.old)
    return moved


def read_patch(text: str) -> dict[str, list[Hunk]]:
    """The hunks of a patch that git made, by the name of the file behind it."""
    with suppress(MalformedDiff):
        return {
            diff.new_name.removeprefix("b/"): [
                hunk for hunk in diff.hunks if hunk.start is not None
            ]
            for diff in read_diff(text)
        }
    return {}


def read_status(data: bytes) -> dict[str, FileChange]:
    """The changed files by `--name-status -z`, without their hunks; removed ones are left out."""
    changes: dict[str, FileChange] = {}
    fields = _names(data)
    for status in fields:
        if status[:1] in ("R", "C"):
            before, name = next(fields, ""), next(fields, "")
            changes[name] = FileChange(before)
        else:
            name = next(fields, "")
            if status[:1] != "D":
                changes[name] = FileChange(name, is_new=status[:1] == "A")
    return changes


# --- processes ----------------------------------------------------------------------------------


async def _changes(
    root: str, commits: Sequence[str], files: Sequence[str]
) -> dict[str, FileChange] | None:
    """Of all changed files it is asked first: a rename is seen only with both names."""
    status = await asyncio.to_thread(_ask, root, (*_DIFF, "--name-status", "-z", *commits, "--"))
    if status is None or len(status) > _MOST_STATUS:
        return None
    changed = {name: change for name, change in read_status(status).items() if name in files}
    paths = {path for name, change in changed.items() for path in (name, change.before)}
    if not paths:
        return {}
    asked = (*_DIFF, *_AS_PATCH, *commits, "--", *sorted(paths))
    patch = await asyncio.to_thread(_ask, root, asked)
    if patch is None:
        return None
    hunks = read_patch(patch.decode("utf-8", "replace"))
    return {
        name: change if change.is_new else FileChange(change.before, hunks=hunks.get(name, []))
        for name, change in changed.items()
    }


def _names(data: bytes) -> Iterator[str]:
    for name in data.split(b"\0"):
        if name:
            yield os.fsdecode(name)


def _ask(root: str, words: Sequence[str]) -> bytes | None:
    """The output of git, as far as there is room for it; None: it failed, or took too long."""
    try:
        process = subprocess.Popen(
            [*_GIT, *words],
            cwd=root,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # filters that it starts end with it
        )
    except (OSError, ValueError):  # there is no git, no such folder, or a name with a zero byte
        return None
    is_late: list[bool] = []

    def end() -> None:
        is_late.append(True)
        _kill(process)

    timer = Timer(_TIMEOUT_S, end)
    timer.daemon = True
    timer.start()
    try:
        with process:
            assert process.stdout is not None
            data = process.stdout.read(_MOST + 1)
            if len(data) > _MOST:
                _kill(process)
    finally:
        timer.cancel()
    if is_late:
        return None
    if len(data) > _MOST:
        return data[: data.rfind(b"\n", 0, _MOST) + 1]
    return data if process.returncode == 0 else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in variables.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    return kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
