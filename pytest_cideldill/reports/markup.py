"""HTML that is safe by the way it is made: what is no markup already is escaped.

Everything in a record was written by a program under test, and may be hostile.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final

from pytest_cideldill.reports.words import printable

_EMPTY: Final = frozenset({"col", "meta", "rect"})


class Markup(str):
    """Text that is markup; made by `tag` and `joined` only."""

    __slots__ = ()


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An element. A trailing `_` of a name is left out, another one is a hyphen; None: nothing."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{named}>")
    return Markup(f"<{name}{named}>{joined(*inside)}</{name}>")


def joined(*parts: object) -> Markup:
    """Markup and texts, one after the other."""
    return Markup("".join(map(_inside, parts)))


def data(plain: Any) -> Markup:
    """Plain data for a script element: nothing in it ends that element, or begins another."""
    return Markup(json.dumps(plain, separators=(",", ":")).replace("<", "\\u003c"))


def _inside(part: object) -> str:
    return part if isinstance(part, Markup) else "" if part is None else _text(part)


def _text(value: object) -> str:
    text = str(value)
    return escape(text if text.isprintable() else printable(text))
