"""Where a command's tests are: their rootdir and their interpreter, without loading pytest."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

_SURE = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
"""Files that make their folder the rootdir, whatever is in them."""

_SECTIONS = (
    ("pyproject.toml", re.compile(r"^\s*\[\s*tool\s*\.\s*pytest\b", re.MULTILINE)),
    ("tox.ini", re.compile(r"^\[pytest\]", re.MULTILINE)),
    ("setup.cfg", re.compile(r"^\[tool:pytest\]", re.MULTILINE)),
)
"""Files that do so with a section about pytest."""

_PYTHON = ("bin/python",) if os.name == "posix" else ("Scripts/python.exe",)


def rootdir(start: str, for_pytest: Sequence[str]) -> str:
    """The rootdir as pytest finds it, without loading pytest.

    Args:
        start: Where the command was started.
        for_pytest: Arguments of pytest; `--rootdir` and `-c` count.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--rootdir")
    parser.add_argument("-c", "--config-file", dest="inifile")
    options, _ = parser.parse_known_args(list(for_pytest))
    if options.rootdir is not None:
        return os.path.abspath(os.path.join(start, os.path.expandvars(options.rootdir)))
    if options.inifile is not None:
        return os.path.dirname(os.path.abspath(os.path.join(start, options.inifile)))
    makes_root = (_is_configured, partial(_has, "setup.py"), partial(_has, "pyproject.toml"))
    found = (folder for is_root in makes_root for folder in _upwards(start) if is_root(folder))
    return next(found, start)


def _is_configured(folder: str) -> bool:
    if any(_has(name, folder) for name in _SURE):
        return True
    for name, section in _SECTIONS:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                if section.search(file.read()):
                    return True
        except OSError:
            continue
    return False


def _has(name: str, folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def _upwards(start: str) -> list[str]:
    return [start, *map(str, Path(start).parents)]


def interpreter(start: str, root: str) -> str:
    """The interpreter of the tests: of the nearest `.venv` up to the rootdir, else of the active
    environment, else the one that runs this.
    """
    folders = []
    for folder in _upwards(start):
        folders.append(os.path.join(folder, ".venv"))
        if folder == root or not (folder + os.sep).startswith(root.rstrip(os.sep) + os.sep):
            break
    if active := os.environ.get("VIRTUAL_ENV"):
        folders.append(active)
    for folder in folders:
        for name in _PYTHON:
            if os.access(path := os.path.join(folder, name), os.X_OK):
                return path
    return sys.executable
