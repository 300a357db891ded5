"""Reads unified diffs, and applies their hunks to the lines of a file.

A hunk must match exactly, but may have moved: the line in its header comes first, else the one
place where its lines are. The counts in headers are used only where lines of a hunk look like the
header of a file, as people and models miscount.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

NO_FILE: Final = "/dev/null"

_HUNK: Final = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@)?")
_NO_TEXT: Final = ("GIT binary patch", "Binary files ")


class MalformedDiff(ValueError):
    """A text that is no unified diff; the message names its line."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change of some lines, each of which has its line feed unless it ends a file without one.

    Attributes:
        at: The line of the diff where it begins.
        start: The first of the old lines, by the header; None: it has no number. Without old lines
            it is the line above.
        new_start: The same of the new lines.
        counts: How many old and new lines it has, by the header.
    """

    at: int
    start: int | None
    new_start: int | None = None
    counts: tuple[int, int] = (0, 0)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    @property
    def lacks_both(self) -> bool:
        """Whether old and new lines have to come, by the header."""
        return len(self.old) < self.counts[0] and len(self.new) < self.counts[1]

    def places(self, lines: Sequence[str], after: int) -> list[int]:
        """Where the old lines are, as indexes from `after` on; one only if the header is right."""
        if not self.old:  # then the number is that of the line above
            return [self.start or 0] if after <= (self.start or 0) <= len(lines) else []
        wanted, held = ([line.rstrip("\n") for line in sequence] for sequence in (self.old, lines))
        size = len(wanted)
        ends = range(after, len(held) - size + 1)
        found = [at for at in ends if held[at] == wanted[0] and held[at : at + size] == wanted]
        stated = (self.start or 0) - 1
        return [stated] if stated in found else found


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The hunks of one file, and its names in the header, which begins at a line of the diff."""

    at: int
    old_name: str
    new_name: str
    hunks: list[Hunk] = field(default_factory=list)


def read_diff(text: str) -> list[FileDiff]:
    """The files of a diff, in its order.

    Raises:
        MalformedDiff: It has no hunk, a hunk without a file, or something else than text.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    files: list[FileDiff] = []
    hunk: Hunk | None = None
    for number, line in enumerate(lines, 1):
        below = lines[number:]
        if line.startswith(_NO_TEXT):
            raise MalformedDiff(f"line {number} of the diff is about a file that is no text")
        if _begins_file([line, *below[:2]], hunk):
            files.append(FileDiff(number, _name(line), _name(below[0])))
            hunk = None
        elif header := _HUNK.match(line):
            if not files:
                raise MalformedDiff(f"line {number} of the diff is a hunk without --- and +++")
            hunk = Hunk(number, None)
            if header[1]:
                counts = int(header[2] or 1), int(header[4] or 1)
                hunk = Hunk(number, int(header[1]), int(header[3]), counts)
            files[-1].hunks.append(hunk)
        elif hunk is not None and not _add(hunk, line, below):
            hunk = None
    if not files:
        raise MalformedDiff("the diff has no file with hunks, which are headed by ---, +++ and @@")
    return files


def apply(hunks: Sequence[tuple[int, Hunk]], lines: Sequence[str]) -> list[str]:
    """The lines with hunks put in at their indexes, which ascend."""
    held: list[str] = []
    done = 0
    for index, hunk in hunks:
        held += [*lines[done:index], *hunk.new]
        done = index + len(hunk.old)
    held += lines[done:]
    return [line if line.endswith("\n") else f"{line}\n" for line in held[:-1]] + held[-1:]


def _begins_file(lines: Sequence[str], hunk: Hunk | None) -> bool:
    """Whether lines are a header, and not removed and added ones that begin with `--` and `++`.

    Both look alike where the next hunk follows. Then the names of a header are of one file.
    """
    if [line[:4] for line in lines[:2]] != ["--- ", "+++ "] or "".join(lines[2:3])[:2] != "@@":
        return False
    if hunk is None or not hunk.lacks_both:
        return True
    old, new = (re.sub(r"^[a-z]/", "", line[4:].partition("\t")[0]) for line in lines[:2])
    return old == new or NO_FILE in (old, new)


def _add(hunk: Hunk, line: str, below: Sequence[str]) -> bool:
    """Add a line to a hunk; False: it is behind its end."""
    kind = line[:1] or " "
    ahead = [each for each in below if each][:3]
    if not line and (not ahead or ahead[0][0] not in " +-" or _begins_file(ahead, hunk)):
        return False  # not a line without its space, but a gap behind the hunk
    if kind in " +-":
        text = line[1:] if below and below[0].startswith("\\") else f"{line[1:]}\n"
        if kind != "+":
            hunk.old.append(text)
        if kind != "-":
            hunk.new.append(text)
    return kind in " +-\\"


def _name(header: str) -> str:
    """The name in a header, without the time; git quotes bytes beyond ASCII."""
    name = header[4:].partition("\t")[0].strip()
    if name[:1] != '"':
        return name
    try:
        return name.strip('"').encode().decode("unicode_escape").encode("latin-1").decode()
    except UnicodeError as error:
        raise MalformedDiff(f"a name in the diff can't be read: {name}") from error
