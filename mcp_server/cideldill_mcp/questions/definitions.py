"""Where a function or class is defined, by its name or a line, from the sources alone.

Reads and parses files of the project in this process, which may have another Python than the tests;
for the question that is about one piece of source. Runs in a thread.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.catalog import scan
from pytest_cideldill.sourcecode.describe import FunctionNode, assigned_lambdas, first_line
from pytest_cideldill.sourcecode.names import FunctionName, Precision, close_names
from pytest_cideldill.sourcecode.names import parse_function_name as parse_name
from pytest_cideldill.sourcecode.quiet import parse
from pytest_cideldill.sourcecode.reading import Unreadable, source_bytes, text_in

SEARCH_S = 10.0
"""Seconds that files may be looked through."""

_INIT = ".__init__"
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")

MAX_CANDIDATES = 20
"""Places that a refusal lists of a name that means several."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A piece of source.

    Attributes:
        file: As clients see it.
        path: Where it is.
        qualname: `Cart.total`.
        first: Its first line, that of the first decorator.
        last: Its last line.
        is_class: Whether it is a class.
    """

    file: str
    path: str
    qualname: str
    first: int
    last: int
    is_class: bool

    @property
    def name(self) -> str:
        """A name that means it and nothing else."""
        return f"{self.file}::{self.qualname.replace('.<locals>', '')}"


def named(project: Project, text: str) -> list[Definition]:
    """All definitions that a name means: several where it is ambiguous; in order of the source.

    Raises:
        Refusal: `invalid_parameter`, `function_not_found`.
    """
    try:
        name = parse_name(text.strip())
    except ValueError as error:
        raise Refusal(
            ErrorCode.INVALID_PARAMETER, str(error), parameter="function", expected="name"
        ) from error
    if name.precision is Precision.GLOB:
        raise Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"{text!r} is a glob: give the name of one function or class",
            parameter="function",
            expected="name of one function",
        )
    if name.path is not None and (file := project.found(name.path)) is not None:
        name = name.at(project.relative(file))
        modules: dict[str, tuple[str, ...]] = {name.path or "": ("",)}
    else:
        name = name.within(project.rootdir.replace(os.sep, "/"))
        modules = _searched(project, name)
    found = [
        each
        for file, names in modules.items()
        for each in _in_file(project, file)
        if any(name.matches(module, each.qualname, file) for module in names)
    ]
    classes = {(each.file, each.qualname) for each in found if each.is_class}
    # The name of a class matches its `__init__` as well; here it means the class.
    return [
        each
        for each in found
        if not each.qualname.endswith(_INIT)
        or (each.file, each.qualname.removesuffix(_INIT)) not in classes
    ]


def at_line(project: Project, file: str, line: int) -> Definition:
    """The innermost definition around a line.

    Raises:
        Refusal: `file_not_found`, `function_not_found`: none is around it; `invalid_source`.
    """
    path = project.found(file)
    if path is None:
        raise Refusal(
            ErrorCode.FILE_NOT_FOUND,
            f"{file!r} is no file; paths are absolute or relative to {project.rootdir}",
            file=file,
        )
    shown = project.relative(path)
    around = [each for each in _in_file(project, shown) if each.first <= line <= each.last]
    if not around:
        raise Refusal(
            ErrorCode.FUNCTION_NOT_FOUND, f"{shown}:{line} is in no function and in no class"
        )
    return min(around, key=lambda each: each.last - each.first)


def one(project: Project, text: str, found: list[Definition]) -> list[Definition]:
    """The parts of the one thing that a name means: a getter and its setter are two.

    Raises:
        Refusal: `function_not_found`, `invalid_parameter` with `candidates`.
    """
    if not found:
        name = parse_name(text.strip())
        near = close_names(name, list(_everything(project)))
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise Refusal(
            ErrorCode.FUNCTION_NOT_FOUND,
            f"no function or class of the project is called {text!r}{hint}",
            function=text,
            known=near,
        )
    if len({(each.file, each.qualname) for each in found}) > 1:
        names = [f"{each.name} (line {each.first})" for each in found[:3]]
        more = ", …" if len(found) > len(names) else ""
        raise Refusal(
            ErrorCode.INVALID_PARAMETER,
            f"{text!r} means {len(found)} things: {', '.join(names)}{more}; give the whole name "
            "of one",
            parameter="function",
            expected="name of one function or class",
            candidates=[
                {"function": each.name, "file": each.file, "line": each.first}
                for each in found[:MAX_CANDIDATES]
            ],
        )
    return found


def text_of(definition: Definition) -> list[str]:
    """The lines of the file; the definition's are `[first - 1 : last]`.

    Raises:
        Refusal: `invalid_source`, `file_not_found`.
    """
    return _read(definition.path, definition.file).split("\n")


def _searched(project: Project, name: FunctionName) -> dict[str, tuple[str, ...]]:
    """The files that may define it, with the names of their modules."""
    catalog = scan(project.rootdir, further=project.roots[1:], name=name, seconds=SEARCH_S)
    parsed = [file for file, contents in catalog.contents.items() if contents.problem is None]
    return {file: catalog.files[file] for file in parsed}


def _everything(project: Project) -> Iterator[str]:
    catalog = scan(project.rootdir, further=project.roots[1:], seconds=SEARCH_S / 4)
    for file, contents in catalog.contents.items():
        for each in contents.functions:
            yield f"{catalog.files[file][0]}.{each.qualname}"


def _in_file(project: Project, file: str) -> Iterator[Definition]:
    path = project.found(file) or file
    try:
        tree = parse(_read(path, file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refusal(ErrorCode.INVALID_SOURCE, f"{file} can't be parsed: {error}") from error
    for qualname, node in _definitions(tree):
        last, is_class = node.end_lineno or node.lineno, isinstance(node, ast.ClassDef)
        yield Definition(file, path, qualname, first_line(node), last, is_class)


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions and classes with their qualified names, in source order; then assigned lambdas."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, FunctionNode | ast.ClassDef):
            yield prefix + node.name, node
            inside = "." if isinstance(node, ast.ClassDef) else ".<locals>."
            prefix += node.name + inside
        blocks = (getattr(node, block, ()) for block in _BLOCKS)
        pending += [(child, prefix) for child in reversed([each for b in blocks for each in b])]
    for qualname, function, _ in assigned_lambdas(tree):
        yield qualname, function


def _read(path: str, shown: str) -> str:
    try:
        return text_in(source_bytes(path))
    except OSError as error:
        raise Refusal(
            ErrorCode.FILE_NOT_FOUND, f"{shown} can't be read: {error.strerror}", file=shown
        ) from error
    except Unreadable as error:
        raise Refusal(ErrorCode.INVALID_SOURCE, f"{shown}: {error}") from error
