"""A process that compiles patched texts in the place of files shows and runs these."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import pytest_cideldill
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.questions.patches.whole_texts import patched_files, patched_start
from pytest_cideldill.project import Project
from tests.together.frontend import clean_environment
from tests.together.patched_project import FILES, PLAIN, Ran, digest, patched, run, write

pytestmark = pytest.mark.full

KINDS = (
    *re.findall(r"def (test_\w+)", FILES["test_kinds.py"]),
    "test_conftest_below",
    "plain.word",
)
MODES = ("prepend", "append", "importlib")
ASSERTS = {"rewritten": (), "plain": ("--assert=plain",), "no plugin": ("-p", "no:assertion")}
WAYS = [
    pytest.param(mode, asserts, id=f"{mode}-{asserts}")
    for mode in MODES
    for asserts in ASSERTS
    if not (mode == "append" and asserts == "no plugin")
]

Runs = Callable[[str, str], tuple[Ran, Ran]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs of the project in an import mode, with assertions: as on disk, and patched.

    The first one leaves bytecode of all files; the second one has to leave the whole tree as it is.
    """

    @cache
    def ran(mode: str, asserts: str) -> tuple[Ran, Ran]:
        root = tmp_path_factory.mktemp("project")
        write(root)
        arguments = (f"--import-mode={mode}", *ASSERTS[asserts], "--doctest-modules")
        arguments = (*arguments, "-p", "no:cacheprovider", "plain.py", "own", "test_kinds.py")
        arguments = (*arguments, "test_failing.py")
        on_disk = run(root, None, *arguments)
        before = digest(root)
        with_patches = run(root, patched(root), *arguments)
        assert digest(root) == before
        assert any(name.endswith(".pyc") for name in before)
        return on_disk, with_patches

    return ran


def outcome(ran: Ran, name: str) -> str:
    found = {value for key, value in ran.outcomes.items() if key.rpartition("::")[2] == name}
    assert len(found) == 1, (name, ran)
    return found.pop()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_file_is_compiled_from_its_patched_text(runs: Runs, kind: str) -> None:
    """pytest's defaults: prepended folders, rewritten assertions."""
    on_disk, with_patches = runs("prepend", "rewritten")
    assert (outcome(on_disk, kind), outcome(with_patches, kind)) == ("failed", "passed")


@pytest.mark.sample("importlib-rewritten", "append-plain", "prepend-no plugin")
@pytest.mark.parametrize(("mode", "asserts"), WAYS)
def test_each_kind_is_patched_however_pytest_imports_it(
    runs: Runs, mode: str, asserts: str
) -> None:
    on_disk, with_patches = runs(mode, asserts)
    outcomes = {kind: (outcome(on_disk, kind), outcome(with_patches, kind)) for kind in KINDS}
    assert set(outcomes.values()) == {("failed", "passed")}, outcomes


@pytest.mark.sample("prepend-rewritten", "append-plain", "importlib-no plugin")
@pytest.mark.parametrize(("mode", "asserts"), WAYS)
def test_pytest_shows_the_patched_text_and_values(runs: Runs, mode: str, asserts: str) -> None:
    out = runs(mode, asserts)[1].out
    assert '>       raise ValueError(WORD)  # "patched"' in out
    assert "plain.py:12: ValueError" in out
    assert '>       assert plain.word() == WORD.upper()  # "patched"' in out
    assert '"disk"' not in out
    is_rewritten = asserts == "rewritten"
    assert ("AssertionError: assert 'patched' == 'PATCHED'" in out) is is_rewritten
    assert ("shown by patched" in out) is is_rewritten


def test_no_bytecode_is_written_for_a_patched_file(tmp_path: Path) -> None:
    root = tmp_path / "project"
    write(root)
    texts = patched(root, "plain.py", "test_kinds.py", "package/__init__.py")
    run(root, texts, "-p", "no:cacheprovider", "test_kinds.py")
    kept = {path.name.partition(".")[0] for path in root.rglob("*.pyc")}
    assert {"importer", "conftest", "module"} <= kept
    assert kept.isdisjoint({"plain", "test_kinds", "__init__"})


def test_bytecode_that_the_program_writes_itself_is_of_the_file(tmp_path: Path) -> None:
    """`py_compile` makes what other processes run."""
    root = tmp_path / "project"
    text = "import py_compile\ndef test_it():\n    py_compile.compile('plain.py', 'kept.pyc')\n"
    write(root, {"plain.py": 'WORD = "disk"\n', "test_it.py": text})
    assert run(root, patched(root, "plain.py")).outcomes == {"test_it.py::test_it": "passed"}
    data = (root / "kept.pyc").read_bytes()
    assert b"disk" in data
    assert b"patched" not in data


@pytest.mark.parametrize("library", ["iniconfig", "pluggy", "_pytest", "pytest"])
def test_libraries_that_pytest_imports_can_be_patched(tmp_path: Path, library: str) -> None:
    spec = importlib.util.find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin)
    text = file.read_text(encoding="utf-8") + "\nPATCHED = __name__\n"
    test = f"import {library}\ndef test_it(): assert {library}.PATCHED == {library!r}\n"
    write(tmp_path / "project", {"test_it.py": test})
    before = digest(file.parent)
    ran = run(tmp_path / "project", {file: text})
    assert ran.outcomes == {"test_it.py::test_it": "passed"}, ran
    assert digest(file.parent) == before


def test_what_a_client_sends_is_what_runs(tmp_path: Path) -> None:
    """From an edit and a diff to outcomes; the diff was made of a text that has moved since."""
    root = tmp_path / "project"
    test = "import plain, latin\ndef test_it(): assert (plain.word(), latin.WORD) == ('new', 1)\n"
    write(root, {"plain.py": PLAIN, "latin.py": FILES["latin.py"], "test_it.py": test})
    before = digest(root)
    edits = [{"file": "plain.py", "old": 'WORD = "disk"', "new": 'WORD = "new"'}]
    diff = '--- a/latin.py\n+++ b/latin.py\n@@ -8 +8 @@\n-WORD = "disk"\n+WORD = 1\n'
    files = patched_files(Project(str(root)), edits, diff)
    recipe = Recipe([sys.executable, "-B", "-m", "pytest"], ["-q", "-p", "no:cacheprovider"])
    recipe, variables = patched_start(recipe, files, str(tmp_path))
    done = subprocess.run(
        recipe.command_line([]),
        cwd=root,
        env=clean_environment(**variables),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert (done.returncode, done.stdout.splitlines()[-1][:8]) == (0, "1 passed"), done
    assert digest(root) == before


def test_a_link_to_a_patched_file_and_a_relative_path_lead_to_the_text(tmp_path: Path) -> None:
    root = tmp_path / "project"
    test = """
        import linecache, sys
        sys.path.insert(0, "linked")
        import plain, other_name
        def test_it():
            assert (plain.WORD, other_name.WORD) == ("patched", "patched")
            assert linecache.getline("real/plain.py", 2) == 'WORD = "patched"' + chr(10)
    """
    write(root, {"test_it.py": test, "real/plain.py": 'WORD = "disk"\n'})
    (root / "linked").symlink_to(root / "real")
    (root / "real" / "other_name.py").symlink_to(root / "real" / "plain.py")
    assert run(root, patched(root, "real/plain.py")).outcomes == {"test_it.py::test_it": "passed"}


def test_a_patch_of_which_no_code_was_made_is_missing(tmp_path: Path) -> None:
    """A file that was only read, as data, has not been compiled either."""
    root = tmp_path / "project"
    test = "import pkgutil, plain\ndef test_it(): pkgutil.get_data('package', 'module.py')\n"
    names = ("plain.py", "conftest.py", "package/__init__.py", "package/module.py", "lazy.py")
    write(root, {**{name: FILES[name] for name in names}, "test_it.py": test, "seen": ""})
    run(root, patched(root, *names))
    seen = json.loads((root / "seen").read_text(encoding="utf-8"))
    files = {
        kind: {Path(each).relative_to(root).as_posix() for each in seen[kind]} for kind in seen
    }
    assert files["missing"] == {"package/module.py", "lazy.py"}
    assert files["loaded"] == {"plain.py", "conftest.py", "package/__init__.py"}


def test_processes_that_tests_start_run_the_files_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / "project"
    test = """
        import os, subprocess, sys, plain
        def test_it():
            assert plain.WORD == "patched" and "CIDELDILL_PATCHES" not in os.environ
            command = [sys.executable, "-c", "import plain; print(plain.WORD)"]
            assert subprocess.check_output(command, text=True).strip() == "di" + "sk"
    """
    write(root, {"plain.py": 'WORD = "disk"\n', "test_it.py": test})
    assert run(root, patched(root, "plain.py")).outcomes == {"test_it.py::test_it": "passed"}


def test_a_recorded_run_shows_the_patched_text(tmp_path: Path) -> None:
    """Our own reports find the text of code past what tests patch."""
    root = tmp_path / "project"
    write(root)
    record = tmp_path / "record"
    run(root, patched(root), f"--cideldill-record={record}", "test_failing.py")
    kept = b"".join(path.read_bytes() for path in record.rglob("*.jsonl"))
    assert rb"raise ValueError(WORD)  # \"patched\"" in kept
    assert rb"\"disk\"" not in kept


# --- as with `-m pytest` --------------------------------------------------------------------------

LOOKS = """
    import builtins, importlib, io, json, os, pathlib, runpy, sys, traceback

    def broken(name):
        try:
            importlib.import_module(name)
        except BaseException:
            return traceback.format_exc()

    def shown(value):
        return repr(value).partition(" at 0x")[0]

    def absent():
        try:
            runpy.run_path("absent.py")
        except OSError as error:
            return str(error)

    def test_it():
        main = sys.modules["__main__"]
        kept = {
            "argv": sys.argv,
            "orig_argv": sys.orig_argv,
            "path": sys.path,
            "meta_path": list(map(shown, sys.meta_path)),
            "main": {key: shown(value) for key, value in vars(main).items() if key[:2] == "__"},
            "names of main": sorted(vars(main)),
            "modules": sorted(name for name in sys.modules if "pytest_cideldill" not in name),
            "environment": sorted(os.environ),
            "warnoptions": sys.warnoptions,
            "broken": [broken(name) for name in ("malformed", "raising", "importing", "no_such")],
            "absent": absent(),
        }
        pathlib.Path("looks.json").write_text(json.dumps(kept))
"""

BROKEN = {
    "malformed.py": "def f(:\n",
    "raising.py": "1 / 0\n",
    "importing.py": "import no_such\n",
    "test_malformed.py": "def f(:\n",
    "test_importing.py": "import malformed\n",
    "test_looks.py": LOOKS,
    "plain.py": 'WORD = "disk"\n',
}


SCRIPT = """\
import sys
from pytest import main as run

if __name__ == '__main__':
    sys.exit(run())
"""


@pytest.mark.parametrize(
    ("start", "variable"),
    [
        pytest.param(("-m", "pytest"), None, id="the module"),
        pytest.param(("-m", "runner"), "-m runner", id="another module"),
        pytest.param(("../bin/run",), "../bin/run", id="a script"),
        pytest.param(("-P", "../bin/run"), "../bin/run", id="a script, safely"),
    ],
)
def test_a_test_sees_what_it_sees_with_pytest_itself(
    tmp_path: Path, start: tuple[str, ...], variable: str | None
) -> None:
    root = tmp_path / "project"
    write(root, {**BROKEN, "runner.py": SCRIPT})
    write(tmp_path, {"bin/run": SCRIPT})
    where = {"PYTHONPATH": str(root)}
    seen = []
    for is_patched in (False, True):
        if is_patched:
            flags = start[: start.index("-m")] if "-m" in start else start[:-1]
            start = (*flags, "-m", "pytest_cideldill.experiments")
            where |= {"CIDELDILL_START": variable} if variable else {}
        texts = patched(root, "plain.py") if is_patched else None
        run(root, texts, "-p", "no:cacheprovider", "test_looks.py", start=start, **where)
        seen.append(json.loads((root / "looks.json").read_text(encoding="utf-8")))
        (root / "looks.json").unlink()
    for key, value in seen[0].items():
        assert seen[1][key] == value, key


@pytest.mark.sample("", "--version", "-k nothing")
@pytest.mark.parametrize(
    "arguments",
    [("--no-such-option",), ("no_such_file.py",), ("-k", "nothing"), ("--version",), ()],
    ids=" ".join,
)
def test_output_and_exit_status_are_those_of_pytest_itself(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    root = tmp_path / "project"
    write(root, BROKEN)
    given = ("-p", "no:cacheprovider", *arguments)
    ordinary = run(root, None, *given, start=("-m", "pytest"))
    ours = run(root, patched(root, "plain.py"), *given)
    without_times = [re.sub(r"in [0-9.]+s", "", each.out) for each in (ordinary, ours)]
    assert without_times[0] == without_times[1]
    usage = [each.err.replace("__main__.py", "pytest") for each in (ordinary, ours)]
    assert (ordinary.status, usage[0]) == (ours.status, usage[1])


def test_pytest_does_not_warn_that_the_installed_package_was_imported_early(tmp_path: Path) -> None:
    """Of our editable installation it does not know the files; of an ordinary one it does."""
    root = tmp_path / "project"
    write(root, {"plain.py": 'WORD = "disk"\n', "test_it.py": "def test_it(): pass\n"})
    installed = {
        "plug.py": "",
        "plug-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: plug\nVersion: 1\n",
        "plug-1.dist-info/RECORD": "plug.py,,\npytest_cideldill/__init__.py,,\n",
        "plug-1.dist-info/entry_points.txt": "[pytest11]\nplug = plug\n",
    }
    write(tmp_path / "site", installed)
    package = Path(pytest_cideldill.__file__).parent
    (tmp_path / "site" / "pytest_cideldill").symlink_to(package)
    ran = run(root, patched(root, "plain.py"), PYTHONPATH=str(tmp_path / "site"))
    assert ran.outcomes == {"test_it.py::test_it": "passed"}, ran


@pytest.mark.sample("", "{*")
@pytest.mark.parametrize(
    "text", ["", "[", '{"file": 1}', '[{"file": "plain.py"}]', '[{"file": "p.py", "text": 1}]']
)
def test_patches_that_cant_be_read_are_a_usage_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "patches.json").write_text(text, encoding="utf-8")
    write(tmp_path / "project", {"test_it.py": "def test_it(): pass\n"})
    ran = run(tmp_path / "project", None, CIDELDILL_PATCHES=str(tmp_path / "patches.json"))
    assert (ran.status, ran.out) == (4, "")
    assert ran.err.startswith(f"pytest-cideldill: CIDELDILL_PATCHES={tmp_path}")
