"""Names of functions and files as clients write them, with paths relative to the rootdir."""

from __future__ import annotations

import os

from pytest_cideldill.errors import ErrorCode, Refusal
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.names import FunctionName, parse_function_name


def parsed(text: str) -> FunctionName:
    """The name of a function.

    Raises:
        Refusal: `invalid_parameter`.
    """
    try:
        return parse_function_name(text.strip())
    except ValueError as error:
        raise Refusal(
            ErrorCode.INVALID_PARAMETER, str(error), parameter="function", expected="name"
        ) from error


def function_from_root(project: Project, text: str) -> str:
    """The name of a function as processes of tests take it.

    Raises:
        Refusal: `invalid_parameter`.
    """
    name = parsed(text)
    if name.path is not None:
        name = name.at(file_from_root(project, name.path))
    return name.within(project.rootdir.replace(os.sep, "/")).text


def file_from_root(project: Project, file: str) -> str:
    """The path of a file, of one from the rootdir or from where this process was started."""
    path = project.found(file)
    return file if path is None else project.relative(path)
