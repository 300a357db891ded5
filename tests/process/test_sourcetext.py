"""Which file, line and text code is from, when it does not say so itself."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from pytest_cideldill.interpreter.code_files import file_now, frame_file
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering import source_text
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.source_text import EDITED

HERE = "import sys\n\n\ndef here(depth=0):\n    return sys._getframe(depth)  # told\n"
REPORTED = "return sys._getframe(depth)  # told"
LINE = 5


def lens_of(root: Path) -> Lens:
    return Lens(Project(str(root)), Redactor())


def run(text: str, file: str, **names: Any) -> FrameType:
    """The frame of a call of `here` in a text that is compiled under a name."""
    held: dict[str, Any] = names
    exec(compile(text, file, "exec"), held)
    frame = held["here"]()
    assert isinstance(frame, FrameType)
    return frame


def reported(lens: Lens, frame: FrameType, line: int = LINE) -> tuple[object, ...]:
    place = lens.place(frame, line)
    return place["file"], place["line"], lens.source(frame, line)["source"]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`there.py`, with `here` in it, imported."""
    (tmp_path / "there.py").write_text(HERE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("there")
    del sys.modules["there"]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_kept", [False, True])
def test_code_of_moved_caches_is_of_the_file_of_its_module(
    tmp_path: Path, *, is_kept: bool
) -> None:
    """The name in it is that of a file that is gone, or that is another one by now."""
    old, new = tmp_path / "old" / "test_it.py", tmp_path / "new" / "test_it.py"
    for file in (old, new):
        file.parent.mkdir()
        file.write_text(HERE, encoding="utf-8")
    old.write_text("other = 1\n", encoding="utf-8") if is_kept else old.unlink()
    frame = run(HERE, str(old), __file__=str(new))
    assert file_now(str(old)) in (str(old), str(new))
    assert frame_file(frame) == file_now(str(old)) == str(new)
    lens = lens_of(tmp_path / "new")
    assert reported(lens, frame) == ("test_it.py", LINE, REPORTED)
    assert lens.project.has(frame)


def test_code_that_a_module_runs_of_another_file_is_of_that_file(tmp_path: Path) -> None:
    """Settings that are put together of files with the same name, for example."""
    base, local = tmp_path / "base" / "settings.py", tmp_path / "local" / "settings.py"
    for file in (base, local):
        file.parent.mkdir()
        file.write_text("\n\n\n\n\n", encoding="utf-8")
    base.write_text(HERE, encoding="utf-8")
    assert frame_file(run(HERE, str(base), __file__=str(local))) == str(base)
    assert frame_file(run(HERE, "<string>", __file__=str(local))) == "<string>"


def test_relative_names_begin_where_the_process_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when they are seen for the first time after the program went elsewhere."""
    (tmp_path / "there.py").write_text(HERE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    project = Project(str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert project.is_user("there.py")
    assert project.relative("./there.py") == "there.py"


# --- texts that changed ---------------------------------------------------------------------------


def test_a_line_that_moved_is_shown_as_it_is_in_the_code_and_where_it_is_now(
    tmp_path: Path, module: ModuleType
) -> None:
    frame, lens = module.here(), lens_of(tmp_path)
    assert lens.source(frame, LINE) == {"source": REPORTED}
    (tmp_path / "there.py").write_text("# 1\n# 2\n" + HERE, encoding="utf-8")
    note = f"{EDITED}; this is line {LINE + 2} now"
    for each in (lens, lens_of(tmp_path)):  # who has seen the old text, and who has not
        assert reported(each, frame) == ("there.py", LINE, REPORTED)
        assert each.source(frame, LINE)["note"] == note


def test_a_function_that_was_edited_has_its_old_text_or_none(
    tmp_path: Path, module: ModuleType
) -> None:
    frame, lens = module.here(), lens_of(tmp_path)
    assert reported(lens, frame) == ("there.py", LINE, REPORTED)
    (tmp_path / "there.py").write_text(HERE.replace("(depth)", "( depth)"), encoding="utf-8")
    assert lens.source(frame, LINE) == {"source": REPORTED, "note": EDITED}
    assert lens_of(tmp_path).source(frame, LINE) == {"source": "", "note": EDITED}


def test_after_a_reload_each_function_has_the_text_that_it_was_made_of(
    tmp_path: Path, module: ModuleType
) -> None:
    old, lens = module.here(), lens_of(tmp_path)
    assert reported(lens, old)[2] == REPORTED
    text = HERE.replace("told", "anew")
    text = text.replace("depth=0", "depth=0, *more").replace("(depth)", "(int(depth))")
    (tmp_path / "there.py").write_text(text, encoding="utf-8")
    importlib.reload(module)
    assert lens.source(module.here(), LINE) == {
        "source": "return sys._getframe(int(depth))  # anew"
    }
    assert lens.source(old, LINE) == {"source": REPORTED, "note": EDITED}


def test_a_file_that_was_only_touched_is_as_it_was(tmp_path: Path, module: ModuleType) -> None:
    lens = lens_of(tmp_path)
    os.utime(tmp_path / "there.py")
    assert lens.source(module.here(), LINE) == {"source": REPORTED}


# --- what is no Python ----------------------------------------------------------------------------


def page(tmp_path: Path, name: str = "page.html") -> str:
    (tmp_path / name).write_text("<p>\n{{ price }}\n<b>\n</b>\n</p>\n", encoding="utf-8")
    return str(tmp_path / name)


def test_code_of_a_template_has_the_line_that_its_table_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"__jinja_template__": object(), "debug_info": "1=2&2=5&4=9"}
    frame = run(HERE, page(tmp_path), **names)
    assert reported(lens_of(tmp_path), frame, 7) == ("page.html", 2, "")  # it may be another by now
    monkeypatch.setattr(source_text, "_STARTED", source_text._STARTED + 10**15)
    assert reported(lens_of(tmp_path), frame, 7) == ("page.html", 2, "{{ price }}")
    assert reported(lens_of(tmp_path), frame, 1) == ("page.html", 1, "<p>")


def test_code_that_has_another_text_than_its_file_has_no_line_of_that(tmp_path: Path) -> None:
    lens = lens_of(tmp_path)
    for name in ("page.html", "notebook.ipynb", "rules"):
        frame = run(HERE, page(tmp_path, name))
        assert reported(lens, frame) == (f"<compiled from {name}>", LINE, "")
    mako = {"_template_filename": page(tmp_path), "_template_uri": "page.html"}
    frame = run(HERE, "page_html", **mako)
    assert reported(lens, frame) == ("<compiled from page.html>", LINE, "")


def test_languages_that_are_imported_and_scripts_have_their_lines(tmp_path: Path) -> None:
    lens = lens_of(tmp_path)
    (tmp_path / "script").write_text(HERE, encoding="utf-8")
    assert reported(lens, run(HERE, str(tmp_path / "script"))) == ("script", LINE, REPORTED)
    file = page(tmp_path, "page.hy")
    spec = importlib.util.spec_from_file_location("page", file, loader=object())  # type: ignore[arg-type]
    assert reported(lens, run(HERE, file, __spec__=spec)) == ("page.hy", LINE, "</p>")
    assert reported(lens, run(HERE, file, __jinja_exception__=1)) == ("page.hy", LINE, "</p>")


def test_code_without_a_file_has_the_text_that_the_program_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import linecache

    lines = HERE.splitlines(keepends=True)
    for name in ("<ipython-input-1-2>", "<doctest it[0]>", str(tmp_path / "123.py")):
        monkeypatch.setitem(linecache.cache, name, (1, None, lines, name))
        assert lens_of(tmp_path).source(run(HERE, name), LINE) == {"source": REPORTED}


def test_what_can_t_be_compared_is_reported_without_a_text(
    tmp_path: Path, module: ModuleType
) -> None:
    """Of a module that pytest has rewritten, where it can't be asked to do that again."""

    def rewrite(tree: object, source: bytes) -> None:
        raise source_text.CannotRewrite

    vars(module)["@pytest_ar"] = None
    frame = module.here()
    for texts in (source_text.Texts(), source_text.Texts(rewrite)):
        lens = Lens(Project(str(tmp_path)), Redactor(), texts=texts)
        assert lens.source(frame, LINE) == {"source": ""}
    texts = source_text.Texts(lambda _tree, _source: None)
    lens = Lens(Project(str(tmp_path)), Redactor(), texts=texts)
    assert lens.source(frame, LINE) == {"source": REPORTED}
