"""Projects for the tests that drive everything together."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

MakeProject = Callable[..., Path]


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """Write files of a small project: `make_project(test_x="…", **{"shop/cart.py": "…"})`.

    A name without a suffix is a module at the top; an empty `pytest.ini` makes it the rootdir.
    """

    def make(**files: str) -> Path:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        (root / "pytest.ini").touch()
        for name, text in files.items():
            path = root / (name if "." in name else f"{name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return root

    return make
