"""Renders a live object as one line of text, from the object's data: no user code runs.

Runs in the process under test on the thread that hit. Owns the limits and the way into nested
values; must not know frames, pauses or which names are secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import EnumType
from itertools import islice
from types import NoneType
from typing import Any, Final
from uuid import UUID

from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.redaction.by_name import MAX_NAME
from pytest_cideldill.redaction.harmless import (
    is_harmless_number,
    is_option_value,
    is_second,
    label_inside,
    maybe,
)
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering import layout
from pytest_cideldill.rendering.layout import LARGE, Layout, class_name
from pytest_cideldill.rendering.library_types import draw_library
from pytest_cideldill.rendering.parts import fields_of
from pytest_cideldill.rendering.types import (
    CONTAINERS,
    LEAVES,
    PATHS,
    draw_call,
    draw_enum,
    draw_mock,
    is_call,
    is_mock,
    whole_text,
)

_NO_NAMES: Final = frozenset(map(id, (NoneType, bool, dict, float, int, list, tuple)))
"""Ids of the classes of most items, which are no names; of other classes the bases are read."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of one value is shown.

    Attributes:
        depth: Levels of containers and objects that are opened; items below are only counted.
        attributes: Attributes per object.
        items: Items per collection, the first ones.
        string: Characters per string, bytes per bytes object.
        text: Characters of the whole rendering.
        milliseconds: Time after which the rest is left out.
    """

    depth: int = 3
    attributes: int = 100
    items: int = 100
    string: int = 200
    text: int = 600
    milliseconds: float = 50


DEFAULT_DETAIL: Final = Detail()


def render(
    value: object,
    detail: Detail = DEFAULT_DETAIL,
    redactor: Redactor | None = None,
    name: str = "",
    layouts: dict[int, Layout] | None = None,
    *,
    under: str = "",
) -> str:
    """One line like `Cart(items=[3 items], coupon='BULK10')`; can be encoded as UTF-8.

    Runs no user code and never raises: a value that can't be rendered becomes
    `<unrenderable: TypeError>`.

    Args:
        layouts: Layouts that were made before, by the ids of their classes.
        under: The label of a sensitive name around the value, see `Redactor.label`.
    """
    try:
        rendering = Renderer(detail, redactor, {} if layouts is None else layouts, under)
        text = rendering.named(name, value, detail.depth)
        if len(text) > detail.text:
            text = text[: max(detail.text - 1, 0)] + "…"
        return layout.encodable(text)
    except Exception as error:  # noqa: BLE001 - a border: a pause must not fail on a value that it shows
        return f"<unrenderable: {class_name(type(error))}>"


class Renderer:
    """The state of one rendering: the rest of its limits, and the objects that it is inside."""

    __slots__ = ("_deadline", "_detail", "_layouts", "_left", "_path", "_redactor", "_under")

    def __init__(
        self, detail: Detail, redactor: Redactor | None, layouts: dict[int, Layout], under: str
    ) -> None:
        self._redactor = redactor
        self._detail = detail
        self._left = detail.text
        self._deadline = Deadline(detail.milliseconds / 1000)
        self._path: set[int] = set()
        self._layouts = layouts
        # The label of the sensitive name that the value or one around it has.
        self._under = under

    @property
    def string_limit(self) -> int:
        """Characters per string."""
        return self._detail.string

    def shown(self, x: str) -> str:
        """The start of a string; its secrets are replaced before it is cut."""
        limit = self._detail.string
        return self._redactor.redact_text(x, limit) if self._redactor else x[:limit]

    def shown_bytes(self, x: bytes) -> bytes:
        """The start of some bytes, as `shown`."""
        limit = self._detail.string
        return self._redactor.redact_bytes(x, limit) if self._redactor else x[:limit]

    def named(self, name: Any, x: Any, depth: int) -> str:
        """Render a value that has a name or a key; any object may be a key."""
        redactor = self._redactor
        if type(name) is not str:
            name = name_of_key(name)
        if redactor is None or not name or not (label := redactor.label(name)):
            return self.value(x, depth)
        around, self._under = self._under, label
        try:
            return self.value(x, depth, name)
        finally:
            self._under = around

    def value(self, x: Any, depth: int, name: str = "") -> str:
        """Render `x`, opening at most `depth` levels."""
        if self._under and (hidden := self._hidden(x, name)):
            self._left -= len(hidden)
            return hidden
        kind = id(type(x))
        try:
            leaf = LEAVES.get(kind)
            if leaf is None:
                return self._open(x, kind, depth)
            text = leaf(self, x, depth)
        except Exception as error:  # noqa: BLE001 - a border: one odd object must not hide the rest
            text = f"<unrenderable: {class_name(type(error))}>"
        self._left -= len(text)
        return text

    def _hidden(self, x: Any, name: str) -> str:
        """The tag of a text or a number under a sensitive name; empty for any other value."""
        redactor, label = self._redactor, self._under
        assert redactor is not None
        if type(x) is int:
            digits = repr(x) if -LARGE < x < LARGE else ""  # larger ones are no PIN
            return "" if is_harmless_number(label, digits) else redactor.tag(label, digits)
        text = "" if is_enum(type(x)) else whole_text(x) or _text_of_leaf(x)
        if not text:
            return ""
        hidden = redactor.hide_under(label, text, name)
        return "" if hidden is text else hidden

    def _key(self, x: Any, depth: int) -> str:
        """Render a key of a mapping: under a sensitive name it is mostly a name, and no secret."""
        if not self._under:
            return self.value(x, depth)
        around, self._under = self._under, maybe(self._under)
        try:
            return self.value(x, depth)
        finally:
            self._under = around

    def sequence(self, ends: str, items: Iterator[Any], count: int, depth: int) -> str:
        """Render items between two brackets; below the depth only their number."""
        if not count:
            return ends
        if depth <= 0:
            return f"{ends[0]}{count} {'item' if count == 1 else 'items'}{ends[1]}"
        comma = "," if ends == "()" and count == 1 else ""
        return ends[0] + self._joined(items, count, depth) + comma + ends[1]

    def mapping(self, items: Iterator[tuple[Any, Any]], count: int, depth: int) -> str:
        """Render pairs in braces, as `sequence` does with items."""
        if not count or depth <= 0:
            return self.sequence("{}", iter(()), count, depth)
        below = depth - 1
        pair_name = ""

        def draw(pair: tuple[Any, Any]) -> str:
            nonlocal pair_name
            key, x = pair
            name = pair_name if pair_name and is_key_of_value(key) else key
            pair_name = name_of_pair(key, x) or pair_name
            return f"{self._key(key, below)}: {self.named(name, x, below)}"

        parts = self._parts(items, draw, self._detail.items)
        return "{" + ", ".join(_with_rest(parts, count, "items")) + "}"

    def _joined(self, items: Iterator[Any], count: int, depth: int) -> str:
        before: Any = None

        def draw(item: Any) -> str:
            nonlocal before
            name = name_before(before, item, count)
            before = item
            return self.named(name, item, depth - 1) if name else self.value(item, depth - 1)

        parts = self._parts(items, draw, self._detail.items)
        return ", ".join(_with_rest(parts, count, "items"))

    def _parts(self, items: Iterator[Any], draw: Callable[[Any], str], most: int) -> list[str]:
        parts: list[str] = []
        # Copied in one step, as another thread may be changing the container.
        for item in tuple(islice(items, most)):
            if self._left <= 0 or self._deadline.is_over():
                break
            parts.append(draw(item))
            self._left -= 2  # the comma and the blank
        return parts

    def _open(self, x: Any, kind: int, depth: int) -> str:
        """Render a value that may hold others, itself among them."""
        if id(x) in self._path:
            return "<cycle>"
        self._path.add(id(x))
        around = self._under
        try:
            draw = CONTAINERS.get(kind) or PATHS.get(kind)
            if draw is not None:
                return draw(self, x, depth)
            self._under = label_inside(around, is_object=True)
            return self._other(x, depth)
        finally:
            self._under = around
            self._path.discard(id(x))

    def _other(self, x: Any, depth: int) -> str:
        """Render a value whose type is in no table, though one of its bases may be."""
        cls = type(x)
        if layout.flags(cls) & layout.IS_CLASS:
            return f"<class {class_name(x)!r}>"
        if is_enum(cls):
            self._under = ""  # a constant of the program's source is no secret
            return draw_enum(self, x, dict(self._layout(cls).attributes(x)), depth)
        if is_mock(cls):
            return draw_mock(cls, dict(self._layout(cls).attributes(x)))
        if is_call(cls):
            return draw_call(self, x, dict(self._layout(cls).attributes(x)), depth)
        library = draw_library(self, x, depth)
        if library is not None:
            return library
        base = self._base_text(x, cls, depth)
        if base is None and self._layout(cls).is_opaque:
            return f"<{class_name(cls)} object>"
        if base is not None and base.startswith("<"):
            return base  # a module, say: its name is enough
        return self._object(x, cls, base, depth)

    def _base_text(self, x: Any, cls: type, depth: int) -> str | None:
        """Render an object as its built-in base class; None if it has none."""
        if layout.flags(cls) & layout.IS_EXCEPTION:
            args = layout.args_of(x)
            return self._joined(iter(args), len(args), depth) if depth > 0 or not args else "…"
        if depth > 0 and (fields := fields_of(x)):
            pairs = zip(fields, tuple.__iter__(x), strict=False)
            return ", ".join(self._parts(pairs, self._pair(depth), self._detail.attributes))
        for base in layout.mro(cls):
            draw = LEAVES.get(id(base)) or CONTAINERS.get(id(base))
            if draw is not None:
                return draw(self, x, depth)
        return None

    def _object(self, x: Any, cls: type, base: str | None, depth: int) -> str:
        parts = [base] if base else []
        attributes = self._layout(cls).attributes_in_order(x)
        if attributes and depth <= 0:
            parts.append("…")
        elif attributes:
            shown = self._parts(iter(attributes), self._pair(depth), self._detail.attributes)
            parts += _with_rest(shown, len(attributes), "attributes")
        return f"{layout.short_name(cls)}({', '.join(parts)})"

    def _pair(self, depth: int) -> Callable[[tuple[str, Any]], str]:
        return lambda pair: f"{layout.label(pair[0])}={self.named(pair[0], pair[1], depth - 1)}"

    def _layout(self, cls: type) -> Layout:
        class_layout = self._layouts.get(id(cls))
        if class_layout is None:
            # A layout refers to its class, so that no other class can get the same id meanwhile.
            class_layout = self._layouts[id(cls)] = Layout.of(cls)
        return class_layout


def is_enum(cls: type) -> bool:
    """Whether values of a class are members of an enumeration."""
    return type(cls) is not type and layout.is_a(type(cls), EnumType)


def _text_of_leaf(x: Any) -> str:
    """The text in a value that is no string but is rendered from text or bytes; else empty."""
    if layout.is_a(type(x), bytearray):
        return bytearray.decode(x, "latin-1")
    return str(x) if type(x) is UUID else ""


def name_of_key(key: object) -> str:
    """The name in a key that is no plain string: bytes, the last item of a tuple; else empty."""
    if type(key) is tuple and key:
        key = key[-1]
    if id(type(key)) in _NO_NAMES:
        return ""
    text = whole_text(key)
    return text if text and len(text) <= MAX_NAME else ""


def is_key_of_value(key: object) -> bool:
    """Whether a key is that of the value in `{"name": …, "value": …}`."""
    return type(key) is str and key in ("value", "Value")


def name_of_pair(key: object, x: object) -> str:
    """The name that a pair of `{"name": …, "value": …}` holds; empty for any other pair."""
    if type(key) is not str or key not in ("name", "Name", "key", "Key"):
        return ""
    return x if type(x) is str and len(x) <= MAX_NAME else ""


def name_before(before: object, x: object, count: int) -> str:
    """The name that the item before gives to an item; empty if it gives none.

    `("password", "…")` is a pair of a name and its value, `["--password", "…"]` an option and its
    value.
    """
    kind = type(before)
    if kind is str or kind is bytes:
        if len(before) > MAX_NAME:  # type: ignore[arg-type]
            return ""
    elif id(kind) in _NO_NAMES or not layout.is_a(kind, str) or not name_of_key(before):
        return ""
    if not (text := whole_text(x)):
        return ""
    name = whole_text(before)
    is_named = is_option_value(name, text) if name[:1] == "-" else is_second(text, count)
    return name if is_named else ""


def _with_rest(parts: list[str], count: int, noun: str) -> list[str]:
    rest = count - len(parts)
    return [*parts, f"… +{rest} {noun}"] if rest > 0 else parts
