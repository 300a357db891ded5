"""Decides which code is the user's own, and gives the paths under which its files are shown.

Works on path strings, with a cache per file name; runs in the process under test, on any thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import FrameType

from pytest_cideldill.interpreter.code_files import frame_file, is_installed


class Project:
    """The user's code: the tree under the rootdir and further trees, without environments in them.

    The name of a file is its path below the rootdir, through a link if a link leads out of it.
    Relative names begin at the folder in which the process was started.

    Args:
        user_paths: Files and folders whose code is the user's too, relative to the rootdir.
        elsewhere: The rootdir on the machine that commands come from; None if it is the same.
        foreign: Folders inside the rootdir whose code is not the user's.

    Attributes:
        rootdir: The real path of the rootdir.
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
        self._start = _current_folder() or self.rootdir
        self._around = _Tree(self._start) if self.is_inside(self._start) else None
        self._real: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._folders: dict[str, str | None] = {}
        self._user: dict[str, bool] = {}

    def real(self, filename: str) -> str:
        """The absolute real path of a `co_filename`; one `realpath` per distinct name."""
        path = self._real.get(filename)
        if path is None:
            path = self._real[filename] = os.path.realpath(os.path.join(self._start, filename))
        return path

    def named(self, filename: str) -> str:
        """The absolute path of a `co_filename`, below the rootdir if a link there leads to it."""
        path = self._named.get(filename)
        if path is None:
            path = self._named[filename] = self._name(filename)
        return path

    def found(self, file: str) -> str | None:
        """The file of a name that is relative to the rootdir or to the start folder.

        Returns:
            Its path as from `named`; None if there is no such file.
        """
        for folder in (self.rootdir, self._start):
            path = os.path.join(folder, file)
            if os.path.isfile(path):  # Path.is_file raises where the name is too long
                return self.named(path)
        return None

    def here(self, path: str) -> str:
        """The path on this machine for one of the machine that commands come from.

        Paths inside that machine's rootdir are moved to ours. The result is a real path; a file
        that a link leads to is shown under the link's name from now on.
        """
        end = len(self._elsewhere)
        if not path.startswith(self._elsewhere) or path[end : end + 1] not in ("/", "\\"):
            return path
        spelled = self._prefix + path[end + 1 :]
        real = os.path.realpath(spelled)
        self._named[real] = self.named(spelled)
        return real

    def relative(self, filename: str) -> str:
        """The path relative to the rootdir with forward slashes if it is inside, else absolute."""
        if filename.startswith("<"):
            return filename
        path = self.named(filename)
        if not path.startswith(self._prefix):
            return path
        return path[len(self._prefix) :].replace(os.sep, "/")

    def is_user(self, filename: str) -> bool:
        """Whether a `co_filename` is the user's own code."""
        verdict = self._user.get(filename)
        if verdict is None:
            verdict = self._user[filename] = self._decide(filename)
        return verdict

    def has(self, frame: FrameType) -> bool:
        """Whether a frame runs the user's own code."""
        return self.is_user(frame_file(frame))

    def is_ours(self, filename: str) -> bool:
        """Whether a `co_filename` belongs to this plugin."""
        return not filename.startswith("<") and self.real(filename).startswith(self._ours)

    def _decide(self, filename: str) -> bool:
        if filename.startswith("<") or self.is_ours(filename):
            return False
        path, name = self.real(filename), self.named(filename)
        if path.startswith(self._foreign) or (name != path and is_installed(path)):
            return False
        return any(tree.holds(name) or tree.holds(path) for tree in self._trees)

    @property
    def has_beside(self) -> bool:
        """Whether there may be code beside the rootdir."""
        return self._around is not None

    def is_inside(self, folder: str) -> bool:
        """Whether the rootdir is somewhere below a folder."""
        return self.rootdir.startswith(os.path.realpath(folder).rstrip(os.sep) + os.sep)

    def beside(self, filename: str) -> str | None:
        """The value of `user_paths` that makes the code of a file beside the rootdir the user's.

        None if the file is not below the start folder of the process, or is the user's already.
        """
        if self._around is None or filename.startswith("<") or self.is_user(filename):
            return None
        path, start = self.real(filename), self._start.rstrip(os.sep) + os.sep
        if self.is_ours(filename) or is_installed(path) or not self._around.holds(path):
            return None
        first = path[len(start) :].split(os.sep)[0]
        if first.startswith("."):
            return None
        value = os.path.relpath(start + first, self.rootdir)
        return f"beside the rootdir: cideldill_user_paths = {value} makes it user code"

    def source_of(self, module: str, filename: str) -> str | None:
        """The file of the project from which a module was installed, judged by names.

        Args:
            filename: The installed file.
        """
        if filename.startswith("<") or not is_installed(self.real(filename)):
            return None
        path = module.replace(".", os.sep)
        for folder in ("", "src"):
            for end in (".py", f"{os.sep}__init__.py"):
                file = os.path.join(self.rootdir, folder, path + end)
                if os.path.isfile(file) and self.is_user(file):
                    return self.relative(file)
        return None

    def _name(self, filename: str) -> str:
        path = self.real(filename)
        spelled = os.path.abspath(os.path.join(self._start, filename))
        if path == spelled or path.startswith(self._prefix):
            return path
        folder, name = os.path.split(spelled)
        below = self._below(folder)
        return path if below is None else os.path.join(below, name)

    def _below(self, folder: str) -> str | None:
        """The path of a folder below the rootdir, through links; None if no link leads there."""
        if folder in self._folders:
            return self._folders[folder]
        path = os.path.realpath(folder)
        found: str | None = None
        if path == self.rootdir or path.startswith(self._prefix):
            found = path
        else:
            outer, name = os.path.split(folder)
            above = self._below(outer) if outer != folder else None
            found = None if above is None else os.path.join(above, name)
        self._folders[folder] = found
        return found


def _current_folder() -> str | None:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        return None


class _Tree:
    """A folder or a file whose code is the user's."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._prefix = root.rstrip(os.sep) + os.sep
        # An interpreter inside the tree is no part of it. One around the tree (/usr and
        # /usr/src/app, a checkout inside a virtual environment) does not matter.
        prefixes = {os.path.realpath(path) + os.sep for path in (sys.prefix, sys.exec_prefix)}
        self._foreign = tuple(
            each for each in prefixes if each.startswith(self._prefix) and each != self._prefix
        )

    def holds(self, path: str) -> bool:
        """Whether the file of a real path is code of the user's."""
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
