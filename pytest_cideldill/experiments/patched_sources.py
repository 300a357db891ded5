"""Has the interpreter compile and show patched texts in the place of the files they belong to.

No file is written. It is done where the interpreter reads source for code, and not by a finder in
`sys.meta_path`: the order there changes while pytest starts, a program may ask loaders past it
(`spec_from_file_location`, pytest's import mode `importlib`), and another loader in a module's spec
would be a difference that the program sees. So each module keeps its finder, its loader and its
spec, and import hooks of libraries still decide.

* `SourceFileLoader`, which also the loaders of typeguard and beartype derive from: asked
  for the source it gives the patched text. Asked for the file's status it raises OSError, upon
  which `get_code` neither reads nor writes bytecode: this is how the library lets a loader say that
  it can't cache.
* `io.open_code`, by which `runpy.run_path`, cProfile, trace and pdb read scripts.
* pytest's rewriting of assertions, which reads files and keeps bytecode by itself.
* `linecache`, from which `inspect`, `traceback` and pytest have their lines.

A loader that reads its file in another way gets what is on disk: `patched_texts.missing`. So do
readers of text that is no code: `open`, coverage's reports, what C prints of an uncaught exception
on Python 3.11 and 3.12. Forked children have the patches, processes that are started have not.

Runs in the main thread of a process under test, before pytest is imported.
"""

from __future__ import annotations

import io
import linecache
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pytest_cideldill.interpreter import patched_texts
from pytest_cideldill.interpreter.patched_texts import (
    data_of,
    is_patched,
    note_compiled,
    serve_lines,
)

_COMPILER: Final = "<py_compile>"
"""The name by which `py_compile` loads a file that it writes bytecode for: of the text on disk."""


def install(patches: Mapping[str, str]) -> None:
    """Install patches. Is called once, before any of the modules is imported.

    Args:
        patches: The path of a file → its whole text, patched.

    Raises:
        SyntaxError, LookupError, UnicodeError: A text can't be encoded as it declares.
    """
    patched_texts.add(patches)
    loader: Any = SourceFileLoader
    loader.get_data, loader.path_stats = _get_data, _path_stats
    library: Any = io
    library.open_code = _opener(io.open_code)
    serve_lines(linecache)
    if find_spec("pytest"):
        import pytest  # noqa: F401 - in its own order, which starting in the middle would change
        from _pytest.assertion import rewrite

        _serve_rewriting(rewrite)


# --- the loader of the standard library -----------------------------------------------------------


# They raise nothing of their own for files that are not patched: a traceback through importlib that
# a program shows has no line of ours.


def _get_data(self: SourceFileLoader, path: str) -> bytes:
    data = data_of(path) if _is_patched(self, path) else None
    if data is None:
        return super(SourceFileLoader, self).get_data(path)
    if _is_for_code(sys._getframe(1)):
        note_compiled(path)
    return data


def _path_stats(self: SourceFileLoader, path: str) -> Any:
    if _is_patched(self, path):
        raise OSError(f"{path} is patched: its code is not cached")
    return _real_path_stats(self, path)


_real_path_stats = SourceFileLoader.path_stats


def _is_patched(loader: SourceFileLoader, path: str) -> bool:
    return is_patched(path) and getattr(loader, "name", None) != _COMPILER


def _is_for_code(frame: FrameType | None) -> bool:
    """Whether the text is asked for to compile it, and not as data, by the methods that ask.

    A wrapper of `get_code` would know it too, but stand in tracebacks.
    """
    for _ in range(_CALLERS):
        if frame is None or frame.f_code.co_name in _OF_CODE:
            return frame is not None
        frame = frame.f_back
    return False


_OF_CODE: Final = frozenset({"get_code", "exec_module"})

_CALLERS: Final = 3
"""Frames that are looked at: a loader may have its own `get_data`, which calls ours. Further up is
the import by which the code runs that asks for data."""


def _opener(original: Callable[[str], Any]) -> Callable[[str], Any]:
    def open_code(path: str) -> Any:
        data = data_of(path)
        if data is None:
            return original(path)
        note_compiled(path)
        return io.BytesIO(data)

    return open_code


# --- pytest's rewriting of assertions -------------------------------------------------------------


class _PatchedPath(type(Path())):  # type: ignore[misc]
    """The path of a patched file, as pytest's hook has it."""

    def read_bytes(self) -> bytes:
        """The patched text, which the hook is about to rewrite and compile."""
        data = data_of(str(self))
        note_compiled(str(self))
        return super().read_bytes() if data is None else data


def _path(*parts: Any) -> Path:
    path = Path(*parts)
    return _PatchedPath(path) if is_patched(path) else path


def _serve_rewriting(rewrite: Any) -> None:
    """Have pytest rewrite patched texts by its own means; its hook executes them as ever.

    Its functions that raise are called as ever, too: their tracebacks have no line of ours.
    """
    hook = rewrite.AssertionRewritingHook
    read_data, read_pyc, write_pyc = hook.get_data, rewrite._read_pyc, rewrite._write_pyc

    def get_data(self: Any, pathname: Any) -> Any:
        data = data_of(pathname)
        return read_data(self, pathname) if data is None else data

    def _read_pyc(source: Any, *rest: Any) -> Any:
        return None if is_patched(source) else read_pyc(source, *rest)

    def _write_pyc(state: Any, co: Any, *rest: Any) -> Any:
        return not is_patched(co.co_filename) and write_pyc(state, co, *rest)

    hook.get_data = get_data
    rewrite.Path, rewrite._read_pyc, rewrite._write_pyc = _path, _read_pyc, _write_pyc
