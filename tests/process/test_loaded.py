"""Which files this process has loaded code of."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from pytest_cideldill.pauses.queries import is_loaded
from pytest_cideldill.project import Project

ROOT = Path(__file__).resolve().parent


def real(path: str) -> str:
    return str(Path(path).resolve())


def test_modules_and_calls_that_are_not_over_count(tmp_path: Path) -> None:
    """Code that belongs to no module has its file in its frames."""
    project, file = Project(str(ROOT)), tmp_path / "page.html"
    assert is_loaded(real(json.__file__), project)
    assert is_loaded(real(__file__), project)
    assert not is_loaded(str(file), project)
    assert not is_loaded(str(Path(json.__file__).with_name("tool_of_mine.py")), project)
    names: dict[str, object] = {"look": lambda: is_loaded(str(file), project)}
    exec(compile("seen = look()", str(file), "exec"), names)
    assert names["seen"] is True
    assert not is_loaded(str(file), project)


def test_a_link_to_a_file_counts_as_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real.py").touch()
    (tmp_path / "link.py").symlink_to("real.py")
    module = types.ModuleType("linked")
    module.__file__ = str(tmp_path / "link.py")
    monkeypatch.setitem(sys.modules, "linked", module)
    project = Project(str(ROOT))
    assert is_loaded(real(str(tmp_path / "real.py")), project)
    assert not is_loaded(str(tmp_path / "link.py"), project)


def test_nothing_of_a_module_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in `sys.modules` may be anything, and answer as it likes."""

    class Loud(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    class Nothing:
        __class__ = property(lambda _: 1 / 0)

    bare = types.ModuleType.__new__(types.ModuleType)
    for number, each in enumerate((Loud("loud"), Nothing(), bare, None, 3)):
        monkeypatch.setitem(sys.modules, f"odd{number}", each)
    assert not is_loaded("/nowhere", Project(str(ROOT)))
