"""Has the interpreter compile and show patched texts in the place of the files they belong to.

No file is written. It is done where the interpreter reads source for code, and not by a finder in
`sys.meta_path`: the order there changes while pytest starts, a program may ask loaders past it
(`spec_from_file_location`, pytest's import mode `importlib`), and another loader in a module's spec
would be a difference that the program sees. So each module keeps its finder, its loader and its
spec, and import hooks of libraries still decide.

* `SourceFileLoader`, which also the loaders of typeguard, beartype and jaxtyping derive from: asked
  for the source it gives the patched text. Asked for the file's status it raises OSError, upon
  which `get_code` neither reads nor writes bytecode: this is how the library lets a loader say that
  it can't cache.
* `io.open_code`, by which `runpy.run_path`, cProfile, trace and pdb read scripts.
* pytest's rewriting of assertions, which reads files and keeps bytecode by itself.
* `linecache`, from which `inspect`, `traceback` and pytest have their lines.

A loader that reads its file in another way gets what is on disk; `missing` reports that file. So do
readers of text that is no code: `open`, coverage's reports, what C prints of an uncaught exception
on Python 3.11 and 3.12. Forked children have the patches, processes that are started have not.

Runs in the main thread of a process under test, before pytest is imported.
"""

from __future__ import annotations

import io
import linecache
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Final

from pytest_cideldill.interpreter import patched_texts
from pytest_cideldill.interpreter.patched_texts import (
    data_of,
    is_patched,
    loaded,
    missing,
    note_compiled,
    serve_lines,
)

__all__ = ["install", "loaded", "missing"]

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
    for method in (_get_data, _path_stats, _get_code):
        setattr(SourceFileLoader, method.__name__[1:], _of_importlib(method))
    library: Any = io
    library.open_code = _opener(io.open_code)
    serve_lines(linecache)
    if find_spec("pytest"):
        import pytest  # noqa: F401 - in its own order, which starting in the middle would change
        from _pytest.assertion import rewrite

        _serve_rewriting(rewrite)


# --- the loader of the standard library -----------------------------------------------------------


def _get_data(self: SourceFileLoader, path: str) -> bytes:
    data = data_of(path) if _is_patched(self, path) else None
    return super(SourceFileLoader, self).get_data(path) if data is None else data


def _path_stats(self: SourceFileLoader, path: str) -> Any:
    if _is_patched(self, path):
        raise OSError(f"{path} is patched: its code is not cached")
    return _real_path_stats(self, path)


def _get_code(self: SourceFileLoader, fullname: str) -> Any:
    code = super(SourceFileLoader, self).get_code(fullname)
    note_compiled(self.path)
    return code


_real_path_stats = SourceFileLoader.path_stats


def _is_patched(loader: SourceFileLoader, path: str) -> bool:
    return is_patched(path) and getattr(loader, "name", None) != _COMPILER


def _of_importlib(function: Any) -> FunctionType:
    """A function whose frame the interpreter removes from tracebacks, like those of importlib."""
    file = SourceFileLoader.get_filename.__code__.co_filename
    name = function.__name__[1:]
    code = function.__code__.replace(co_filename=file, co_name=name)
    return FunctionType(code, function.__globals__, name)


def _opener(original: Callable[[str], Any]) -> Callable[[str], Any]:
    def open_code(path: str) -> Any:
        data = data_of(path)
        if data is None:
            return original(path)
        note_compiled(path)
        return io.BytesIO(data)

    return open_code


# --- pytest's rewriting of assertions -------------------------------------------------------------


class _PatchedPath:
    """The path of a patched file, as far as pytest's rewriting uses it."""

    def __init__(self, path: Any, data: bytes) -> None:
        self._path = path
        self._data = data

    def __str__(self) -> str:
        return str(self._path)

    def __fspath__(self) -> str:
        return str(self._path)

    def read_bytes(self) -> bytes:
        return self._data


def _serve_rewriting(rewrite: Any) -> None:
    """Have pytest rewrite patched texts by its own means; its hook executes them as ever."""
    rewrite_test, read_pyc, write_pyc = (
        rewrite._rewrite_test,
        rewrite._read_pyc,
        rewrite._write_pyc,
    )

    def _rewrite_test(fn: Any, config: Any) -> Any:
        data = data_of(fn)
        if data is None:
            return rewrite_test(fn, config)
        made = rewrite_test(_PatchedPath(fn, data), config)
        note_compiled(fn)
        return made

    def _read_pyc(source: Any, *rest: Any) -> Any:
        return None if is_patched(source) else read_pyc(source, *rest)

    def _write_pyc(state: Any, co: Any, *rest: Any) -> Any:
        return not is_patched(co.co_filename) and write_pyc(state, co, *rest)

    for function in (_rewrite_test, _read_pyc, _write_pyc):
        setattr(rewrite, function.__name__, function)
