"""Starts pytest in the place of `python -m pytest`, after it has installed patched sources.

Patches must be there before pytest is imported, and so before its plugins: pluggy and iniconfig,
which pytest imports itself, can be patched too. So this is no plugin, and imports only what pytest
imports as well. Runs in the main thread of a process under test, first of all.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any, Final, NoReturn

from pytest_cideldill.experiments import patched_sources

VARIABLE: Final = "CIDELDILL_PATCHES"
"""Names a file with JSON: `[{"file": PATH, "text": WHOLE_TEXT}, ...]`. Without it nothing is
patched."""

MODULE: Final = "pytest_cideldill.experiments"

_USAGE_ERROR: Final = 4
"""pytest's exit status for bad arguments; 1 would mean that tests failed."""


def main() -> None:
    """Install the patches, and run pytest as `-m pytest` does."""
    __tracebackhide__ = True
    # Processes that the tests start run the files as they are.
    if path := os.environ.pop(VARIABLE, None):
        try:
            patched_sources.install(_patches(path))
        except (OSError, ValueError, LookupError, TypeError, SyntaxError) as error:
            _refuse(f"{VARIABLE}={path}: {type(error).__name__}: {error}")
    sys.orig_argv[:] = map(_as_pytest, sys.orig_argv)
    names = vars(sys.modules["__main__"])
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    # What the interpreter calls for `-m`. `runpy.run_module` would run pytest in a module that is
    # `__main__` only for the time of the run: not for exit handlers, nor for pickles.
    run: Any = runpy
    run._run_module_as_main("pytest")


def _patches(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        patches = {each["file"]: each["text"] for each in json.load(file)}
    for each in (*patches, *patches.values()):
        if not isinstance(each, str):
            raise TypeError(f"{each!r} is no text")
    return patches


def _as_pytest(argument: str) -> str:
    return "pytest" if argument == MODULE else argument


def _refuse(message: str) -> NoReturn:
    print(f"pytest-cideldill: {message}", file=sys.stderr)
    raise SystemExit(_USAGE_ERROR)
