"""What a collection without tests has looked for, as one sentence; on the thread of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

_PATTERNS = ("python_files", "python_classes", "python_functions")

_DESELECTING = {
    "keyword": "-k {!r}",
    "markexpr": "-m {!r}",
    "deselect": "--deselect {!r}",
    "lf": "--lf",
    "stepwise": "--stepwise",
}
"""Attributes of pytest's options, as one writes them."""


def searched(config: pytest.Config, args: Sequence[str], found: int, deselected: int) -> str:
    """The sentence.

    Args:
        config: pytest's.
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
    return f"{message} ({'; '.join(looked)})"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
