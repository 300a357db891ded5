"""The texts of patched files, in the forms in which they are read."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import tokenize
from pathlib import Path
from types import ModuleType

import pytest

from pytest_cideldill.interpreter import patched_texts
from tests.each_case import for_each


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patched_texts, "_texts", {})
    monkeypatch.setattr(patched_texts, "_real", {})


def a_copy_of_linecache() -> ModuleType:
    spec = importlib.util.find_spec("linecache")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TEXTS = {
    "plain": ("a = 1\n", b"a = 1\n"),
    "no line feed at the end": ("a = 1", b"a = 1"),
    "CRLF": ("a = 1\r\nb = 2\r\n", b"a = 1\r\nb = 2\r\n"),
    "CR": ("a = 1\rb = 2", b"a = 1\rb = 2"),
    "form feed": ("a = 1\n\x0cb = '\x0b'\n", b"a = 1\n\x0cb = '\x0b'\n"),
    "byte order mark": ("\ufeffa = 1\n", b"\xef\xbb\xbfa = 1\n"),
    "beyond ASCII": ("a = '\xe4\u2028'\n", "a = '\xe4\u2028'\n".encode()),
    "cookie": ("# coding: latin-1\na = '\xe4'\n", b"# coding: latin-1\na = '\xe4'\n"),
    "cookie of UTF-8": ("# coding: utf8\na = '\xe4'\n", "# coding: utf8\na = '\xe4'\n".encode()),
    "empty": ("", b""),
}


@pytest.mark.parametrize(("text", "data"), TEXTS.values(), ids=TEXTS)
def test_a_text_has_the_bytes_and_lines_of_a_file_with_it(
    tmp_path: Path, text: str, data: bytes
) -> None:
    """Lines are compared with those that a `linecache` of Python reads from such a file."""
    file = tmp_path / "it.py"
    file.write_bytes(data)
    patched_texts.add({str(file): text})
    assert patched_texts.data_of(str(file)) == data
    with tokenize.open(file) as stream:
        assert "".join(stream).removesuffix("\n") == "".join(
            patched_texts.lines_of(str(file)) or []
        ).removesuffix("\n")
    if text:
        assert patched_texts.lines_of(str(file)) == linecache.getlines(str(file))


@for_each("text", ["# coding: latin-1\n'\u20ac'\n", "# coding: no-such\n", "'\ud800'\n"])
def test_a_text_that_cant_be_encoded_as_it_declares_is_refused(text: str) -> None:
    with pytest.raises((SyntaxError, LookupError, UnicodeError)):
        patched_texts.add({"/it.py": text})


def test_a_file_is_known_by_each_of_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it.py").write_text("", encoding="utf-8")
    (tmp_path / "link.py").symlink_to("it.py")
    monkeypatch.chdir(tmp_path)
    patched_texts.add({str(tmp_path / "link.py"): "a\n"})
    for name in ("it.py", "./it.py", "link.py", str(tmp_path / "it.py"), tmp_path / "link.py"):
        assert patched_texts.data_of(name) == b"a\n"
    for other in ("other.py", "<string>", "", "\0", None, 1, b"it.py"):
        assert not patched_texts.is_patched(other)


def test_lines_stay_in_a_linecache_that_is_checked_and_cleared(tmp_path: Path) -> None:
    file = str(tmp_path / "it.py")
    Path(file).write_text("disk\n", encoding="utf-8")
    (tmp_path / "other.py").write_text("other\n", encoding="utf-8")
    patched_texts.add({file: "patched\n"})
    copy = a_copy_of_linecache()
    patched_texts.serve_lines(copy)
    assert copy.getline(file, 1) == "patched\n"
    copy.checkcache()
    assert copy.getline(file, 1) == "patched\n"
    copy.clearcache()
    assert copy.getline(file, 1) == "patched\n"
    copy.getlines(file).append("changed by the program\n")
    copy.clearcache()
    assert copy.getlines(file) == ["patched\n"]
    assert copy.getline(str(tmp_path / "other.py"), 1) == "other\n"


def test_nothing_is_replaced_where_nothing_is_patched() -> None:
    copy = a_copy_of_linecache()
    before = copy.updatecache
    patched_texts.serve_lines(copy)
    assert copy.updatecache is before
    assert not patched_texts.is_patched(sys.modules[__name__].__file__)


def test_files_are_missing_until_code_is_made_of_their_texts(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("b.py", "a.py")]
    patched_texts.add(dict.fromkeys(files, ""))
    patched_texts.data_of(files[0])
    assert (patched_texts.loaded(), patched_texts.missing()) == ([], files)
    patched_texts.note_compiled(files[1])
    assert (patched_texts.loaded(), patched_texts.missing()) == ([files[1]], [files[0]])
