"""Why a breakpoint was not hit in this process, as one of the reasons of `docs/not-hit.md`.

Determined once, when the tests are over; no reason is guessed. Runs no code of the program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from pytest_cideldill.interpreter.loaded_names import (
    file_of_module,
    loaded_prefixes,
    names_of_module,
)
from pytest_cideldill.probes.behaviors import FunctionProbe
from pytest_cideldill.probes.classes import RaiseProbe
from pytest_cideldill.probes.counting import Watching
from pytest_cideldill.probes.linehits import LineProbe
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import Watched
from pytest_cideldill.sourcecode.names import NESTED, FunctionName

Fact = dict[str, Any]
"""Plain: `why`, a reason or None when it was hit; `whole`, as `Watching`; and as the reason has it
`times`, `held`, `line`, `note`; `recorded`: its calls are only recorded, and are in the record."""

_UNNAMED: Final = "nothing of this name was loaded"


def last_words(
    parts: Iterable[Callable[[], dict[str, Fact]]], warn: Callable[[str], None], *, blind: bool
) -> Watched:
    """The facts of all breakpoints, while they are still armed; `parts` give them by id."""
    facts: dict[str, Fact] = {}
    try:
        for part in parts if not blind else ():
            facts |= part()
    except Exception as error:  # noqa: BLE001 - a border: the tests end as without us
        warn(f"the reasons why breakpoints were not hit are unknown: {error!r}")
        return Watched({}, blind=True)
    return Watched(facts, blind)


def of_line(probe: LineProbe, is_loaded: Callable[[str], bool]) -> Fact:
    """Of a breakpoint or tracepoint on a line.

    Args:
        is_loaded: Whether any code of a file was loaded.
    """
    spec, watching = probe.spec, probe.watching
    if probe.is_hit:
        return _fact(None, watching)
    if not watching.ever:
        return _fact("disabled", watching)
    if times := probe.passes.value:
        return _fact("condition_false", watching, times=times, held=probe.held.value)
    if (nearest := probe.nearest) is not None:
        return _fact("line_not_reached", watching, line=nearest)
    if probe.stretches:
        return _fact("never_called", watching)
    if probe.is_absent:
        return _fact("no_code", watching)
    if is_loaded(spec.file):
        return _fact("never_called", watching)
    return _fact("never_imported", watching, note=_elsewhere(spec.file))


def of_function(
    probe: FunctionProbe,
    default: str,
    refusal: str | None,
    deciding: list[str],
    compiled: str | None = None,
    beside: Callable[[FunctionName], str | None] = lambda _name: None,
) -> Fact:
    """Of a breakpoint on functions.

    Args:
        default: What behaviors that yield mean.
        refusal: Why what its name leads to can't be intercepted.
        deciding: Ids of the breakpoints that decide at the functions that it means.
        compiled: That all functions that it means now were compiled, and by whom.
        beside: A note on functions of a name that are beside the rootdir, if there are any.
    """
    tally, watching = probe.tally, probe.tally.watching
    if tally.was_hit:
        return _fact(None, watching)
    if compiled is not None:
        return _fact("no_code", watching, note=compiled)
    if tally.was_bound and not probe.acts(default):
        return _fact("never_called", watching, recorded=True)
    if tally.was_bound:
        times = tally.misses.value
        return _fact("condition_false" if times else "never_called", watching, times=times)
    if refusal is not None:
        return _fact("no_code", watching, note="it can't be intercepted")
    if deciding:
        ids = ", ".join(deciding)
        return _fact("disabled", watching, note=f"{ids} decides at the functions of its name")
    if (path := probe.name.path) is not None and (note := _elsewhere(path)) is not None:
        return _fact("never_imported", watching, note=note)
    if (note := beside(probe.name)) is not None:
        return _fact("no_code", watching, note=note)
    why = "no_code" if _is_known_absent(probe.name) else "never_imported"
    return _fact(why, watching, note=_UNNAMED)


def of_exception(probe: RaiseProbe) -> Fact:
    """Of a breakpoint on exceptions."""
    spec, watching = probe.spec, probe.watching
    if probe.hits.value:
        return _fact(None, watching)
    if not watching.ever or not (spec.first_chance or spec.second_chance):
        return _fact("disabled", watching)
    if probe.message is not None:
        return _fact("no_code", watching, note=probe.message)
    name = spec.exception_type
    if probe.classes or "." not in name or NESTED in name:
        where = " in user code" if spec.scope == "user" else ""
        note = f"not raised{where}" if spec.first_chance else "did not escape"
        return _fact("never_called", watching, note=note)
    return _fact("no_code" if _leads_into_loaded(name) else "never_imported", watching)


def of_glob(glob: str, loaded: Mapping[str, str] | None, project: Project) -> Fact:
    """Of a glob over dotted paths of functions, whose calls are recorded.

    Args:
        loaded: The paths of all functions that are loaded, and their files; None: one of the
            user's matched it.
    """
    if loaded is None:
        return {"why": None, "whole": True}
    for path, file in sorted(loaded.items()):
        if fnmatchcase(path, glob):
            hint = project.beside(file) or "not in user code"
            return {"why": "no_code", "whole": True, "note": f"{path} is {hint}"}
        if fnmatchcase(path, f"*.{glob}") and (project.is_user(file) or project.beside(file)):
            return {"why": "no_code", "whole": True, "note": f"the dotted path is {path}"}
    return {"why": "never_imported", "whole": True, "note": _UNNAMED}


def is_imported(project: Project, file: str) -> bool:
    """Whether a module that is loaded says that it is of this file, an absolute real path."""
    name = os.path.basename(file)
    for module in list(sys.modules.values()):
        path = file_of_module(module)
        if path is not None and os.path.basename(path) == name and project.real(path) == file:
            return True
    return False


def _elsewhere(file: str) -> str | None:
    """Where the module of a file was imported from, if that is another file.

    So it is where the tests import an installed copy.
    """
    path = "/" + file.replace(os.sep, "/")
    stem = path.removesuffix(".py").removesuffix("/__init__")
    modules = {
        name: module
        for name, module in list(sys.modules.items())
        if type(name) is str and stem.endswith("/" + name.replace(".", "/"))
    }
    for name in sorted(modules, key=len, reverse=True):
        other = file_of_module(modules[name])
        if other is not None:
            is_it = f"/{other.replace(os.sep, '/')}".endswith(path)
            return None if is_it else f"{name} came from {other}"
    return None


def _fact(why: str | None, watching: Watching, **details: object) -> Fact:
    return {"why": why, "whole": watching.whole, **details}


def _is_known_absent(name: FunctionName) -> bool:
    """Whether the place that a name leads to is loaded, so that its function would be known."""
    if name.path is not None:
        files = map(file_of_module, list(sys.modules.values()))
        return any(name.is_in(file.replace(os.sep, "/")) for file in files if file is not None)
    if name.module is not None:
        return name.module in sys.modules
    return name.is_exact and _leads_into_loaded(name.target)


def _leads_into_loaded(path: str) -> bool:
    nearest = next(loaded_prefixes(path.split(".")), None)
    if nearest is None:
        return False
    module, rest = nearest
    names = names_of_module(module) or {}
    return len(rest) == 1 or rest[0] in names or "__path__" not in names
