"""Projects for the tests that drive everything together."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.together.frontend import states
from tests.together.workbench import SECRET, Bench, workbench

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


@pytest.fixture(scope="session")
def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One front end for many tests, since its start takes as long as three of them."""
    env = SECRET | {"XDG_STATE_HOME": states()}
    with workbench(tmp_path_factory.mktemp("bench") / "project", env=env) as bench:
        yield bench


@pytest.fixture
def bench(shared_bench: Bench) -> Iterator[Bench]:
    """The shared bench, cleared afterwards."""
    yield shared_bench
    shared_bench.clear()
