"""House rules that no linter checks: sizes, docstrings, sleeping tests, leftovers in text files."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "pytest_cideldill", ROOT / "mcp_server" / "cideldill_mcp")
FILE_LINES = 600
FUNCTION_LINES = 60
PARAMETERS = 6

# Spelled in pieces, so that this file obeys the rules it checks.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:root|work|home|Users)" + r"/\w")
MAY_SLEEP = re.compile(r"\btime\s*\.\s*sleep\b|\bfrom\s+time\s+import\b")
LEFTOVER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")


@functools.cache
def modules() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
    }


@functools.cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(parsed(source)))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Half a million nodes, which tests of other files would look through, are gone afterwards."""
    yield
    for each in (modules, parsed, nodes):
        each.cache_clear()


def text_files() -> Iterator[tuple[str, str]]:
    for path in project_files():
        try:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # binary, or deleted and not yet committed


def project_files() -> list[Path]:
    """Tracked files; outside a repository (a source distribution) all that are not hidden."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "-C", str(ROOT), "ls-files", "-z"]
        listing = subprocess.run(command, capture_output=True, check=False)
        if listing.returncode == 0:  # not so when the checkout belongs to another user
            return [ROOT / name for name in listing.stdout.decode("utf-8").split("\0") if name]
    return sorted(path for path in ROOT.rglob("*") if path.is_file() and not hidden(path))


def hidden(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return "__pycache__" in parts or any(p.startswith(".") and p != ".ci" for p in parts)


def functions(source: str) -> Iterator[tuple[str, int, int]]:
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def parameters(source: str) -> Iterator[tuple[str, int, int]]:
    """Functions with the number of their parameters; the first one of a method does not count."""
    methods = {
        id(function)
        for node in nodes(source)
        if isinstance(node, ast.ClassDef)
        for function in node.body
    }
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = [each.arg for each in (*given.posonlyargs, *given.args)]
            is_bound = id(node) in methods and names[:1] in (["self"], ["cls"])
            yield node.name, node.lineno, len(names) + len(given.kwonlyargs) - is_bound


def sleeping_lines(source: str) -> Iterator[int]:
    """Lines that call ``time.sleep`` or import it by name; text of child programs is not code."""
    if not MAY_SLEEP.search(source):
        return  # most files need not be parsed
    for node in nodes(source):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="sleep")):
                yield node.lineno
            case ast.ImportFrom(module="time", names=names) if "sleep" in {n.name for n in names}:
                yield node.lineno


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_is_longer_than_the_budget() -> None:
    sizes = {name: len(source.splitlines()) for name, source in modules().items()}
    assert {name: size for name, size in sizes.items() if size > FILE_LINES} == {}


def test_no_function_is_longer_than_the_budget() -> None:
    long = [
        f"{name}:{line}: {function} has {length} lines"
        for name, source in modules().items()
        for function, line, length in functions(source)
        if length > FUNCTION_LINES
    ]
    assert long == []


def test_no_function_has_more_parameters_than_the_budget() -> None:
    """More of them are a value of their own: a frozen dataclass, as `Context`."""
    greedy = [
        f"{name}:{line}: {function} has {count} parameters"
        for name, source in modules().items()
        for function, line, count in parameters(source)
        if count > PARAMETERS
    ]
    assert greedy == []


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, source in modules().items() if not ast.get_docstring(parsed(source))]
    assert silent == []


def test_no_test_sleeps() -> None:
    sleeping = [
        f"{path.relative_to(ROOT).as_posix()}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in sleeping_lines(path.read_text(encoding="utf-8"))
    ]
    assert sleeping == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_matching(MACHINE_PATH) == []


def test_nothing_is_left_for_later_in_the_sources() -> None:
    assert lines_matching(LEFTOVER) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import time\ntime.sleep(1)\n", [2]),
        ("from time import sleep\n", [1]),
        ("child = 'import time; time.sleep(1)'\n", []),
    ],
)
def test_a_sleep_is_found_in_code_and_not_in_text(source: str, lines: list[int]) -> None:
    assert list(sleeping_lines(source)) == lines


def test_parameters_are_counted_without_the_object_of_a_method() -> None:
    source = "class A:\n    def b(self, c, *, d): ...\n\ndef e(f, /, g, *h): ...\n"
    assert list(parameters(source)) == [("e", 4, 2), ("b", 2, 2)]


@pytest.mark.parametrize("folder", ["root", "work", "home", "Users"])
def test_a_path_of_one_machine_is_distinguished_from_a_web_address(folder: str) -> None:
    assert MACHINE_PATH.search(f"see /{folder}/x")
    assert not MACHINE_PATH.search(f"see https://example.org/{folder}/x")
