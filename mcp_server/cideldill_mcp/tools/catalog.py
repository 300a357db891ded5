"""Functions by name, as the sources define them: with or without a run."""

from __future__ import annotations

import os
from typing import Any

from cideldill_mcp.breakpoints.inspection import (
    Function,
    Survey,
    beside,
    find_places,
    path_of,
    project_of,
    sources_of,
)
from cideldill_mcp.breakpoints.kinds import SOURCES, FunctionBreakpoint
from cideldill_mcp.breakpoints.places import Place
from cideldill_mcp.callrecords.records import Records
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.tools.definitions import AFTER, Param, Reply, Request, Tool, behind
from cideldill_mcp.tools.tests import matches
from pytest_cideldill.errors import ErrorCode, Refusal, invalid
from pytest_cideldill.protocol import Bound
from pytest_cideldill.sourcecode.names import (
    FunctionName,
    Precision,
    method_of_c,
    parse_function_name,
)

MAX_CANDIDATES = 20
"""Functions that a refusal lists of an ambiguous name."""


async def list_functions(request: Request) -> Reply:
    """`breakpoint_list_functions`: every function that the project's sources define."""
    survey = await sources_of(request.runs.recipe).all()
    functions: dict[str, Function] = {}
    for function in survey.functions:
        # Of two conftests with one name the upper one counts, in one file the last definition.
        if function.name not in functions or function.file == functions[function.name].file:
            functions[function.name] = function
    names = [
        name for name in functions if not request["pattern"] or matches(request["pattern"], name)
    ]
    left = behind(names, str, request["after"])
    page = left[: request["limit"]]
    body: dict[str, Any] = {
        "functions": list(page),
        "signatures": {name: functions[name].signature for name in page},
        "metadata": {name: _metadata(functions[name], request.runs.records) for name in page},
        "total_count": len(names),
        "truncated": len(page) < len(left),
        "skipped": len(survey.skipped),
    }
    if body["truncated"]:
        body["next_after"] = page[-1]
    if message := survey.message or _left_out(request.runs.recipe):
        body["message"] = message
    in_step = {"functions": ("signatures", "metadata")}
    return Reply(body, lists=["functions"], cursor=str, in_step=in_step)


def _left_out(recipe: Recipe) -> str | None:
    """A message for projects that may have code outside of the rootdir."""
    project = project_of(recipe)
    if recipe.user_paths or not project.has_beside:
        return None
    return f"of {project.rootdir}; cideldill_user_paths adds folders beside it"


def _metadata(function: Function, records: Records) -> dict[str, Any]:
    return {
        "file": function.file,
        "line": function.line,
        "kind": function.kind,
        "calls": records.count(function.file, function.qualname),
    }


# --- names without a run ------------------------------------------------------------------------


def parsed(request: Request, text: str, parameter: str = "function_name") -> FunctionName:
    """Parse a function's name; the path of a file becomes relative to the rootdir.

    Raises:
        Refusal: `invalid_parameter`.
    """
    try:
        name = parse_function_name(text.strip())
    except ValueError as error:
        raise invalid(parameter, str(error), "name") from error
    project = project_of(request.runs.recipe)
    # The project of a record may be that of another machine.
    is_here = name.path is not None and os.path.isdir(project.rootdir)
    if is_here and (file := project.found(name.path or "")) is not None:
        return name.at(project.relative(file))
    return name.within(sources_of(request.runs.recipe).root.as_posix())


def stored(request: Request, text: str) -> FunctionBreakpoint | None:
    """The breakpoint of a name, in any spelling that `breakpoint_add` accepts for it."""
    try:
        return request.desired.named(parsed(request, text).text)
    except Refusal:  # no breakpoint can have such a name
        return None


async def foreseen(request: Request, added: FunctionBreakpoint) -> Bound | None:
    """The functions that a breakpoint will be bound to, by the sources.

    None if a process reports it, or if the last run reported more. The result is kept with the
    breakpoint as long as there is no run.

    Raises:
        Refusal: `cannot_intercept`: a method of a builtin class.
    """
    active = request.runs.active
    if active is not None and active.targets:
        return None
    added.bound.pop(SOURCES, None)
    bound = await _from_sources(request.runs.recipe, added)
    active = request.runs.active
    if active is not None and active.targets:
        return None
    if active is None:
        if added.verified and not bound.verified:
            return None
        added.bound.clear()
        added.bound[SOURCES] = bound
        added.changed()
    return bound


async def _from_sources(recipe: Recipe, added: FunctionBreakpoint) -> Bound:
    sources, name = sources_of(recipe), parse_function_name(added.spec.function_name)
    try:
        survey = await sources.find(name)
        names = sorted({function.name for function in survey.functions})
        if names and survey.is_certain:
            return Bound(added.id, names, verified=True, via="code")
        close = names or await sources.close_to(name)
        rest = _rest(survey) + ("" if names else await beside(recipe, name))
    except Refusal as refusal:  # the breakpoint itself is valid
        return Bound(added.id, [], verified=False, message=refusal.message)
    if not survey.functions and name.is_builtin_method:
        owner, _, _ = name.target.rpartition(".")
        raise Refusal(
            ErrorCode.CANNOT_INTERCEPT, method_of_c(name.target, owner), function=name.text
        )
    return Bound(
        added.id,
        [],
        verified=False,
        message=f"not bound yet: no function of the project's sources has this name{_hint(close)}; "
        f"it is bound when a test process loads one{rest}",
    )


def _hint(close: list[str]) -> str:
    return f" (did you mean {' or '.join(close[:3])}?)" if close else ""


def _rest(survey: Survey) -> str:
    return f"; {survey.message}" if survey.message else ""


async def find_one(request: Request, text: str) -> Function:
    """The one function of the sources that a name means.

    Raises:
        Refusal: `function_not_found`, also if there are several.
    """
    name, sources = parsed(request, text), sources_of(request.runs.recipe)
    survey = await sources.find(name)
    if name.precision is not Precision.GLOB and len(survey.functions) == 1:
        return survey.functions[0]
    if survey.functions:
        functions = [(function.name, function.file, function.line) for function in survey.functions]
        why = f"{text!r} means {_listed(functions)}; give the whole name of one"
    else:
        why = (
            f"no function {text!r} is loaded, and none of the project's sources has this name"
            f"{_hint(await sources.close_to(name))}{_rest(survey)}"
        )
    raise Refusal(ErrorCode.FUNCTION_NOT_FOUND, why, function=text)


# --- one function's first line ------------------------------------------------------------------


async def first_line(request: Request, text: str, **checked: Any) -> Place:
    """The first line of the one function that a name means.

    Args:
        text: The name, in any form but a glob.
        checked: The condition and the template that `inspection.find_places` checks.

    Raises:
        Refusal: `invalid_parameter` (a glob; with `candidates`: a name of several functions),
            `function_not_found`, and those of `find_places`.
    """
    recipe, name = request.runs.recipe, parsed(request, text, "function")
    if name.precision is Precision.GLOB:
        raise invalid(
            "function",
            f"{name.text!r} is a glob, and a line is in one function: give its name; "
            "breakpoint_add takes globs",
            "name of one function",
        )
    sources = sources_of(recipe)
    survey = await sources.find(name)
    if not survey.functions:
        return await _elsewhere(recipe, name, survey, **checked)
    function = survey.functions[0]
    if len(survey.functions) > 1:
        raise _several(name, [(place.name, place.file, place.line) for place in survey.functions])
    path = sources.root / function.file
    places = await find_places(recipe, path, function=function.qualname, **checked)
    # A setter has its getter's qualified name.
    return max(
        (place for place in places if int(place.key[1]) <= function.line),
        key=lambda place: place.line,
        default=places[0],
    )


async def _elsewhere(recipe: Recipe, name: FunctionName, survey: Survey, **checked: Any) -> Place:
    """The place of a function that the survey of the project's sources does not contain."""
    sources = sources_of(recipe)
    if name.path is not None and os.path.isfile(sources.root / name.path):
        path = path_of(recipe, name.path)
        places = await find_places(recipe, path, function=name.target, **checked)
        if len(places) > 1:
            raise _several(name, [(place.function, place.shown, place.line) for place in places])
        return places[0]
    close = await sources.close_to(name)
    if name.path is not None and not close:
        path_of(recipe, name.path)
    raise Refusal(
        ErrorCode.FUNCTION_NOT_FOUND,
        f"no function of the project is called {name.text!r}{_hint(close)}; "
        f"breakpoint_list_functions shows them all{_rest(survey)}{await beside(recipe, name)}",
        function=name.text,
        known=close,
    )


def _listed(functions: list[tuple[str, str, int]]) -> str:
    shown = [f"{function} ({file}:{line})" for function, file, line in functions[:3]]
    more = ", …" if len(functions) > len(shown) else ""
    return f"{len(functions)} functions: {', '.join(shown)}{more}"


def _several(name: FunctionName, functions: list[tuple[str, str, int]]) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PARAMETER,
        f"{name.text!r} means {_listed(functions)}; give the whole name of one, or file and line",
        parameter="function",
        expected="name of one function",
        candidates=[
            {"function": function, "file": file, "line": line}
            for function, file, line in functions[:MAX_CANDIDATES]
        ],
    )


TOOLS = (
    Tool(
        "breakpoint_list_functions",
        "List functions",
        "Functions of the project with signature, file and line: names for "
        "breakpoint_add. Works without a run.",
        list_functions,
        (
            Param("pattern", "string", "Substring or glob"),
            Param("limit", "integer", default=100, minimum=1),
            AFTER,
        ),
        reads_only=True,
        is_list=True,
    ),
)
