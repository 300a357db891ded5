"""What is declared up front for a run without a client, as the commands that a client would cause.

Every process of a run reads the same options, so that a tracepoint has the same id in all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cideldill.config.settings import Settings
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddLine, AddTrace, Command
from pytest_cideldill.sourcecode import locations
from pytest_cideldill.sourcecode.helper import source_map
from pytest_cideldill.sourcecode.tracespec import TraceSpec, parse_spec

_FLAG = "--cideldill-trace"


def declared(config: pytest.Config, settings: Settings) -> list[Command]:
    """Every tracepoint.

    Raises:
        pytest.UsageError: A file is not there, or has no code at a line; the message names it.
    """
    commands: list[Command] = []
    for number, text in enumerate(settings.trace, 1):
        try:
            spec = parse_spec(text)
            file, place = _find(config, spec)
        except (ValueError, OSError) as error:
            raise pytest.UsageError(f"{_FLAG}: {text!r}: {error}") from error
        id, code = f"tp-{number}", place.key
        what = {"condition": spec.condition, "message": spec.template}
        if spec.file is None:
            what |= {"at": spec.at}
            commands.append(AddTrace(id, file, code.qualname, place.line, **what))  # type: ignore[arg-type]
        else:
            commands.append(AddLine(0, id, file, place.line, code.to_plain(), **what))  # type: ignore[arg-type]
    return commands


def _find(config: pytest.Config, spec: TraceSpec) -> tuple[str, locations.SourcePlace]:
    """The file that a tracepoint means, and where in it.

    Raises:
        ValueError, OSError: There is no such place, or the file can't be read.
    """
    project = Project(str(config.rootpath))
    if spec.file is not None:
        file = project.found(spec.file)
        if file is None:
            raise ValueError(f"there is no file {spec.file} in {config.rootpath}")
        return file, _map_of(file, spec.file).code_for_line(spec.line)
    file = next(filter(None, map(project.found, _files_of(config, spec.module))), None)
    if file is None:
        raise ValueError(f"there is no module {spec.module} in {config.rootpath} or on sys.path")
    name = spec.function[len(spec.module) + 1 :]
    places = _map_of(file, os.path.basename(file)).function_places(name)
    return file, places[0]


def _map_of(file: str, shown: str) -> locations.SourceMap:
    try:
        return source_map(file, shown)
    except (locations.InvalidSource, locations.InvalidLine, locations.FunctionNotFound) as error:
        raise ValueError(str(error)) from error


def _files_of(config: pytest.Config, module: str) -> Iterator[str]:
    """Where a module may be, nothing being imported: the project is not on the path yet."""
    folders = [config.rootpath, config.rootpath / "src"]
    folders += [config.rootpath / each for each in config.getini("pythonpath")]
    folders += [Path(each) for each in sys.path if each]
    path = Path(*module.split("."))
    for folder in folders:
        yield str(folder / path.with_suffix(".py"))
        yield str(folder / path / "__init__.py")
