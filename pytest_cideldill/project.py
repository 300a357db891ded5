"""What counts as the user's own code, and how its paths are told (contract, sections 1 and 4).

Pure string work with a cache per file name; runs in the process under test, on any thread.
"""

from __future__ import annotations

import os
import sys

# Tests patch these: bound at import.
_exists = os.path.exists
_realpath = os.path.realpath


class Project:
    """The tree under the rootdir, without the site-packages and virtual environments inside it."""

    def __init__(self, rootdir: str) -> None:
        self.rootdir = os.path.realpath(rootdir)
        self._prefix = self.rootdir.rstrip(os.sep) + os.sep
        self._ours = os.path.dirname(os.path.realpath(__file__)) + os.sep
        # An interpreter inside the project is no part of it; one around it (/usr and /usr/src/app,
        # a checkout inside a virtual environment) says nothing.
        prefixes = {os.path.realpath(path) + os.sep for path in (sys.prefix, sys.exec_prefix)}
        self._foreign = tuple(
            each for each in prefixes if each.startswith(self._prefix) and each != self._prefix
        )
        self._real: dict[str, str] = {}
        self._user: dict[str, bool] = {}

    def real(self, filename: str) -> str:
        """The absolute real path of a `co_filename`; one `realpath` per distinct name."""
        path = self._real.get(filename)
        if path is None:
            path = self._real[filename] = _realpath(filename)
        return path

    def relative(self, filename: str) -> str:
        """Relative to the rootdir with forward slashes when inside it, else absolute."""
        if filename.startswith("<"):
            return filename
        path = self.real(filename)
        if not path.startswith(self._prefix):
            return path
        return path[len(self._prefix) :].replace(os.sep, "/")

    def is_user(self, filename: str) -> bool:
        """Whether a `co_filename` is the user's own code."""
        verdict = self._user.get(filename)
        if verdict is None:
            verdict = self._user[filename] = self._decide(filename)
        return verdict

    def is_ours(self, filename: str) -> bool:
        """Whether a `co_filename` belongs to this plugin."""
        return not filename.startswith("<") and self.real(filename).startswith(self._ours)

    def _decide(self, filename: str) -> bool:
        if filename.startswith("<") or self.is_ours(filename):
            return False
        path = self.real(filename)
        if not path.startswith(self._prefix):
            return False
        if path.startswith(self._foreign):
            return False
        folders = path[len(self._prefix) :].split(os.sep)[:-1]
        return "site-packages" not in folders and not self._in_environment(folders)

    def _in_environment(self, folders: list[str]) -> bool:
        folder = self.rootdir
        for name in folders:
            folder = os.path.join(folder, name)
            if _exists(os.path.join(folder, "pyvenv.cfg")):
                return True
        return False
