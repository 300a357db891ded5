"""Renders a live object as a tree of plain data, from the object's data: no user code runs.

Runs on the thread that holds the object, or on any thread for values that no other thread has. Must
not know where a description goes. `protocol.object_paths` says how parts are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from pytest_cideldill.config.limits import DEFAULTS, Limits
from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.protocol.object_paths import attribute_key, item_key, position_key
from pytest_cideldill.redaction.harmless import label_inside
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.redaction.tags import TAG
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import LARGE, NUMBERS, Layout
from pytest_cideldill.rendering.one_line import (
    Detail,
    is_key_of_value,
    name_before,
    name_of_key,
    name_of_pair,
    render,
)
from pytest_cideldill.rendering.parts import (
    DICT,
    SEQUENCES,
    TEXTS,
    attributes_of,
    fields_of,
    items_of,
    kind_of,
    length_of,
)

MAX_NODES: Final = 1_000
"""Objects in one description."""

MAX_CHARACTERS: Final = 50_000
"""Characters of all renderings and names in one description; the last may exceed it a little."""

STRING: Final = 2_000
"""Characters of a string that is inspected (docs/limits.md)."""

_TEXT: Final = 2_100
"""Characters of the rendering of the object itself; for its parts see `_PART`."""

_PART: Final = 200

MOST_OPENED: Final = 5
"""How many values of one frame are opened."""

_MOST_CHILDREN: Final = 12

_CUT: Final = re.compile(r"…|[\[({]\d+ items?[\])}]")
"""Matches the rendering of a value of which something was left out."""


class Part(NamedTuple):
    """A part of an object.

    Attributes:
        key: The step to it.
        name: The name or key that decides whether it is secret; any object may be a key.
        shown_key: The rendered key of a dictionary, where the step is not the key.
    """

    key: str
    name: Any
    value: Any
    shown_key: str | None = None


def describe(
    value: object,
    *,
    name: str = "",
    depth: int | None = None,
    limits: Limits = DEFAULTS,
    redactor: Redactor | None = None,
    milliseconds: float | None = None,
) -> dict[str, Any]:
    """The snapshot of an object as plain data; runs no user code, never raises.

    Args:
        name: Its name, which decides whether it is secret as a whole.
        depth: Levels that are opened, as far as limits allow; by default `limits.max_depth`.
        milliseconds: Time after which the rest is left out; by default `limits.capture_ms`.

    Returns:
        `type` (`module.QualName`, builtins bare), `repr` (one line), `attributes` (step → the same
        for a part, see `protocol.object_paths`); `length` of strings and collections; `truncated`:
        true, where something was left out; `key` of a part whose step is not the key.
    """
    wanted = limits.max_depth if depth is None else depth
    took = limits.capture_ms if milliseconds is None else milliseconds
    try:
        return _Describing(limits, redactor, took).node(name, value, wanted, is_part=False)
    except Exception as error:  # noqa: BLE001 - a border: a test must not fail on a value that is shown
        shown = f"<unrenderable: {layout.class_name(type(error))}>"
        return {"type": layout.encodable(layout.type_name(value)), "repr": shown, "attributes": {}}


class PartReader:
    """Reads the parts of many objects, with what decides whether they are secret.

    Args:
        redactor: Keeps secrets out of the keys.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        describing = _Describing(DEFAULTS, redactor, DEFAULTS.capture_ms)
        self.items = describing.items
        self.attributes = describing.attributes


class _Describing:
    """The state of one description: the rest of its limits, and the objects that it is inside."""

    def __init__(self, limits: Limits, redactor: Redactor | None, milliseconds: float) -> None:
        self._limits = limits
        self._redactor = redactor
        self._nodes = MAX_NODES
        self._left = MAX_CHARACTERS
        self._deadline = Deadline(milliseconds / 1000)
        self._path: set[int] = set()
        self._layouts: dict[int, Layout] = {}
        self._detail = Detail(
            depth=limits.max_depth,
            attributes=limits.max_attributes,
            items=limits.max_items,
            string=limits.max_string,
            text=_TEXT,
            milliseconds=milliseconds,
        )
        self._detail_of_part = replace(self._detail, depth=1, attributes=10, items=10, text=_PART)
        self._details_of_text = {
            most: Detail(string=most, text=2 * most + 100) for most in (STRING, limits.max_string)
        }

    def node(
        self, name: Any, x: Any, depth: int, under: str = "", *, is_part: bool = True
    ) -> dict[str, Any]:
        """The description of `x`, opening at most `depth` levels.

        `under`: the label of a sensitive name around `x`.
        """
        cls = type(x)
        self._nodes -= 1
        is_number = id(cls) in NUMBERS and (cls is not int or -LARGE < x < LARGE)
        label = self._label(name) or under
        if is_number and not label:
            self._left -= 40
            return {"type": cls.__name__, "repr": repr(x), "attributes": {}}
        description: dict[str, Any] = {"type": layout.encodable(layout.class_name(cls))}
        kind = kind_of(x)
        if kind in TEXTS:
            return self._text(description, name, x, length_of(x, kind), label)
        if id(x) in self._path:
            return description | {"repr": "<cycle>", "attributes": {}}
        description["repr"] = shown = self._shown(name, x, is_part, label)
        parts: dict[str, Any] = {}
        description["attributes"] = parts
        self._left -= len(shown) + 40
        if self._redactor is not None and TAG.fullmatch(shown):
            return description
        if kind is not None:
            description["length"] = length_of(x, kind)
        self._path.add(id(x))
        try:
            inside = label_inside(label, is_object=kind is None)
            if not self._open(x, kind, depth, parts, inside):
                description["truncated"] = True
        finally:
            self._path.discard(id(x))
        return description

    def _label(self, name: Any) -> str:
        if self._redactor is None:
            return ""
        return self._redactor.label(name if type(name) is str else name_of_key(name))

    def _text(
        self, description: dict[str, Any], name: Any, x: Any, length: int, label: str
    ) -> dict[str, Any]:
        most = STRING if self._left > STRING else self._limits.max_string
        detail = self._details_of_text[most]
        shown = "" if label else self._short(x, most)
        shown = shown or self._rendered(x, detail, name, label)
        description["repr"] = shown
        description["attributes"] = {}
        self._left -= len(shown) + 40
        if self._redactor is not None and TAG.search(shown):
            return description  # without the length of the secret
        description["length"] = length
        if length > most:
            description["truncated"] = True
        return description

    def _shown(self, name: Any, x: Any, is_part: bool, label: str) -> str:
        detail = self._detail_of_part if is_part else self._detail
        shown = self._rendered(x, detail, name, label)
        # Redacted once more as a whole: some types are rendered from strings that were not
        # redacted.
        return self._redactor.redact_text(shown) if self._redactor else shown

    def _short(self, x: Any, most: int) -> str:
        """The rendering of an ordinary string at a third of the cost of `render`; else empty."""
        if type(x) is not str or len(x) > most:
            return ""
        if self._redactor is not None:
            x = self._redactor.redact_text(x)
        shown = layout.encodable(repr(x))
        return shown if len(shown) <= 2 * most else ""

    def _rendered(self, x: Any, detail: Detail, name: Any, label: str) -> str:
        name = name if type(name) is str else name_of_key(name)
        return render(x, detail, self._redactor, name, self._layouts, under=label)

    def _open(
        self, x: Any, kind: int | None, depth: int, parts: dict[str, Any], label: str
    ) -> bool:
        """Describe the parts of `x`; False if some are left out."""
        limits = self._limits
        for some_parts, most in (
            (self.items(x, kind, limits.max_items + 1), limits.max_items),
            (self.attributes(x), limits.max_attributes),
        ):
            for count, (key, name, value, shown_key) in enumerate(some_parts):
                is_late = self._nodes <= 0 or self._left <= 0 or self._deadline.is_over()
                if depth <= 0 or count >= most or is_late:
                    return False
                parts[key] = self.node(name, value, depth - 1, label)
                if shown_key is not None:
                    parts[key]["key"] = shown_key
                self._left -= len(key)
        return True

    def items(self, x: Any, kind: int | None, most: int) -> Iterator[Part]:
        """The items of a collection."""
        if kind is None or fields_of(x):
            return
        before: Any = None
        pair_name = ""
        count = length_of(x, kind)
        for number, item in enumerate(items_of(x, kind, most)):
            if kind == DICT:
                key, value = item
                part = self._pair(number, key, value)
                yield part._replace(name=pair_name) if pair_name and is_key_of_value(key) else part
                pair_name = name_of_pair(key, value) or pair_name
            else:
                step = f"[{number}]" if kind in SEQUENCES else position_key(number)
                yield Part(step, name_before(before, item, count), item)
                before = item

    def _pair(self, number: int, key: Any, value: Any) -> Part:
        step = item_key(key)
        if step is not None and (not self._redactor or self._redactor.redact_text(step) == step):
            return Part(step, key, value)
        return Part(position_key(number), key, value, self._shown("", key, True, ""))

    def attributes(self, x: Any) -> Iterator[Part]:
        """The attributes that are data of the object."""
        for name, value in attributes_of(x, self._layouts):
            yield Part(layout.encodable(attribute_key(name)), name, value)


# --- objects that are opened by one level -------------------------------------------------------


def opened(value: object, shown: str, lens: Lens) -> dict[str, Any]:
    """`{children, length, truncated}` of a value; empty when `shown` left nothing out.

    `children`: `[{name, type, value}]`; a name is the step to the child: `.items`, `[2]`. `length`
    of a collection. `truncated`: true when there are more children.
    """
    if not _CUT.search(shown):
        return {}
    limits = lens.limits
    most = min(_MOST_CHILDREN, max(limits.max_items, limits.max_attributes))
    reader, kind = PartReader(lens.redactor), kind_of(value)
    attributes = islice(reader.attributes(value), most + 1)
    parts = [*reader.items(value, kind, most + 1), *attributes]
    if not parts:
        return {}
    fields: dict[str, Any] = {"children": [_child(part, lens) for part in parts[:most]]}
    if kind is not None and kind not in TEXTS:
        fields["length"] = length_of(value, kind)
    if len(parts) > most:
        fields["truncated"] = True
    return fields


def _child(part: Part, lens: Lens) -> dict[str, str]:
    name = part.name if type(part.name) is str else ""
    child = {
        "name": part.key if part.key.startswith("[") else f".{part.key}",
        "type": layout.type_name(part.value),
        "value": lens.show(part.value, name),
    }
    return child if part.shown_key is None else child | {"key": part.shown_key}
