"""House rules that no linter checks: sizes, docstrings, sleeping tests, leftovers in text files."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.full  # all files are parsed, and no interpreter sees another house

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "pytest_cideldill", ROOT / "mcp_server" / "cideldill_mcp")
FILE_LINES = 600
FUNCTION_LINES = 60
PARAMETERS = 6

# Spelled in pieces, so that this file obeys the rules it checks.
# Begun by a character that is always there, as this is looked for quickly.
MACHINE_PATH = re.compile(r"/(?<![\w.~-]/)(?:root|work|home|Users)" + r"/\w")
MAY_SLEEP = re.compile(r"\btime\s*\.\s*sleep\b|\bfrom\s+time\s+import\b")
RIDDLE = re.compile(r"(?<![^\W_])(?:told|telling|whoever)(?![^\W_])", re.IGNORECASE)
LEFTOVER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module; the first parameter of a method does not count."""

    name: str
    line: int
    length: int
    parameters: int


@functools.cache
def modules() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
    }


@dataclass(frozen=True, slots=True)
class Outline:
    """What is kept of a module that was parsed; all modules have half a million nodes."""

    docstring: str | None
    functions: list[Function]


@functools.cache
def outline(source: str) -> Outline:
    module = ast.parse(source)
    return Outline(ast.get_docstring(module), list(functions_below(module)))


def functions_below(node: ast.AST) -> Iterator[Function]:
    """Only statements are looked through: no expression has a definition inside."""
    is_class = isinstance(node, ast.ClassDef)
    for each in statements_of(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            assert each.end_lineno is not None
            length = each.end_lineno - each.lineno + 1
            counted = parameters(each, of_class=is_class)
            yield Function(each.name, each.lineno, length, counted)
        yield from functions_below(each)


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(node, field, ())
        yield from inner if isinstance(inner, list) else ()  # not so that of a lambda


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, *, of_class: bool) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    is_bound = of_class and names[:1] in (["self"], ["cls"])
    return len(names) + len(given.kwonlyargs) - is_bound


@functools.cache
def text_files() -> dict[str, str]:
    found = {}
    for path in project_files():
        try:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # binary, or deleted and not yet committed
    return found


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """The texts of all files are gone afterwards."""
    yield
    for each in (modules, outline, text_files):
        each.cache_clear()


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


def sleeping_lines(source: str) -> Iterator[int]:
    """Lines that call ``time.sleep`` or import it by name; text of child programs is not code."""
    if not MAY_SLEEP.search(source):
        return  # most files need not be parsed
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="sleep")):
                yield node.lineno
            case ast.ImportFrom(module="time", names=names) if "sleep" in {n.name for n in names}:
                yield node.lineno


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in text_files().items()
        if pattern.search(text)  # so most files need not be split
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_is_longer_than_the_budget() -> None:
    sizes = {name: len(source.splitlines()) for name, source in modules().items()}
    assert {name: size for name, size in sizes.items() if size > FILE_LINES} == {}


def test_no_function_is_longer_than_the_budget() -> None:
    long = [
        f"{name}:{each.line}: {each.name} has {each.length} lines"
        for name, source in modules().items()
        for each in outline(source).functions
        if each.length > FUNCTION_LINES
    ]
    assert long == []


def test_no_function_has_more_parameters_than_the_budget() -> None:
    """More of them are a value of their own: a frozen dataclass, as `Context`."""
    greedy = [
        f"{name}:{each.line}: {each.name} has {each.parameters} parameters"
        for name, source in modules().items()
        for each in outline(source).functions
        if each.parameters > PARAMETERS
    ]
    assert greedy == []


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, source in modules().items() if not outline(source).docstring]
    assert silent == []


def test_no_test_sleeps() -> None:
    sleeping = [
        f"{path.relative_to(ROOT).as_posix()}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in sleeping_lines(path.read_text(encoding="utf-8"))
    ]
    assert sleeping == []


def test_no_name_is_a_riddle() -> None:
    """A name says what a value is, not that somebody is told something."""
    riddles = [
        f"{file}:{getattr(node, 'lineno', 0)}: {name}"
        for file, source in text_files().items()
        if file.endswith(".py") and RIDDLE.search(source)
        for node in ast.walk(ast.parse(source))
        for field in ("id", "arg", "attr", "name")
        if isinstance(name := getattr(node, field, None), str) and RIDDLE.search(name)
    ]
    assert riddles == []


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
    found = outline(source).functions
    assert [(each.name, each.line, each.parameters) for each in found] == [("b", 2, 2), ("e", 4, 2)]


def test_a_path_of_one_machine_is_distinguished_from_a_web_address() -> None:
    for folder in ("root", "work", "home", "Users"):
        assert MACHINE_PATH.search(f"see /{folder}/x")
        assert MACHINE_PATH.search(f"/{folder}/x")
        assert not MACHINE_PATH.search(f"see https://example.org/{folder}/x")
