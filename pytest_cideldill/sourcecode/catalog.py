"""Lists the functions of a project from its source files, with the names of their modules.

Reads files and runs no code of them. Used by the helper process; bounded in time and size.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Final

from pytest_cideldill.interpreter.code_files import is_installed
from pytest_cideldill.interpreter.untrusted_files import open_regular
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.sourcecode.describe import FunctionInfo, outline
from pytest_cideldill.sourcecode.names import FunctionName
from pytest_cideldill.sourcecode.quiet import parse
from pytest_cideldill.sourcecode.reading import encoding_of

MAX_FILES: Final = 10_000
"""Files of one project; those deepest in the tree are left out."""

MAX_BYTES: Final = 1_000_000
"""Of a file that is parsed; larger ones are generated, and parsing them needs 100 MB."""

_NEVER: Final = frozenset({"site-packages", "node_modules", "__pycache__"})
_BUILT: Final = frozenset({"build", "dist"})
"""Folders that are no part of the project, unless they are packages."""

_ENVIRONMENT: Final = ("pyvenv.cfg", "conda-meta")
_TESTS: Final = ("test_*.py", "*_test.py", "conftest.py")
"""Files that pytest imports by itself, by its default `python_files`."""

Stamp = tuple[int, int]
"""When a file was changed, in nanoseconds, and its size in bytes."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The functions of one file. `problem`: why it can't be parsed; then there are no functions."""

    stamp: Stamp
    functions: tuple[FunctionInfo, ...] = ()
    problem: str | None = None


@dataclass(slots=True)
class Catalog:
    """The result of a scan. Files are relative to the root, with forward slashes.

    Attributes:
        files: All Python files of the project, with the dotted names that they may be imported by:
            the one that pytest and Python would use most likely comes first.
        unchanged: Files whose stamp is the one that the caller has.
        contents: Files that were read.
        unread: How many files there was no time for, of those that may define the wanted function.
        is_complete: Whether the whole tree was searched.
    """

    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    contents: dict[str, Contents] = field(default_factory=dict)
    unread: int = 0
    is_complete: bool = True


def scan(
    root: str,
    *,
    further: Sequence[str] = (),
    known: Mapping[str, Stamp] | None = None,
    name: FunctionName | None = None,
    seconds: float = 10.0,
) -> Catalog:
    """The functions of the project under a folder, and of further files and folders.

    Args:
        further: Absolute paths; their files appear under absolute paths in the result.
        known: Stamps of files that need not be read again.
        name: Read only files that may define such functions.
        seconds: Time limit, after which files stay unread. Half of it is for finding files.
    """
    root, known = os.path.realpath(root), known or {}
    start = time.monotonic()
    stamps: dict[str, Stamp] = {}
    catalog = Catalog()
    for tree in (root, *map(os.path.realpath, further)):
        is_file = os.path.isfile(tree)
        top = os.path.dirname(tree) if is_file else tree
        found, is_complete = (
            ({os.path.basename(tree): stamp_of(os.stat(tree))}, True)
            if is_file
            else find_sources(tree, lambda: time.monotonic() - start > seconds / 2)
        )
        catalog.is_complete &= is_complete
        prefix = "" if tree == root else f"{top}/"
        stamps |= {prefix + file: stamp for file, stamp in found.items()}
        names = module_names(found, top)
        catalog.files |= {prefix + file: dotted for file, dotted in names.items()}
    for file, stamp in stamps.items():
        if known.get(file) == stamp:
            catalog.unchanged.append(file)
        elif name is not None and not name.may_be_in(catalog.files[file], file):
            continue
        elif time.monotonic() - start > seconds:
            catalog.unread += 1
        else:
            contents = read(os.path.join(root, file), stamp, name.word if name else "")
            if contents is not None:
                catalog.contents[file] = contents
    return catalog


# --- files --------------------------------------------------------------------------------------


def find_sources(root: str, is_over: Callable[[], bool]) -> tuple[dict[str, Stamp], bool]:
    """The Python files of a project, upper folders first, and whether these are all.

    `project.Project` defines user code; here hidden folders and products of builds are left out
    too. Only links that lead out of the root are followed: targets inside are found anyway.

    Args:
        root: A real path.
        is_over: Whether to stop.
    """
    # Our own package may be the project.
    foreign = {os.path.realpath(each) for each in (sys.prefix, sys.exec_prefix)}
    foreign.add(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    found: dict[str, Stamp] = {}
    folders = deque([""])
    linked: set[str] = set()
    while folders:
        if len(found) >= MAX_FILES or is_over():
            return found, False
        folder = folders.popleft()
        for entry in _entries(os.path.join(root, folder)):
            path = folder + entry.name
            if entry.is_symlink() and not _leads_out(entry, root, linked):
                continue
            if entry.is_dir():
                if entry.path not in foreign and _is_own(entry):
                    folders.append(f"{path}/")
            elif path.endswith(".py") and entry.is_file():
                found[path] = stamp_of(entry.stat())
    return found, True


def stamp_of(stat: os.stat_result) -> Stamp:
    """The stamp of a file, by which a change of it is noticed."""
    return stat.st_mtime_ns, stat.st_size


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda each: each.name)
    except OSError:
        return []  # gone meanwhile, or none of our business


def _leads_out(link: os.DirEntry[str], root: str, known: set[str]) -> bool:
    """Whether a link leads to files that are found in no other way; each is followed once."""
    path = os.path.realpath(link.path)
    inside, around = path + os.sep, root + os.sep
    is_apart = not inside.startswith(around) and not around.startswith(inside)
    is_news = is_apart and path not in known and not is_installed(path)
    known.add(path)
    return is_news


def _is_own(folder: os.DirEntry[str]) -> bool:
    if folder.name in _NEVER or folder.name.startswith("."):
        return False
    if folder.name in _BUILT or folder.name.endswith((".egg-info", ".egg")):
        return os.path.exists(os.path.join(folder.path, "__init__.py"))
    return not any(os.path.exists(os.path.join(folder.path, each)) for each in _ENVIRONMENT)


# --- names --------------------------------------------------------------------------------------


def module_names(files: Collection[str], root: str) -> dict[str, tuple[str, ...]]:
    """Dotted names that each file may be imported by, the likeliest first.

    Test modules and conftests are imported as pytest does it by default (`prepend`): from the first
    folder upwards that is no package. Others are named from the nearest folder that imports are
    known to start from: a `src`, one of `sys.path`, one that pytest puts there for a test module or
    a conftest. Where there is none, packages are named as test modules are, and other files from
    the rootdir.
    """
    packages = {_folder(each) for each in files if _name(each) == "__init__.py"}
    tests = {each for each in files if any(fnmatchcase(_name(each), like) for like in _TESTS)}
    starts = {"", *_on_path(root), *(_home(_folder(test), packages) for test in tests)}
    starts |= {
        folder
        for folder in {above for each in files for above in _above(_folder(each))}
        if _name(folder) == "src" and folder not in packages
    }
    around = _packages_around(root) if "" in packages else ""
    names = {}
    for file in files:
        folder = _folder(file)
        home = _home(folder, packages)
        homes = [each for each in _above(home) if each in starts]
        if folder in packages and homes == [""]:
            homes = [home, ""]
        found = dict.fromkeys(_dotted(file, each) for each in homes)
        if file == "__init__.py":
            found = {around.rstrip("."): None}
        elif around and homes[0] == "":
            outer = around + next(iter(found))
            found = {outer: None, **found} if file in tests else {**found, outer: None}
        names[file] = tuple(found)
    return names


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _above(folder: str) -> Iterator[str]:
    """The folder itself, then those around it up to the root."""
    while folder:
        yield folder
        folder = _folder(folder)
    yield ""


def _home(folder: str, packages: Collection[str]) -> str:
    """The first folder upwards that is no package."""
    return next((each for each in _above(folder) if each not in packages), "")


def _dotted(file: str, home: str) -> str:
    *folders, last = file[len(home) + 1 if home else 0 : -len(".py")].split("/")
    # What is in `my-tools/` can be imported from there only.
    skipped = [number for number, folder in enumerate(folders, 1) if not folder.isidentifier()]
    folders = folders[max(skipped, default=0) :]
    return ".".join(folders if last == "__init__" and folders else [*folders, last])


def _on_path(root: str) -> Iterable[str]:
    """Folders inside of the root that are on the path of this interpreter: editable installs."""
    start = root.rstrip(os.sep) + os.sep
    paths = (os.path.realpath(each) for each in sys.path)
    return [
        path.removeprefix(start).replace(os.sep, "/") for path in paths if path.startswith(start)
    ]


def _packages_around(root: str) -> str:
    """`outer.project.` if the root and the folder around it are packages."""
    names = ""
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root, name = os.path.split(root)
        names = f"{name}.{names}"
    return names


# --- contents -----------------------------------------------------------------------------------


def read(path: str, stamp: Stamp, word: str = "") -> Contents | None:
    """The functions of a file; None if it lacks a word, or is gone."""
    if stamp[1] > MAX_BYTES:
        return Contents(stamp, problem=f"it is larger than {MAX_BYTES:,} bytes")
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Contents(stamp, problem=error.strerror or str(error))
    if word.encode() not in data:
        return None
    try:
        encoding_of(data)
        functions = tuple(outline(parse(data), _lines_with(b"yield", data)))
    except SyntaxError as error:
        return Contents(stamp, problem=f"line {error.lineno}: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Contents(stamp, problem=str(error) or type(error).__name__)
    return Contents(stamp, functions)


def _lines_with(word: bytes, data: bytes) -> frozenset[int]:
    if word not in data:
        return frozenset()
    return frozenset(number for number, line in enumerate(data.splitlines(), 1) if word in line)
