"""Asks the tests' interpreter about source files: functions, lines, whether expressions compile.

A short-lived process answers. It has the interpreter and the flags of the runs, on which it depends
what is valid, and runs no user code (`pytest_cideldill.sourcecode.helper`). Works without a run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cideldill_mcp.breakpoints.places import Place, Stamp
from cideldill_mcp.processes.helpers import Unanswered, ask
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.sources.source_questions import HELPER, TIMEOUT_S, Answer, Questions, unanswered
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.names import FunctionName, Precision, close_names

SCAN_S = 10
"""How long it may read files of a project; then the next call goes on."""

HINT_S = 2
"""The same, only for a "did you mean"."""


def project_of(recipe: Recipe) -> Project:
    """The project that a recipe runs."""
    return Project(recipe.rootdir or os.getcwd(), recipe.user_paths)


def path_of(recipe: Recipe, file: str) -> Path:
    """The file that a client means: absolute, or relative to the rootdir or where the server runs.

    Returns:
        As `Project.named`.

    Raises:
        Refusal: `file_not_found`.
    """
    project = project_of(recipe)
    path = project.found(file)
    if path is None:
        folders = " or ".join(dict.fromkeys((project.rootdir, os.getcwd())))
        raise Refusal(
            ErrorCode.FILE_NOT_FOUND,
            f"{file!r} is no file; paths are absolute or relative to {folders}",
            file=file,
        )
    return Path(path)


def shown_path(recipe: Recipe, path: Path) -> str:
    """A path as clients see it."""
    return project_of(recipe).relative(str(path))


async def find_places(recipe: Recipe, path: Path, **wanted: Any) -> list[Place]:
    """Where the code is that `line` (with `column`) or `function` means; never empty.

    Args:
        path: An existing file.
        wanted: Those, and `condition` and `template` to be checked too.

    Raises:
        Refusal: `invalid_line` (+ `nearestValidLine`), `invalid_column` (+ `candidates`),
            `function_not_found`, `invalid_condition`, `invalid_template` (+ `position`),
            `invalid_source`.
    """
    (found,) = await find_each(recipe, [(path, wanted)])
    if isinstance(found, Refusal):
        raise found
    return found


async def find_each(
    recipe: Recipe, wanted: Sequence[tuple[Path, dict[str, Any]]]
) -> list[list[Place] | Refusal]:
    """As `find_places`, for many files at once; `internal_error` where the helper did not reply."""
    # Before the files are read: what changes meanwhile is looked at again.
    stamps = {path: Stamp.of(str(path)) for path in {path for path, _ in wanted}}
    answers = await ask_each(
        recipe,
        [
            {"op": "validate", "file": str(path), "shown": shown_path(recipe, path), **more}
            for path, more in wanted
        ],
    )
    return [
        _places_in(answer, str(path), shown_path(recipe, path), stamps[path])
        for answer, (path, _) in zip(answers, wanted, strict=True)
    ]


def _places_in(answer: Answer, file: str, shown: str, stamp: Stamp | None) -> list[Place] | Refusal:
    if isinstance(answer, Refusal):
        return answer
    if "error" in answer:
        return Refusal.from_plain(answer)
    return [Place(file, shown, stamp=stamp, **each) for each in answer["places"]]


async def ask_each(recipe: Recipe, requests: Sequence[dict[str, Any]]) -> list[Answer]:
    """The answers to requests about files; see `questions`."""
    return await _questions(tuple(recipe.interpreter)).ask(requests)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project, as found in its source.

    Attributes:
        name: The dotted path that it most likely has in a run: `shop.cart.Cart.total`.
        qualname: `Cart.total`.
        file: Relative to the rootdir, or absolute when outside of it.
        line: Of the `def`.
        kind: See `sourcecode.describe.FunctionInfo`.
    """

    name: str
    qualname: str
    file: str
    line: int
    signature: str
    kind: str


@dataclass(frozen=True, slots=True)
class Survey:
    """Functions that were found in the sources, and what was left out.

    Attributes:
        functions: Sorted by name, file and line.
        is_certain: Whether runs will most likely find them by the name that was asked for. Not so
            when that starts at another folder than imports do: `tests.test_it.test_a`.
        skipped: Files that can't be parsed, and why.
        unread: How many files there was no time for.
        is_complete: Whether there was time to look for all files.
    """

    functions: list[Function]
    is_certain: bool
    skipped: dict[str, str]
    unread: int
    is_complete: bool

    @property
    def message(self) -> str | None:
        """What is missing; None if nothing is."""
        parts = []
        if self.skipped:
            shown = [f"{file} ({why})" for file, why in sorted(self.skipped.items())]
            shown[3:] = [f"{len(shown) - 3} more"] if len(shown) > 3 else []
            parts.append(f"can't be parsed: {', '.join(shown)}")
        if self.unread:
            parts.append(f"{self.unread} files were not read in time; the next call goes on")
        if not self.is_complete:
            parts.append("the project is too large; its deepest folders were left out")
        return "; ".join(parts) or None


def sources_of(recipe: Recipe) -> Sources:
    """The sources of the project that a recipe runs."""
    root = recipe.rootdir or os.getcwd()
    return _sources(tuple(recipe.interpreter), root, tuple(recipe.user_paths))


async def beside(recipe: Recipe, name: FunctionName) -> str:
    """A remark on functions of a name that are beside the rootdir; empty: there are none."""
    project, here = project_of(recipe), os.getcwd()
    if not project.is_inside(here):
        return ""
    survey = await _sources_beside(tuple(recipe.interpreter), here).find(name, HINT_S)
    files = dict.fromkeys(os.path.join(here, function.file) for function in survey.functions)
    found = ((file, project.beside(file)) for file in files)
    shown = [f"{project.relative(file)} has one, {hint}" for file, hint in found if hint]
    return f"; {shown[0]}" if shown else ""


class Sources:
    """The functions of a project; what was read stays known until its file changes.

    Args:
        interpreter: With its flags.
        user_paths: As `Project` takes them.
    """

    def __init__(
        self, interpreter: Sequence[str], root: str, user_paths: Sequence[str] = ()
    ) -> None:
        self.root = Path(root).resolve()
        self._further = Project(root, user_paths).roots[1:]
        self._interpreter = interpreter
        # File → its contents as the helper replied; replaced whole.
        self._contents: dict[str, dict[str, Any]] = {}

    async def all(self, seconds: int = SCAN_S) -> Survey:
        """Every function. Raises Refusal: `internal_error`: the helper did not reply."""
        files = await self._scan(seconds=seconds)
        functions = [function for _, function in self._functions(files["files"])]
        return self._survey(files, functions, is_certain=True)

    async def find(self, name: FunctionName, seconds: int = SCAN_S) -> Survey:
        """The functions that a name means. Only files that may define them are read.

        Raises:
            Refusal: See `all`.
        """
        files = await self._scan(name=name.text, seconds=seconds)
        certain, others = [], []
        for modules, each in self._functions(files["files"]):
            if name.matches(modules[0], each.qualname, each.file):
                certain.append(each)
            elif any(name.matches(other, each.qualname, each.file) for other in modules[1:]):
                others.append(each)
        return self._survey(files, certain or others, is_certain=bool(certain))

    async def close_to(self, name: FunctionName) -> list[str]:
        """Names of functions that are close to one that no function has.

        Raises:
            Refusal: See `all`.
        """
        if name.precision is Precision.GLOB:
            return []
        survey = await self.all(HINT_S)
        return close_names(name, [function.name for function in survey.functions])

    async def _scan(self, **wanted: Any) -> dict[str, Any]:
        before = self._contents
        known = {file: each["stamp"] for file, each in before.items()}
        asked = {"root": str(self.root), "further": self._further, "known": known}
        request = {"op": "catalog", **asked, **wanted}
        reply = await _ask(self._interpreter, str(self.root), request)
        unchanged = {file: before[file] for file in reply["unchanged"]}
        self._contents = unchanged | reply["contents"]
        return reply

    def _functions(self, files: dict[str, list[str]]) -> Iterator[tuple[list[str], Function]]:
        """Each with the module names that its file may have, the likeliest first."""
        for file, contents in self._contents.items():
            modules = files.get(file) or [""]
            for each in contents["functions"]:
                name = f"{modules[0]}.{each['qualname']}"
                yield modules, Function(name, file=file, **each)

    def _survey(self, files: dict[str, Any], found: list[Function], *, is_certain: bool) -> Survey:
        skipped = {
            file: each["problem"] for file, each in self._contents.items() if each["problem"]
        }
        found.sort(key=lambda function: (function.name, function.file, function.line))
        return Survey(found, is_certain, skipped, files["unread"], files["is_complete"])


@lru_cache(maxsize=4)
def _questions(interpreter: tuple[str, ...]) -> Questions:
    return Questions(interpreter)


@lru_cache(maxsize=1)
def _sources(interpreter: tuple[str, ...], root: str, user_paths: tuple[str, ...]) -> Sources:
    return Sources(interpreter, root, user_paths)


@lru_cache(maxsize=1)
def _sources_beside(interpreter: tuple[str, ...], root: str) -> Sources:
    return Sources(interpreter, root)


async def _ask(interpreter: Sequence[str], about: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        reply = await ask(interpreter, HELPER, request, TIMEOUT_S)
    except (Unanswered, TimeoutError) as error:
        raise unanswered(interpreter, about, error) from error
    if "error" in reply:
        raise Refusal.from_plain(reply)
    return reply
