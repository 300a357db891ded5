"""The variables of a frame by name: what there is, and what some of them hold.

Runs on the thread that is parked in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from pytest_cideldill.frames.frames import is_shown
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.objects.content_ids import Identified
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import type_name
from pytest_cideldill.rendering.tree import describe


def names_in(frame: FrameType, scope: str) -> list[dict[str, str]]:
    """`[{name, type}]`, in the order of their definition.

    Args:
        frame: Where to look.
        scope: `locals | globals | closure`; closure: what is the enclosing functions'.
    """
    values = _values(frame, scope)
    return [{"name": name, "type": type_name(value)} for name, value in values.items()]


def variables_in(
    frame: FrameType,
    scope: str,
    names: Sequence[str],
    lens: Lens,
    identify: Callable[[object, str], Identified],
) -> tuple[list[dict[str, Any]], list[str]]:
    """`[{name, type, value, cid, has_children}]` of some names, and the names that are none.

    `cid` names the object for `breakpoint_inspect_object`.

    Args:
        frame: Where to look.
        scope: As for `names_in`.
        names: Which ones.
        lens: Shows the values.
        identify: Gives an object its content id; runs no user code.
    """
    values = _values(frame, scope)
    described, missing = [], []
    for name in names:
        if name not in values:
            missing.append(name)
            continue
        value = values[name]
        shown = describe(value, name=name, depth=1, limits=lens.limits, redactor=lens.redactor)
        described.append(
            {
                "name": name,
                "type": shown["type"],
                "value": shown["repr"],
                "cid": identify(value, name).cid,
                "has_children": bool(shown["attributes"] or shown.get("truncated")),
            }
        )
    return described, missing


def _values(frame: FrameType, scope: str) -> Mapping[str, Any]:
    if scope == "globals":
        found: Mapping[str, Any] = frame.f_globals
    else:
        found = read_locals(frame)
        if scope == "closure":
            free = frame.f_code.co_freevars
            found = {name: value for name, value in found.items() if name in free}
    return {name: value for name, value in list(found.items()) if is_shown(name)}
