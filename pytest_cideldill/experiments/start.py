"""Starts pytest as the user does, after it has installed patched sources.

Patches must be there before pytest is imported, and so before its plugins: pluggy and iniconfig,
which pytest imports itself, can be patched too. So this is no plugin, and imports only what pytest
imports as well. Runs in the main thread of a process under test, first of all.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from typing import Any, Final, NoReturn

from pytest_cideldill.experiments import MODULE, PATCHES, START, patched_sources

_USAGE_ERROR: Final = 4
"""pytest's exit status for bad arguments; 1 would mean that tests failed."""


def main() -> None:
    """Install the patches, and run pytest as the interpreter does."""
    __tracebackhide__ = True
    # Processes that the tests start run the files as they are.
    path, start = os.environ.pop(PATCHES, None), os.environ.pop(START, "-m pytest")
    if path:
        try:
            patched_sources.install(_patches(path))
        except (OSError, ValueError, LookupError, TypeError, SyntaxError) as error:
            _refuse(f"{PATCHES}={path}: {type(error).__name__}: {error}")
    module = start.removeprefix("-m ") if start.startswith("-m ") else None
    if MODULE in sys.orig_argv:
        at = sys.orig_argv.index(MODULE)
        sys.orig_argv[at - 1 : at + 1] = ["-m", module] if module else [start]
    names = vars(sys.modules["__main__"])
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    if module is None:
        _run_script(start, names)
    else:
        # What the interpreter calls for `-m`. `runpy.run_module` would run pytest in a module that
        # is `__main__` only for the time of the run: not for exit handlers, nor for pickles.
        run: Any = runpy
        run._run_module_as_main(module)


def _run_script(path: str, names: dict[str, Any]) -> None:
    """Run a script as the interpreter does. Raises what it raises."""
    __tracebackhide__ = True
    sys.argv[0] = path
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    path = os.path.join(os.getcwd(), path)
    loader = SourceFileLoader("__main__", path)
    names |= {"__file__": path, "__loader__": loader}
    names |= dict.fromkeys(("__cached__", "__doc__", "__package__", "__spec__"))
    with open(path, "rb") as file:
        code = loader.source_to_code(file.read(), path)
    exec(code, names)


def _patches(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        patches = {each["file"]: each["text"] for each in json.load(file)}
    for each in (*patches, *patches.values()):
        if not isinstance(each, str):
            raise TypeError(f"{each!r} is no text")
    return patches


def _refuse(message: str) -> NoReturn:
    print(f"pytest-cideldill: {message}", file=sys.stderr)
    raise SystemExit(_USAGE_ERROR)
