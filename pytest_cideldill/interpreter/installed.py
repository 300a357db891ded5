"""Recognizes installed files: those in the library of an environment, or in that of Python."""

from __future__ import annotations

import os
from typing import Final

_LIBRARY: Final = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


def is_installed(path: str) -> bool:
    """Whether a file or folder is installed, by its real path."""
    return f"{path}{os.sep}".startswith(_LIBRARY) or not _FOLDERS.isdisjoint(path.split(os.sep))
