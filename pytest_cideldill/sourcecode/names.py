"""Parses names of functions in requests, and matches functions with them."""

from __future__ import annotations

import builtins
import difflib
import re
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from fnmatch import fnmatchcase
from keyword import iskeyword
from typing import Final

from pytest_cideldill.interpreter.values import dataclass

CLOSE: Final = 3
"""Names of a "did you mean"."""

_IDENTIFIER_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*|\.<locals>|\.<lambda>)*")
_WILDCARD = re.compile(r"[*?\[]")
_INIT: Final = ".__init__"
_LENGTHS_APART: Final = 3
_COMPARED: Final = 200


class Precision(IntEnum):
    """How exactly a name points; among several matching breakpoints the higher one wins."""

    GLOB = 0
    BARE = 1
    EXACT = 2


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A parsed `function_name`.

    Attributes:
        text: The name in one spelling, which identifies breakpoints.
        precision: Which of the forms it is.
        module: Dotted module, for `module:qualname`.
        path: File path with forward slashes, for `path/to/file.py::qualname`.
        target: Bare name, dotted path, qualified name or glob.
    """

    text: str
    precision: Precision
    target: str
    module: str | None = None
    path: str | None = None

    def matches(self, module: str, qualname: str, file: str) -> bool:
        """Whether this name matches the function `qualname` of `module`, defined in `file`.

        The name of a class matches its `__init__`.

        Args:
            module: Dotted name of the module.
            qualname: `co_qualname`; `<locals>` parts may be left out of the name in the request.
            file: Rootdir-relative path (or absolute outside it).
        """
        if self._is_of(module, qualname, file):
            return True
        owner = qualname.removesuffix(_INIT)
        is_init = owner != qualname and self.precision is not Precision.GLOB
        return is_init and self._is_of(module, owner, file)

    def _is_of(self, module: str, qualname: str, file: str) -> bool:
        short = qualname.replace(".<locals>", "")
        if self.precision is Precision.BARE:
            return qualname.rpartition(".")[2] == self.target
        if self.precision is Precision.GLOB:
            return fnmatchcase(f"{module}.{short}", self.target)
        if self.path is not None:
            return self.is_in(file) and self.target in (qualname, short)
        if self.module is not None:
            return module == self.module and self.target in (qualname, short)
        return self.target in (f"{module}.{qualname}", f"{module}.{short}")

    def is_end_of(self, path: str) -> bool:
        """Whether it is a dotted name that leaves out the first parts of a path: `Cart.total`.

        Args:
            path: Dotted path of a function.
        """
        if self.path is not None or self.module is not None or "." not in self.target:
            return False
        is_glob = self.precision is Precision.GLOB
        return not is_glob and path.replace(".<locals>", "").endswith(f".{self.target}")

    def may_be_in(self, modules: Iterable[str], file: str) -> bool:
        """Whether a file may define a matching function; if not, it need not be read.

        Args:
            modules: The dotted names that it may be imported by.
            file: As for `matches`.
        """
        if self.path is not None:
            return self.is_in(file)
        if self.module is not None:
            return self.module in modules
        if self.precision is Precision.EXACT:
            return any(self.target.startswith(f"{module}.") for module in modules)
        start = _WILDCARD.split(self.target)[0] if self.precision is Precision.GLOB else ""
        return any(f"{each}.".startswith(start) or start.startswith(f"{each}.") for each in modules)

    @property
    def word(self) -> str:
        """A word in the text of each file that defines a matching function; may be empty."""
        if self.precision is Precision.GLOB or not self.target.isascii():
            return ""
        last = self.target.rpartition(".")[2]
        return last if last.isidentifier() else ""

    @property
    def is_exact(self) -> bool:
        """Whether it names one place."""
        return self.precision is Precision.EXACT

    @property
    def is_builtin_method(self) -> bool:
        """Whether it may be a method of a builtin class, as `str.upper`, by its text alone."""
        owner, _, method = self.target.removeprefix("builtins.").partition(".")
        found = getattr(builtins, owner, None) if self.path is None else None
        return (
            isinstance(found, type) and self.module in (None, "builtins") and method in dir(found)
        )

    def within(self, root: str) -> FunctionName:
        """The same name with a path relative to the rootdir, if it is an absolute one inside.

        Args:
            root: With forward slashes, none at the end.
        """
        if self.path is None or not self.path.startswith(f"{root}/"):
            return self
        return self.at(self.path[len(root) + 1 :])

    def at(self, path: str) -> FunctionName:
        """The same name in the file with this path."""
        return replace(self, text=f"{path}::{self.target}", path=path)

    def is_in(self, file: str) -> bool:
        """Whether a file, relative to the rootdir, is the one of the path."""
        return self.path is not None and (file == self.path or file.endswith(f"/{self.path}"))


def parse_function_name(text: str) -> FunctionName:
    """Parse one of the five forms of a function name.

    Raises:
        ValueError: The text has none of the forms; the message shows them.
    """
    path, doubled, qualname = text.partition("::")
    if doubled and path and _IDENTIFIER_PATH.fullmatch(qualname.replace("::", ".")):
        clean = path.replace("\\", "/").removeprefix("./")
        if "*" in path or "?" in path:
            raise ValueError(
                f"{text!r} is no function name: a path names one file, {path!r} is a glob; globs "
                "are over dotted paths (shop.cart.*)"
            )
        target = qualname.replace("::", ".")
        return FunctionName(f"{clean}::{target}", Precision.EXACT, target, path=clean)
    module, colon, qualname = text.partition(":")
    if colon and _IDENTIFIER_PATH.fullmatch(module) and _IDENTIFIER_PATH.fullmatch(qualname):
        return FunctionName(text, Precision.EXACT, qualname, module=module)
    if any(character in text for character in "*?[") and ":" not in text:
        return FunctionName(text, Precision.GLOB, text)
    if text.isidentifier():
        return FunctionName(text, Precision.BARE, text)
    if _IDENTIFIER_PATH.fullmatch(text):
        return FunctionName(text, Precision.EXACT, text)
    raise ValueError(
        f"{text!r} is no function name: use a bare name (total), a dotted path "
        "(shop.cart.Cart.total), module:qualname, path/to/file.py::qualname or a glob over "
        "dotted paths (shop.cart.*)"
    )


def method_of_c(name: str, owner: str) -> str:
    """The error text for a method of a class made in C: why it is refused, and the way out."""
    return (
        f"{name} is a method of {owner}, a class made in C that can't be changed: name the "
        "function of yours that calls it, or set a breakpoint on the line (breakpoint_set)"
    )


def close_names(name: FunctionName, known: Iterable[str]) -> list[str]:
    """Up to three dotted paths of `known` that are similar to a name which matches none.

    First those that differ only in front of the last part, then those whose last part is similar.
    """
    wanted = name.target.rpartition(".")[2]
    if name.precision is Precision.GLOB or not wanted:
        return []
    by_last: dict[str, list[str]] = {}
    for each in known:
        last = each.rpartition(".")[2]
        if abs(len(last) - len(wanted)) <= _LENGTHS_APART:
            by_last.setdefault(last, []).append(each)
    lasts = (
        [wanted] if wanted in by_last else difflib.get_close_matches(wanted, by_last, CLOSE, 0.7)
    )
    found = [each for last in lasts for each in by_last[last]][:_COMPARED]
    likeness = difflib.SequenceMatcher(b=name.text)

    def unlikeness(each: str) -> tuple[int, float, str]:
        likeness.set_seq1(each)
        return (lasts.index(each.rpartition(".")[2]), -likeness.ratio(), each)

    return sorted(found, key=unlikeness)[:CLOSE]


NESTED = "<locals>"
"""Part of the qualified name of a class that a function makes."""


def check_exception_name(name: str) -> None:
    """Refuse a text that can't be the name of an exception class.

    Raises:
        ValueError: Malformed, or a builtin that is no exception class; the message says which.
    """
    parts = name.split(".")
    if not all(part == NESTED or (part.isidentifier() and not iskeyword(part)) for part in parts):
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
