"""Which code is user code, and how paths are shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import pytest_cideldill
from pytest_cideldill.project import Project
from tests.each_case import for_each

OURS = str(Path(pytest_cideldill.__file__).parent / "manager.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


def file(root: Path, name: str) -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


@for_each(
    ("name", "is_user"),
    [
        ("test_cart.py", True),
        ("src/shop/cart.py", True),
        ("lib/python/site.py", True),
        ("site-packages.py", True),
        ("venv/notes.py", True),  # a folder of that name that is no environment
        (".tox/py312/lib/python3.12/site-packages/shop/cart.py", False),
        ("vendor/site-packages/six.py", False),
        (".venv/lib/python3.12/abc.py", False),
        ("envs/ci/bin/tool.py", False),
    ],
)
def test_user_code_is_under_the_rootdir_and_in_no_environment(
    root: Path, name: str, is_user: bool
) -> None:
    """Without site-packages and virtual environments inside the rootdir."""
    file(root, ".venv/pyvenv.cfg")
    file(root, "envs/ci/pyvenv.cfg")
    path = file(root, name)
    project = Project(str(root))
    assert project.is_user(path) is is_user
    assert project.is_user(path) is is_user  # and so says the cache
    assert project.relative(path) == name


def test_code_elsewhere_is_not_the_user_s(root: Path) -> None:
    """Told with its absolute path; a sibling with the same beginning is elsewhere too."""
    project = Project(str(root))
    sibling = file(root.parent, "project2/cart.py")
    for path in (os.__file__, pytest.__file__, sibling):
        assert not project.is_user(path)
        assert project.relative(path) == os.path.realpath(path)


@pytest.mark.parametrize("name", ["<string>", "<frozen importlib._bootstrap>", "<doctest x[0]>"])
def test_code_without_a_file_is_nobody_s(root: Path, name: str) -> None:
    """Its name is told as it is; it is never looked for on disk."""
    project = Project(str(root))
    assert not project.is_user(name)
    assert not project.is_ours(name)
    assert project.relative(name) == name


def test_our_own_code_is_ours_wherever_the_rootdir_is() -> None:
    """This project's own tests run with its rootdir above the plugin."""
    project = Project(str(Path(OURS).parent.parent))
    assert project.is_ours(OURS)
    assert not project.is_user(OURS)
    assert project.is_user(__file__)
    assert not project.is_ours(__file__)


def test_a_rootdir_that_is_itself_an_environment_is_user_code(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m venv .` in the project's folder: everything is below an environment then."""
    file(root, "pyvenv.cfg")
    monkeypatch.setattr(sys, "prefix", str(root))
    monkeypatch.setattr(sys, "exec_prefix", str(root))
    project = Project(str(root))
    assert project.is_user(file(root, "shop/cart.py"))
    assert not project.is_user(file(root, "lib/python3.12/site-packages/six.py"))


def test_a_rootdir_below_the_interpreter_s_prefix_is_user_code(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/usr/src/app` with a Python installed in `/usr`, as in many container images."""
    monkeypatch.setattr(sys, "prefix", str(root.parent))
    monkeypatch.setattr(sys, "exec_prefix", str(root.parent))
    assert Project(str(root)).is_user(file(root, "shop/cart.py"))


def test_the_running_environment_inside_the_rootdir_is_not_user_code(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one without `pyvenv.cfg` (conda)."""
    monkeypatch.setattr(sys, "prefix", str(root / "env"))
    project = Project(str(root))
    assert not project.is_user(file(root, "env/lib/tool.py"))
    assert project.is_user(file(root, "environment/tool.py"))


def test_symbolic_links_are_followed(root: Path) -> None:
    """One file is one file: a rootdir reached through a link, a package linked into it."""
    real = file(root, "shop/cart.py")
    (root.parent / "link").symlink_to(root)
    (root / "alias").symlink_to(root / "shop")
    (root / "outside").symlink_to(Path(os.__file__).parent)
    for project in (Project(str(root)), Project(str(root.parent / "link"))):
        for spelled in (real, str(root.parent / "link/shop/cart.py"), str(root / "alias/cart.py")):
            assert project.is_user(spelled)
            assert project.relative(spelled) == "shop/cart.py"
        assert not project.is_user(str(root / "outside/os.py"))


def test_a_relative_name_keeps_its_meaning_when_the_directory_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` from the rootdir may leave relative names in code objects; tests chdir."""
    file(root, "shop/cart.py")
    monkeypatch.chdir(root)
    project = Project(str(root))
    assert project.is_user("shop/cart.py")
    monkeypatch.chdir(root.parent)
    assert project.is_user("shop/cart.py")
    assert project.relative("shop/cart.py") == "shop/cart.py"


def test_the_root_of_the_file_system_may_be_the_rootdir() -> None:
    """pytest chooses `/` when the arguments have nothing else in common."""
    project = Project("/")
    assert project.relative("/opt/x.py") == "opt/x.py"
    assert project.is_user("/nowhere/x.py")


def test_further_paths_are_user_code_wherever_they_lie(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ini option `cideldill_user_paths`: also inside of an environment; told absolutely."""
    package = file(root.parent, "env/lib/site-packages/shop/cart.py")
    file(root.parent, "env/pyvenv.cfg")
    monkeypatch.setattr(sys, "prefix", str(root.parent / "env"))
    single, beside = file(root.parent, "tools/one.py"), file(root.parent, "tools/two.py")
    project = Project(str(root), ["../env/lib/site-packages/shop", single, "src"])
    assert project.is_user(package)
    assert project.relative(package) == package
    assert not project.is_user(file(root.parent, "env/lib/site-packages/six.py"))
    assert project.is_user(single)
    assert not project.is_user(beside)
    below = root.parent / "env/lib/site-packages/shop/.venv"
    file(below, "pyvenv.cfg")
    assert not project.is_user(file(below, "lib/tool.py"))


@pytest.mark.parametrize("elsewhere", ["/srv/checkout", "/srv/checkout/", "C:\\checkout"])
def test_paths_of_another_machine_are_found_from_the_rootdir_here(
    root: Path, elsewhere: str
) -> None:
    """A worker may have another rootdir."""
    ours = Project(str(root), elsewhere=elsewhere)
    separator = "\\" if "\\" in elsewhere else "/"
    reported = elsewhere.rstrip("/") + separator + "shop.py"
    assert ours.here(reported) == file(root, "shop.py")
    for other in ("/srv/checkout2/shop.py", "/elsewhere/shop.py", "shop.py"):
        assert ours.here(other) == other
    assert Project(str(root)).here(file(root, "shop.py")) == file(root, "shop.py")


def test_the_copy_of_pytest_that_xdist_brings_along_is_not_user_code(root: Path) -> None:
    """xdist copies it into the folder of a worker that has its own."""
    ours = Project(str(root), foreign=[str(root / "_pytest")])
    assert not ours.is_user(file(root, "_pytest/python.py"))
    assert ours.is_user(file(root, "_pytest_helper.py"))


def test_what_a_link_leads_to_is_the_user_s_by_the_name_of_the_link(root: Path) -> None:
    """A folder or a file outside, linked below the rootdir; not what is installed."""
    package = file(root.parent, "store/shop/cart.py")
    alone = file(root.parent, "store/alone.py")
    foreign = file(root.parent, "env/site-packages/six/core.py")
    (root / "src").mkdir()
    (root / "src" / "shop").symlink_to("../../store/shop")
    (root / "alone.py").symlink_to(alone)
    (root / "six").symlink_to(Path(foreign).parent)
    (root.parent / "link").symlink_to(root)
    for start in (root, root.parent / "link"):
        project = Project(str(start))
        for name in ("src/shop/cart.py", "alone.py"):
            assert project.is_user(str(start / name))
            assert project.relative(str(start / name)) == name
        assert not project.is_user(str(start / "six" / "core.py"))
    project = Project(str(root))
    assert not project.is_user(package)
    assert project.relative(package) == package
    # A client calls it by its name below the rootdir.
    assert project.here(str(root / "src/shop/cart.py")) == package
    assert project.relative(package) == "src/shop/cart.py"


def test_code_beside_the_rootdir_is_shown_how_to_become_the_user_s(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the folder where the process was started; no libraries, nothing that is hidden."""
    monkeypatch.chdir(root)
    code, tests = file(root, "app/cart.py"), file(root, "tests/test_cart.py")
    others = [file(root, ".venv/lib.py"), file(root, "env/site-packages/six.py"), os.__file__]
    project = Project(str(root / "tests"))
    hint = (
        f"beside the rootdir: cideldill_user_paths = {os.path.join('..', 'app')} makes it user code"
    )
    assert project.beside(code) == hint
    assert not any(map(project.beside, [tests, OURS, "<string>", *others]))
    assert Project(str(root / "tests"), ["../app"]).beside(code) is None
    assert Project(str(root)).beside(code) is None
    assert project.found("app/cart.py") == code
    assert project.found("test_cart.py") == project.found("tests/test_cart.py") == tests
    assert project.found("cart.py") is None
