"""Checks names of exception classes, as clients write them. Pure; both processes use it."""

from __future__ import annotations

import builtins
from keyword import iskeyword

NESTED = "<locals>"
"""Part of the qualified name of a class that a function makes."""


def check_exception_name(name: str) -> None:
    """Refuse a text that can't be the name of an exception class.

    Raises:
        ValueError: Malformed, or a builtin that is no exception class; the message says which.
    """
    parts = name.split(".")
    if not all(each == NESTED or (each.isidentifier() and not iskeyword(each)) for each in parts):
        raise ValueError(
            f"{name!r} is no name of a class: use a builtin as KeyError, or a dotted path as "
            "shop.cart.EmptyCart"
        )
    if len(parts) == 1 and hasattr(builtins, name) and builtin_exception(name) is None:
        raise ValueError(f"{name} is no exception class; KeyError or shop.cart.EmptyCart are names")


def builtin_exception(name: str) -> type[BaseException] | None:
    """The exception class that a builtin name means, None for all others."""
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
