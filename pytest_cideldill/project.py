"""What counts as the user's own code, and how its paths are told (contract, sections 1 and 4).

Pure string work with a cache per file name; runs in the process under test, on any thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


class Project:
    """The tree under the rootdir, and further ones; without environments inside them.

    Args:
        rootdir: As pytest found it.
        user_paths: Files and folders whose code is the user's too, relative to the rootdir.
        elsewhere: The rootdir on the machine that commands come from; None: the same.
        foreign: Folders inside whose code is not the user's.

    Attributes:
        rootdir: Its real path.
        roots: The real paths of all trees, the rootdir first.
    """

    def __init__(
        self,
        rootdir: str,
        user_paths: Sequence[str] = (),
        elsewhere: str | None = None,
        foreign: Sequence[str] = (),
    ) -> None:
        self.rootdir = os.path.realpath(rootdir)
        self._prefix = self.rootdir.rstrip(os.sep) + os.sep
        self._elsewhere = (elsewhere or self.rootdir).rstrip("/\\")
        self._foreign = tuple(each + os.sep for each in foreign)
        self._ours = os.path.dirname(os.path.realpath(__file__)) + os.sep
        further = (os.path.join(self.rootdir, os.path.expanduser(each)) for each in user_paths)
        self.roots = (self.rootdir, *map(os.path.realpath, further))
        self._trees = tuple(map(_Tree, self.roots))
        self._real: dict[str, str] = {}
        self._user: dict[str, bool] = {}

    def real(self, filename: str) -> str:
        """The absolute real path of a `co_filename`; one `realpath` per distinct name."""
        path = self._real.get(filename)
        if path is None:
            path = self._real[filename] = os.path.realpath(filename)
        return path

    def here(self, path: str) -> str:
        """A path of the machine that commands come from, inside its rootdir: that of this one."""
        end = len(self._elsewhere)
        if not path.startswith(self._elsewhere) or path[end : end + 1] not in ("/", "\\"):
            return path
        return os.path.realpath(self._prefix + path[end + 1 :])

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
        if path.startswith(self._foreign):
            return False
        return any(tree.holds(path) for tree in self._trees)


class _Tree:
    """A folder or a file of the user's."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._prefix = root.rstrip(os.sep) + os.sep
        # An interpreter inside the tree is no part of it; one around it (/usr and /usr/src/app,
        # a checkout inside a virtual environment) says nothing.
        prefixes = {os.path.realpath(path) + os.sep for path in (sys.prefix, sys.exec_prefix)}
        self._foreign = tuple(
            each for each in prefixes if each.startswith(self._prefix) and each != self._prefix
        )

    def holds(self, path: str) -> bool:
        """Whether a file, by its real path, is code of the user."""
        if path == self._root:
            return True
        if not path.startswith(self._prefix) or path.startswith(self._foreign):
            return False
        folders = path[len(self._prefix) :].split(os.sep)[:-1]
        return "site-packages" not in folders and not self._in_environment(folders)

    def _in_environment(self, folders: list[str]) -> bool:
        folder = self._root
        for name in folders:
            folder = os.path.join(folder, name)
            if os.path.exists(os.path.join(folder, "pyvenv.cfg")):
                return True
        return False
