"""What a function of the package under test would do if its code were that of the release.

Called from the expressions that an agent evaluates at a pause: one function is taken from an intact
copy of the package and runs on the names of the package under test, so that it alone is different.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from types import FunctionType
from typing import Any

INTACT = "intact_"
"""Prefix of the intact copy's name."""

SHOWN = 50
"""How many items of a lazy result are compared."""


def result(path: str, arguments: dict[str, Any]) -> Any:
    """What the released function gives for these arguments."""
    return _called(_released(path), arguments)


def comparison(path: str, arguments: dict[str, Any]) -> dict[str, str]:
    """What both versions give for copies of the arguments.

    Raises:
        TypeError: An argument can be read only once, so that nothing can be tried on it.
    """
    _, function = _found(path)
    actual = _shown(function, {name: copy(value) for name, value in arguments.items()})
    expected = _shown(_released(path), {name: copy(value) for name, value in arguments.items()})
    return {"actual": actual, "expected": expected}


def _released(path: str) -> FunctionType:
    module, function = _found(path)
    intact = _attribute(importlib.import_module(INTACT + module), path.removeprefix(f"{module}."))
    made = FunctionType(intact.__code__, function.__globals__, intact.__name__, intact.__defaults__)
    made.__kwdefaults__ = intact.__kwdefaults__
    return made


def _found(path: str) -> tuple[str, FunctionType]:
    """The module and the function under test that a dotted path means."""
    module = path
    while module not in sys.modules:
        module = module.rpartition(".")[0]
    return module, _attribute(sys.modules[module], path.removeprefix(f"{module}."))


def _attribute(holder: Any, path: str) -> FunctionType:
    for name in path.split("."):
        holder = getattr(holder, name)
    assert isinstance(holder, FunctionType)
    return holder


def _called(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    bound = inspect.signature(function).bind_partial()
    bound.arguments.update(arguments)
    return function(*bound.args, **bound.kwargs)


def _shown(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    try:
        value = _called(function, arguments)
        return repr(list(islice(value, SHOWN)) if isinstance(value, Iterator) else value)
    except Exception as error:  # noqa: BLE001 - what it raises is what it does
        return repr(error)
