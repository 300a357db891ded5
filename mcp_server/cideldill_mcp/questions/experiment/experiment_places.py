"""Finds the places of experiments before a test runs: functions, lines, patched texts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial

from cideldill_mcp.questions.asking.asker import Asker, source_files
from cideldill_mcp.questions.asking.registry import Variation
from cideldill_mcp.questions.asking.spelling import file_from_root, function_from_root
from cideldill_mcp.questions.experiment.experiment_specs import Experiment, Prepared
from cideldill_mcp.questions.experiment.forks import code_of
from cideldill_mcp.questions.patches.whole_texts import PatchedFile, patched_files
from cideldill_mcp.questions.source.find_definitions import find
from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.protocol.trace_rows import ForcedChange
from pytest_cideldill.sourcecode.helper import source_map
from pytest_cideldill.sourcecode.locations import InvalidLine, InvalidSource, SourceMap
from pytest_cideldill.sourcecode.reading import source_bytes, text_in


class Places:
    """The places of all experiments of one question.

    Args:
        asker: Knows the project.
    """

    def __init__(self, asker: Asker) -> None:
        questions = asker.questions
        self._asker = asker
        self._root = questions.rootdir
        self._project = questions.project
        self._files = source_files(asker, self._root)
        self._redact = partial(questions.redactor().redact_source, is_python=True)

    def prepared(self, asked: Experiment) -> Prepared:
        """Find the places of one.

        Raises:
            Refusal: `function_not_found`, `file_not_found`, `invalid_line`, `invalid_source`,
                `invalid_parameter`; it names the experiment.
        """
        try:
            return self._prepared(asked)
        except Refusal as refusal:
            message = f"experiment {asked.name!r}: {refusal.message}"
            raise Refusal(refusal.code, message, **refusal.extra) from refusal

    def _prepared(self, asked: Experiment) -> Prepared:
        made: list[PatchedFile] = []
        if asked.patches or asked.diff:
            made = patched_files(self._project, asked.patches, asked.diff, self._redact)
        texts = {file.path: file.text for file in made}
        changes = [self._placed(change, texts) for change in asked.changes]
        changes += [
            ForcedChange("patch", file=file.path, name=file.file, value=_changed_lines(file))
            for file in made
        ]
        order = [self._asker.questions.nodeid(each) for each in asked.order]
        variation = Variation(asked.env, asked.args, made or None)
        is_other = bool(order or asked.env or asked.args or texts)
        code = None if is_other else code_of(changes, self._files, self._root)
        return Prepared(replace(asked, changes=changes, order=order), variation, code)

    def _placed(self, change: ForcedChange, texts: Mapping[str, str]) -> ForcedChange:
        if change.kind == "set_local":
            shown = file_from_root(self._project, change.file)
            file = os.path.realpath(os.path.join(self._root, shown))
            _check_line(file, shown, change.line, texts.get(file))
            return replace(change, file=file)
        function = function_from_root(self._project, change.function)
        self._check_function(function)
        return replace(change, function=function)

    def _check_function(self, function: str) -> None:
        """Refuse a name that nothing in the project has.

        What is made while the program runs, or is of a library, is found by the process.

        Raises:
            Refusal: `function_not_found`.
        """
        try:
            self._find(function)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.FUNCTION_NOT_FOUND:
                raise
            if not self._may_be_made(function):
                message = refusal.message.partition(": give file and line")[0]
                raise Refusal(refusal.code, message, **refusal.extra) from None

    def _may_be_made(self, function: str) -> bool:
        """Whether the rest of a name is known: a class, a function, or a module of others."""
        outer, _, _ = function.replace("::", ".").rpartition(".")
        if not outer:
            return False
        with suppress(Refusal):
            self._find(function[: len(outer)].rstrip(":"))
            return True
        return "::" not in function and not self._has(outer.partition(".")[0])

    def _find(self, function: str) -> None:
        find(
            self._files, function=function.replace(".<locals>", ""), further=self._project.roots[1:]
        )

    def _has(self, module: str) -> bool:
        """Whether a module is of the project."""
        return any(
            os.path.exists(os.path.join(self._root, folder, module + ending))
            for folder in ("", "src")
            for ending in ("", ".py")
        )


def _changed_lines(patched: PatchedFile) -> list[int]:
    """The lines of a patched text that the file has not; of what was taken out the next one."""
    before = text_in(source_bytes(patched.path)).splitlines()
    after = patched.text.splitlines()
    found: list[int] = []
    for kind, _, _, first, last in SequenceMatcher(None, before, after, False).get_opcodes():
        if kind != "equal":
            found += range(first + 1, max(first + 1, last) + 1)
    return found


def _check_line(file: str, shown: str, line: int, text: str | None) -> None:
    """Refuse a line without code.

    Raises:
        Refusal: `invalid_line`, `file_not_found`, `invalid_source`.
    """
    try:
        code = source_map(file, shown) if text is None else SourceMap.from_source(text, shown)
        code.code_for_line(line)
    except InvalidLine as error:
        nearest = {"nearestValidLine": error.nearest}
        raise Refusal(ErrorCode.INVALID_LINE, str(error), **nearest) from error
    except InvalidSource as error:
        raise Refusal(ErrorCode.INVALID_SOURCE, str(error)) from error
    except OSError as error:
        message = f"{shown} can't be read: {error.strerror}"
        raise Refusal(ErrorCode.FILE_NOT_FOUND, message) from error
