"""Objects opened by one level: what a short value had to leave out of what matters most.

Runs on the thread of the failure; no user code runs here.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.one_line import type_name
from pytest_cideldill.rendering.parts import TEXTS, kind_of, length_of
from pytest_cideldill.rendering.tree import Part, parts_of

MOST_OPENED: Final = 5
"""Values of one frame."""

_MOST_CHILDREN: Final = 12

_CUT: Final = re.compile(r"…|[\[({]\d+ items?[\])}]")
"""In the text of a value of which something was left out."""


def opened(value: object, shown: str, lens: Lens) -> dict[str, Any]:
    """`{children, length, truncated}` of a value; empty when `shown` tells all that is in it.

    `children`: `[{name, type, value}]`, named by the step to each: `.items`, `[2]`. `length` of a
    collection. `truncated`: true when there are more.

    Args:
        value: Anything.
        shown: Its short value.
        lens: Shows the parts.
    """
    if not _CUT.search(shown):
        return {}
    limits = lens.limits
    most = min(_MOST_CHILDREN, max(limits.max_items, limits.max_attributes))
    found = list(parts_of(value, most + 1, lens.redactor))
    if not found:
        return {}
    told: dict[str, Any] = {"children": [_child(part, lens) for part in found[:most]]}
    if (kind := kind_of(value)) is not None and kind not in TEXTS:
        told["length"] = length_of(value, kind)
    if len(found) > most:
        told["truncated"] = True
    return told


def _child(part: Part, lens: Lens) -> dict[str, str]:
    name = part.name if type(part.name) is str else ""
    told = {
        "name": part.key if part.key.startswith("[") else f".{part.key}",
        "type": type_name(part.value),
        "value": lens.show(part.value, name),
    }
    return told if part.shown_key is None else told | {"key": part.shown_key}
