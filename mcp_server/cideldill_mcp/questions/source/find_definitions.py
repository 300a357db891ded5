"""Finds the definitions of functions and classes in source files, by name or by line."""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cideldill_mcp.questions.asking.spelling import parsed
from cideldill_mcp.questions.recordings.listing import DEFINITIONS, Scope, SourceFiles, extent
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.sourcecode.catalog import find_sources, module_names
from pytest_cideldill.sourcecode.describe import assigned_lambdas
from pytest_cideldill.sourcecode.names import FunctionName, close_names

SECONDS: Final = 5.0
"""Of a search for a name; half of it for finding files."""

_INIT: Final = ".__init__"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, a class, or a statement of a module.

    Attributes:
        name: Qualified name without `<locals>`; empty for a statement.
        module: Dotted name of the module, the likeliest.
        file: Relative to the rootdir.
        first: With decorators.
        last: Last line.
        node: What it was found as.
    """

    name: str
    module: str
    file: str
    first: int
    last: int
    node: ast.AST

    @property
    def dotted(self) -> str:
        """The name to ask for it."""
        return f"{self.module}.{self.name}" if self.module else f"{self.file}::{self.name}"

    @property
    def scope(self) -> Scope | None:
        """Its node, if it is a function or a class."""
        node = self.node
        return node if isinstance(node, (*DEFINITIONS, ast.Lambda)) else None


def find(
    files: SourceFiles,
    *,
    function: str | None = None,
    file: str | None = None,
    line: int | None = None,
    further: Sequence[str] = (),
) -> list[Definition]:
    """The definitions that a question means.

    Args:
        files: Those of the project.
        function: A name as for `breakpoint_add`, or of a class; or
        file: a path, and
        line: a line in it.
        further: Absolute paths of folders of user code outside of the rootdir.

    Raises:
        Refusal: `missing_parameter`; `invalid_parameter`: it is no name; `function_not_found`,
            `file_not_found`, `invalid_source`; `invalid_line`: there is no code.
    """
    if function is not None:
        return _named(files, function, further)
    if file is None or line is None:
        raise Refusal(ErrorCode.MISSING_PARAMETER, "give function, or file and line")
    return [_definition_at(files, file, line)]


def _named(files: SourceFiles, function: str, further: Sequence[str]) -> list[Definition]:
    """All definitions that a name matches; what lies inside of another one is left out.

    A dotted name that none has may leave out the first modules, as in a trace.
    """
    name = parsed(function).within(files.rootdir.replace(os.sep, "/").rstrip("/"))
    pairs = _searched(files, name, further)
    found = [each for each, modules in pairs if _is_meant(name, each, modules)]
    if not found:
        every = [each for each, _ in _searched(files, parsed("*"), further)]
        found = [each for each in every if name.is_end_of(each.dotted)]
        if not found:
            raise _not_found(name, [each.dotted for each in every])
    return list(_outermost(found))


def _definition_at(files: SourceFiles, file: str, line: int) -> Definition:
    """The function or class around a line, else the statement of the module."""
    shown = file.replace(os.sep, "/").removeprefix("./")
    root = files.rootdir.replace(os.sep, "/").rstrip("/")
    shown = shown.removeprefix(f"{root}/")
    if not files.lines(shown):
        raise Refusal(ErrorCode.FILE_NOT_FOUND, f"file {file!r} is not found or empty")
    tree = files.tree(shown)
    if tree is None:
        raise Refusal(ErrorCode.INVALID_SOURCE, f"{file} can't be parsed")
    around = [
        definition
        for definition in _definitions(files, shown, _module_of(files, shown))
        if definition.first <= line <= definition.last
    ]
    if around:
        return min(around, key=lambda each: each.last - each.first)
    for node in tree.body:
        first, last = extent(node)
        if first <= line <= last:
            return Definition("", _module_of(files, shown), shown, first, last, node)
    raise Refusal(ErrorCode.INVALID_LINE, f"line {line} of {file} has no code")


def _module_of(files: SourceFiles, file: str) -> str:
    """The dotted name of a file's module, by the packages around it."""
    if not file.endswith(".py") or os.path.isabs(file):
        return ""
    packages = {file}
    folder = os.path.dirname(file)
    while folder:
        if os.path.isfile(os.path.join(files.rootdir, folder, "__init__.py")):
            packages.add(f"{folder}/__init__.py")
        folder = os.path.dirname(folder)
    return module_names(packages, files.rootdir)[file][0]


def _searched(
    files: SourceFiles, name: FunctionName, further: Sequence[str]
) -> Iterator[tuple[Definition, Sequence[str]]]:
    """What is in files that may define what is named, with the names of their modules; as far as
    there is time.
    """
    start = time.monotonic()
    for root in (files.rootdir, *further):
        real = os.path.realpath(root)
        sources, _ = find_sources(real, lambda: time.monotonic() - start > SECONDS / 2)
        prefix = "" if root == files.rootdir else f"{real}/"
        for file, modules in module_names(sources, real).items():
            path = prefix + file
            if not name.may_be_in(modules, path):
                continue
            if time.monotonic() - start > SECONDS:
                return
            if not name.word or any(name.word in line for line in files.lines(path)):
                for definition in _definitions(files, path, modules[0] if modules else ""):
                    yield definition, modules


def _is_meant(name: FunctionName, definition: Definition, modules: Sequence[str]) -> bool:
    # The name of a class means the class here, not its `__init__`.
    wanted = definition.name
    if (
        wanted.endswith(_INIT)
        and not name.target.endswith("__init__")
        and not (any(character in name.target for character in "*?["))
    ):
        return False
    return any(name.matches(module, wanted, definition.file) for module in modules or ("",))


def _definitions(files: SourceFiles, file: str, module: str) -> list[Definition]:
    """All functions and classes of a file in source order, and lambdas that have a name."""
    tree = files.tree(file)
    if tree is None:
        return []
    found = []
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, DEFINITIONS):
            name = prefix + node.name
            found.append(Definition(name, module, file, *extent(node), node))
            prefix = f"{name}."
        if not isinstance(node, ast.expr):
            children = ast.iter_child_nodes(node)
            pending += [(child, prefix) for child in reversed(list(children))]
    for name, function, _ in assigned_lambdas(tree):
        first, last = function.lineno, function.end_lineno or function.lineno
        found.append(Definition(name, module, file, first, last, function.made))
    return found


def _outermost(found: Iterable[Definition]) -> Iterator[Definition]:
    """Those that are in no other one."""
    last: dict[str, int] = {}
    for definition in sorted(found, key=lambda each: (each.file, each.first, -each.last)):
        if definition.first > last.get(definition.file, 0):
            last[definition.file] = definition.last
            yield definition


def _not_found(name: FunctionName, known: list[str]) -> Refusal:
    """The refusal, with what there is that is called alike."""
    close = close_names(name, dict.fromkeys(known))
    way_out = f"did you mean {', '.join(close)}?" if close else "give file and line instead"
    return Refusal(
        ErrorCode.FUNCTION_NOT_FOUND, f"no function or class {name.text!r} is found: {way_out}"
    )
