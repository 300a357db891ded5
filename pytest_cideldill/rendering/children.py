"""Opens an object by one level, where its short rendering had to leave parts out.

Used for the values that matter most in a failure. Runs on the thread of the failure; no user code
runs here.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.one_line import type_name
from pytest_cideldill.rendering.parts import TEXTS, kind_of, length_of
from pytest_cideldill.rendering.tree import Part, parts_of

MOST_OPENED: Final = 5
"""How many values of one frame are opened."""

_MOST_CHILDREN: Final = 12

_CUT: Final = re.compile(r"…|[\[({]\d+ items?[\])}]")
"""Matches the rendering of a value of which something was left out."""


def opened(value: object, shown: str, lens: Lens) -> dict[str, Any]:
    """`{children, length, truncated}` of a value; empty when `shown` left nothing out.

    `children`: `[{name, type, value}]`; a name is the step to the child: `.items`, `[2]`. `length`
    of a collection. `truncated`: true when there are more children.

    Args:
        value: Anything.
        shown: Its short rendering.
        lens: Renders the children.
    """
    if not _CUT.search(shown):
        return {}
    limits = lens.limits
    most = min(_MOST_CHILDREN, max(limits.max_items, limits.max_attributes))
    parts = list(parts_of(value, most + 1, lens.redactor))
    if not parts:
        return {}
    fields: dict[str, Any] = {"children": [_child(part, lens) for part in parts[:most]]}
    if (kind := kind_of(value)) is not None and kind not in TEXTS:
        fields["length"] = length_of(value, kind)
    if len(parts) > most:
        fields["truncated"] = True
    return fields


def _child(part: Part, lens: Lens) -> dict[str, str]:
    name = part.name if type(part.name) is str else ""
    child = {
        "name": part.key if part.key.startswith("[") else f".{part.key}",
        "type": type_name(part.value),
        "value": lens.show(part.value, name),
    }
    return child if part.shown_key is None else child | {"key": part.shown_key}
