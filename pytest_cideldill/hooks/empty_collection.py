"""What a collection without tests has looked for, as one sentence; on the thread of the tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_cideldill.interpreter.clock import monotonic

_PATTERNS = ("python_files", "python_classes", "python_functions")

_DESELECTING = {
    "keyword": "-k {!r}",
    "markexpr": "-m {!r}",
    "deselect": "--deselect {!r}",
    "lf": "--lf",
    "stepwise": "--stepwise",
}
"""Attributes of pytest's options, as one writes them."""

MOST_FILES: Final = 2_000
MOST_BYTES: Final = 200_000
LOOK_S: Final = 1.0
"""How many files are looked at for tests, how much of each, and for how long."""

MOST_NAMED: Final = 5
"""Files that the sentence names."""

_TEST: Final = re.compile(
    rb"^(?:async[ \t]+)?def[ \t]+test_|^class[ \t]+Test\w*[^\n]*:[^\n]*\n(?:(?!\S).*\n)*?"
    rb"[ \t]+(?:async[ \t]+)?def[ \t]+test",
    re.MULTILINE,
)
"""A function `test_…`, or a class `Test…` that has one."""


def searched(config: pytest.Config, args: Sequence[str], found: int, deselected: int) -> str:
    """The sentence.

    Args:
        args: Where it looked.
        found: How many tests there were before any was left out.
        deselected: How many tests plugins have reported as deselected.
    """
    where = f"in {', '.join(args)}" if args else "as none of the names exists"
    message = f"no tests: {found} found {where}"
    if deselected:
        options = [
            text.format(value)
            for name, text in _DESELECTING.items()
            if (value := getattr(config.option, name, None))
        ]
        message += f"; {deselected} deselected by {', '.join(options) or 'a plugin or a conftest'}"
    patterns = ((name, _shown(config.getini(name))) for name in _PATTERNS)
    looked = [f"{name} {value}" for name, value in patterns] if not found else []
    if testpaths := _shown(config.getini("testpaths")):
        looked.append(f"testpaths {testpaths}")
    looked.append(f"rootdir {config.rootpath}")
    if config.inipath is not None:
        looked.append(f"configuration {config.inipath.name}")
    message += f" ({'; '.join(looked)})"
    others = [] if found else sorted(_files_of_other_names(config))
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        message += (
            f"; these hold tests, and their names do not match python_files: "
            f"{', '.join(others[:MOST_NAMED])}{more}"
        )
    return message


def _files_of_other_names(config: pytest.Config) -> Iterator[str]:
    """Files under the rootdir that hold tests, as far as a quick look at their text shows it."""
    patterns, root = config.getini("python_files"), config.rootpath
    deadline, left = monotonic() + LOOK_S, MOST_FILES
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if _is_searched(config, Path(folder, name)))
        for name in sorted(files):
            path = Path(folder, name)
            if path.suffix != ".py" or name == "conftest.py" or _matches(path, patterns):
                continue
            if not left or monotonic() > deadline:
                return
            left -= 1
            if _TEST.search(_start_of(path)):
                yield path.relative_to(root).as_posix()


def _is_searched(config: pytest.Config, folder: Path) -> bool:
    """Whether pytest looks into a folder: no virtual environment, and not left out by its name."""
    is_left_out = any(fnmatch(folder.name, each) for each in config.getini("norecursedirs"))
    return not is_left_out and not (folder / "pyvenv.cfg").exists()


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    return any(
        fnmatch(str(path), f"*{os.sep}{pattern}")
        if os.sep in pattern
        else fnmatch(path.name, pattern)
        for pattern in patterns
    )


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError:  # it is gone, or not ours to read
        return b""


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
