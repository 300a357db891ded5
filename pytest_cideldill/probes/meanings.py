"""Which functions the names of breakpoints mean, and which breakpoint governs each.

Compares names with functions that exist and with code that will make others; runs nothing. Under
the manager's lock, except where a docstring says otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType

from pytest_cideldill.frames.arguments import DottedPath, module_name
from pytest_cideldill.interpreter.code_files import file_now, has_one_file
from pytest_cideldill.interpreter.loaded_names import names_of_module
from pytest_cideldill.patching.code_swap import is_stand_in, original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.trampolines import is_function
from pytest_cideldill.probes.attributes import Attributes, Lead
from pytest_cideldill.probes.behaviors import FunctionProbe, Overruled
from pytest_cideldill.probes.naming import Naming, may_assign
from pytest_cideldill.probes.nesting import codes_in
from pytest_cideldill.project import Project
from pytest_cideldill.sourcecode.names import FunctionName, Precision
from pytest_cideldill.tracing.interface import existing_functions


class Meanings:
    """Finds the functions that the names of breakpoints mean, and what governs each of them.

    Args:
        project: Bare names and globs mean functions of user code only.
        breakpoints: All that there are, by id; changed by the owner, who then calls `renew`.
    """

    def __init__(self, project: Project, breakpoints: Mapping[str, FunctionProbe]) -> None:
        self._project = project
        self._breakpoints = breakpoints
        self._naming = Naming(project)
        self._attributes = Attributes(project, self._naming)
        self._overruled = Overruled()
        # Ids of breakpoints that have a name for which there is a `def`.
        self._defined: set[str] = set()
        # Module and qualified name of what was found in the modules' own files.
        self._own: set[tuple[str, str]] = set()
        self.renew()

    def renew(self) -> None:
        """The breakpoints have changed, and with them where functions are looked for."""
        # File → those that may mean a function there; file and module → whether any may.
        self._by_file: dict[str, list[FunctionProbe]] = {}
        self._by_module: dict[tuple[str, str], bool] = {}

    def path(self, function: FunctionType, code: CodeType) -> DottedPath:
        """The dotted path of a function."""
        return self._naming.path(function, code)

    def why_not(self, id: str) -> str | None:
        """Why what a name leads to can't be intercepted, or is governed by others."""
        return self.refusal(id) or self._overruled.message(id)

    def deciding(self, id: str) -> list[str]:
        """Ids of the breakpoints that decide about functions of the name of this one."""
        return self._overruled.deciding(id)

    def refusal(self, id: str) -> str | None:
        """Why what a name leads to can't be intercepted."""
        return self._attributes.refusals.get(id)

    def beside(self, name: FunctionName) -> str | None:
        """A note on functions of a name that are no user code because of where they are."""
        for function in existing_functions() if self._project.has_beside else ():
            code = original_code(code_of(function))
            file = self._naming.file(function, code)
            if name.matches(*self._naming.name(function, code), "") and (
                hint := self._project.beside(file)
            ):
                return f"{self._project.relative(file)} has one, {hint}"
        return None

    # --- functions that exist ---------------------------------------------------------------

    def begin(self) -> None:
        """All functions are looked at from now on."""
        self._defined.clear()
        self._overruled.clear()
        self._naming.forget()

    def functions(self) -> list[FunctionType]:
        """Those that names may mean, by their files and modules; generated ones come last."""
        found: list[FunctionType] = []
        generated: list[FunctionType] = []
        # A process has some ten thousand functions: each module's file is judged once.
        judged: dict[tuple[str, int], bool] = {}
        for function in existing_functions() if self._breakpoints else ():
            filename, names = code_of(function).co_filename, function.__globals__
            if filename.startswith("<"):
                generated.append(function)
                continue
            key = (filename, id(names))
            may = judged.get(key)
            if may is None:
                may = self.may_mean(self._file(function), module_name(function))
                if has_one_file(filename, names):
                    judged[key] = may
            if may:
                found.append(function)
        return found + generated

    def of(
        self, functions: list[FunctionType], is_apart: Callable[[FunctionType, FunctionProbe], bool]
    ) -> tuple[list[FunctionType], dict[int, FunctionProbe]]:
        """Those of the functions that names mean, and by id the breakpoint that governs each.

        `is_apart`: whether a function is left out, as its code decides about it.
        """
        found, governing = [], {}
        for function in functions:
            candidates = self._candidates(self._file(function))
            best = self._best(function, candidates) if candidates else None
            if best is not None and not is_apart(function, best):
                found.append(function)
                governing[id(function)] = best
        return found, governing

    def leads(self) -> list[tuple[Lead, FunctionProbe]]:
        """Functions that names lead to by an attribute; to be called after `of`."""
        found = self._attributes.follow(self._breakpoints.values(), self._defined)
        return [(lead, self._breakpoints[id]) for id, leads in found.items() for lead in leads]

    # --- functions that are not made yet ----------------------------------------------------

    def may_mean(self, file: str, module: str) -> bool:
        """Whether there may be a function that is meant in a file that is this module."""
        known, key = self._by_module, (file, module)
        found = known.get(key)
        if found is None:
            # To look at the file costs a `realpath`: only if the names leave it open.
            names = [breakpoint.name for breakpoint in self._breakpoints.values()]
            found = any(name.path is not None or name.may_be_in((module,), "") for name in names)
            if found:
                path = self._project.relative(file)
                candidates = self._candidates(file)
                found = any(candidate.name.may_be_in((module,), path) for candidate in candidates)
            known[key] = found
        return found

    def of_code(self, code: CodeType, module: str) -> FunctionProbe | None:
        """The breakpoint that governs what is made of some code."""
        matching = self._matching(code, module)
        if not matching:
            return None
        self._defined.update(probe.id for probe in matching)
        return self._overruled.best(matching)

    def are_in(self, root: CodeType, module: str, bound: frozenset[int]) -> bool:
        """Whether a name may mean a function of code that starts; any thread.

        Of a module, whether it may mean any function inside. Compares names, scans nothing.

        Args:
            bound: Ids of code that is intercepted already.
        """
        candidates = self._candidates(file_now(root.co_filename))
        if not candidates:
            return False
        is_module = root.co_name == "<module>"
        codes = list(codes_in(root)) if is_module else [root]
        if any(id(code) not in bound and self._matching(code, module) for code in codes):
            return True
        if not is_module or root.co_filename.startswith("<"):
            return False  # what is evaluated in a module assigns nothing that a name can mean
        file = self._project.relative(file_now(root.co_filename))
        names = [candidate.name for candidate in candidates]
        return may_assign(root, codes, names, module, file)

    # --- names ------------------------------------------------------------------------------

    def _file(self, function: FunctionType) -> str:
        return self._naming.file(function, code_of(function))

    def _candidates(self, file: str) -> list[FunctionProbe]:
        """The breakpoints that may mean a function defined in this file."""
        known = self._by_file
        probes = known.get(file)
        if probes is None:
            probes = [] if self._project.is_ours(file) else list(self._breakpoints.values())
            if not self._project.is_user(file):
                probes = [probe for probe in probes if probe.name.precision is Precision.EXACT]
            known[file] = probes
        return probes

    def _best(
        self, function: FunctionType, candidates: list[FunctionProbe]
    ) -> FunctionProbe | None:
        code = original_code(code_of(function))
        file = self._shown(candidates, self._naming.file(function, code))
        module, qualname = self._naming.name(function, code)
        matching = [each for each in candidates if each.name.matches(module, qualname, file)]
        # A stand-in runs the code of a function that is intercepted: its call would stop twice.
        if not matching or is_stand_in(function) or not is_function(code):
            return None
        names = names_of_module(sys.modules.get(module))
        if self._is_copy(code, module, qualname) and function.__globals__ is not names:
            return None
        self._defined.update(probe.id for probe in matching)
        return self._overruled.best(matching)

    def _matching(self, code: CodeType, module: str) -> list[FunctionProbe]:
        file = file_now(code.co_filename)
        candidates = self._candidates(file)
        named = module, code.co_qualname, self._shown(candidates, file)
        matching = [candidate for candidate in candidates if candidate.name.matches(*named)]
        if not matching or not is_function(code) or self._is_copy(code, module, code.co_qualname):
            return []
        return matching

    def _is_copy(self, code: CodeType, module: str, qualname: str) -> bool:
        """Whether generated code has the name of a function that the file of its module has.

        Libraries make such functions to check arguments, Celery at each `delay`.
        """
        if code.co_filename.startswith("<"):
            return (module, qualname) in self._own
        self._own.add((module, qualname))
        return False

    def _shown(self, candidates: list[FunctionProbe], file: str) -> str:
        """The relative path of a file, if any name has one."""
        has_path = any(candidate.name.path is not None for candidate in candidates)
        return self._project.relative(file) if has_path else ""
