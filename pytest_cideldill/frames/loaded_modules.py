"""Whether this process has loaded code of a file; no user code runs. On any thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.project import Project
from pytest_cideldill.rendering import layout

# A module's class may define its own attributes.
_namespace_of: Callable[[ModuleType], dict[str, Any] | None]
_namespace_of = ModuleType.__dict__["__dict__"].__get__  # type: ignore[index]


def is_loaded(path: str, project: Project) -> bool:
    """Whether a module, or a call that is not over, is from the file with this real path."""
    return any(project.real(each) == path for each in set(_files()))


def _files() -> Iterator[str]:
    for module in tuple(sys.modules.values()):
        names = _namespace_of(module) if layout.is_a(type(module), ModuleType) else None
        file = names.get("__file__") if names else None
        if type(file) is str:
            yield file
    for frame in running_frames():
        yield frame.f_code.co_filename
