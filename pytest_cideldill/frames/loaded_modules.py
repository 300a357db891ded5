"""Whether this process has loaded code of a file; no user code runs. On any thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pytest_cideldill.interpreter.loaded_names import file_of_module
from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.project import Project


def is_loaded(path: str, project: Project) -> bool:
    """Whether a module, or a call that is not over, is from the file with this real path."""
    return any(project.real(each) == path for each in set(_files()))


def _files() -> Iterator[str]:
    for module in tuple(sys.modules.values()):
        file = file_of_module(module)
        if file is not None:
            yield file
    for frame in running_frames():
        yield frame.f_code.co_filename
