"""Live objects to one line of text, made from the object's data: no user code runs.

Runs in the process under test on the thread that hit. Owns the limits and the way into nested
values; must not know frames, pauses or which names are secret.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from enum import EnumType
from itertools import islice
from typing import Any
from typing import Final

from pytest_cideldill import clock
from pytest_cideldill.capture import layout
from pytest_cideldill.capture.kinds import CONTAINERS
from pytest_cideldill.capture.kinds import LEAVES
from pytest_cideldill.capture.kinds import PATHS
from pytest_cideldill.capture.kinds import draw_call
from pytest_cideldill.capture.kinds import draw_class
from pytest_cideldill.capture.kinds import draw_enum
from pytest_cideldill.capture.kinds import draw_mock
from pytest_cideldill.capture.kinds import is_call
from pytest_cideldill.capture.kinds import is_mock
from pytest_cideldill.capture.kinds import whole_text
from pytest_cideldill.capture.layout import Layout
from pytest_cideldill.capture.layout import class_name
from pytest_cideldill.capture.layout import type_name
from pytest_cideldill.capture.librarykinds import draw_library
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.values import dataclass

__all__ = ["DEFAULT_DETAIL", "Detail", "class_name", "render", "type_name"]

_args_of: Final = BaseException.__dict__["args"].__get__


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of one value is shown.

    Attributes:
        depth: Levels of containers and objects that are opened; what lies below is counted.
        attributes: Attributes per object.
        items: Items per collection, the first ones.
        string: Characters per string, bytes per bytes object.
        text: Characters of the whole rendering.
        milliseconds: Time after which what is still missing is left out.
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
) -> str:
    """One line like `Cart(items=[3 items], coupon='BULK10')`; can be encoded as UTF-8.

    Runs no user code and never raises: what can't be shown becomes `<unrenderable: TypeError>`.

    Args:
        value: Anything.
        detail: How much is shown.
        redactor: Replaces secrets.
        name: What the value is known as.
        layouts: Those that were found lately, by the ids of their classes.
    """
    try:
        rendering = _Rendering(detail, redactor, {} if layouts is None else layouts)
        return _fitted(rendering.named(name, value, detail.depth), detail.text)
    except Exception as error:  # noqa: BLE001 - a border: a pause must not fail on what it shows
        return f"<unrenderable: {class_name(type(error))}>"


def _fitted(text: str, limit: int) -> str:
    if len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    return layout.encodable(text)


class _Rendering:
    """One rendering: what is left of its limits, and the objects it is inside of."""

    __slots__ = ("_deadline", "_detail", "_layouts", "_left", "_path", "_redactor")

    def __init__(
        self, detail: Detail, redactor: Redactor | None, layouts: dict[int, Layout]
    ) -> None:
        self._redactor = redactor
        self._detail = detail
        self._left = detail.text
        self._deadline = clock.monotonic() + detail.milliseconds / 1000
        self._path: set[int] = set()
        self._layouts = layouts

    @property
    def string_limit(self) -> int:
        """Characters per string."""
        return self._detail.string

    def shown(self, x: str) -> str:
        """The start of a string, its secrets replaced before it is cut."""
        limit = self._detail.string
        return self._redactor.redact_text(x, limit) if self._redactor else x[:limit]

    def shown_bytes(self, x: bytes) -> bytes:
        """Like `shown`."""
        limit = self._detail.string
        return self._redactor.redact_bytes(x, limit) if self._redactor else x[:limit]

    def named(self, name: Any, x: Any, depth: int) -> str:
        """Like `value`, for what has a name or a key; any object may be one."""
        redactor = self._redactor
        if redactor is None or type(name) is not str or not redactor.name_is_sensitive(name):
            return self.value(x, depth)
        if whole := whole_text(x):
            return redactor.redact_value(name, whole, "str")
        return redactor.redact_value(name, self.value(x, depth))

    def value(self, x: Any, depth: int) -> str:
        """Render `x`, opening at most `depth` levels."""
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

    def sequence(self, ends: str, items: Iterator[Any], count: int, depth: int) -> str:
        """Items between two brackets, or below the depth only their number."""
        if not count:
            return ends
        if depth <= 0:
            return f"{ends[0]}{count} {'item' if count == 1 else 'items'}{ends[1]}"
        comma = "," if ends == "()" and count == 1 else ""
        return ends[0] + self._joined(items, count, depth) + comma + ends[1]

    def mapping(self, items: Iterator[tuple[Any, Any]], count: int, depth: int) -> str:
        """Like `sequence`, for pairs."""
        if not count or depth <= 0:
            return self.sequence("{}", iter(()), count, depth)
        below = depth - 1
        parts = self._parts(
            items,
            lambda pair: f"{self.value(pair[0], below)}: {self.named(pair[0], pair[1], below)}",
            self._detail.items,
        )
        return "{" + ", ".join(_with_rest(parts, count, "items")) + "}"

    def _joined(self, items: Iterator[Any], count: int, depth: int) -> str:
        parts = self._parts(items, lambda item: self.value(item, depth - 1), self._detail.items)
        return ", ".join(_with_rest(parts, count, "items"))

    def _parts(self, items: Iterator[Any], draw: Callable[[Any], str], most: int) -> list[str]:
        parts: list[str] = []
        # Copied in one step, as another thread may be changing the container.
        for item in tuple(islice(items, most)):
            if self._left <= 0 or clock.monotonic() > self._deadline:
                break
            parts.append(draw(item))
            self._left -= 2  # the comma and the blank
        return parts

    def _open(self, x: Any, kind: int, depth: int) -> str:
        """A value that may hold others, and itself among them."""
        if id(x) in self._path:
            return "<cycle>"
        self._path.add(id(x))
        try:
            draw = CONTAINERS.get(kind) or PATHS.get(kind)
            return self._other(x, depth) if draw is None else draw(self, x, depth)
        finally:
            self._path.discard(id(x))

    def _other(self, x: Any, depth: int) -> str:
        """A value whose type is not known, though perhaps one of its bases."""
        cls = type(x)
        if layout.flags(cls) & layout.IS_CLASS:
            return draw_class(x)
        if type(cls) is not type and layout.is_a(type(cls), EnumType):
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
        """What an object is by its built-in base class, if it has one."""
        if layout.flags(cls) & layout.IS_EXCEPTION:
            args = _args_of(x)
            return self._joined(iter(args), len(args), depth) if depth > 0 or not args else "…"
        if depth > 0 and (fields := _named_fields(x, cls)):
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
        known = self._layouts.get(id(cls))
        if known is None:
            # It refers to the class, so that its id is not given to another one meanwhile.
            known = self._layouts[id(cls)] = Layout.of(cls)
        return known


def _with_rest(parts: list[str], count: int, noun: str) -> list[str]:
    rest = count - len(parts)
    return [*parts, f"… +{rest} {noun}"] if rest > 0 else parts


def _named_fields(x: Any, cls: type) -> tuple[str, ...]:
    """The field names of a named tuple, empty for anything else."""
    if not layout.is_a(cls, tuple):
        return ()
    fields = layout.find_in_class(cls, "_fields")
    if type(fields) is not tuple or len(fields) != tuple.__len__(x):
        return ()
    return fields if all(type(name) is str for name in fields) else ()
