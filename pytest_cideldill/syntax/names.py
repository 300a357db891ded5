"""How a request names functions, and which ones such a name means (contract, section 2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase

_IDENTIFIER_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*|\.<locals>|\.<lambda>)*")


class Precision(IntEnum):
    """How exactly a name points; among several matching breakpoints the higher one wins."""

    GLOB = 0
    BARE = 1
    EXACT = 2


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A parsed `function_name`.

    Attributes:
        text: As the user wrote it.
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
        """Whether the function `qualname` of `module`, defined in `file`, is meant.

        Args:
            module: Dotted name of the module.
            qualname: `co_qualname`; `<locals>` parts may be left out of the name in the request.
            file: Rootdir-relative path (or absolute outside it).
        """
        short = qualname.replace(".<locals>", "")
        if self.precision is Precision.BARE:
            return qualname.rpartition(".")[2] == self.target
        if self.precision is Precision.GLOB:
            return fnmatchcase(f"{module}.{short}", self.target)
        if self.path is not None:
            same_file = file == self.path or file.endswith("/" + self.path)
            return same_file and self.target in (qualname, short)
        if self.module is not None:
            return module == self.module and self.target in (qualname, short)
        return self.target in (f"{module}.{qualname}", f"{module}.{short}")


def parse_function_name(text: str) -> FunctionName:
    """Parse one of the five forms of a function name.

    Raises:
        ValueError: The text has none of the forms; the message shows them.
    """
    path, doubled, qualname = text.partition("::")
    if doubled and path and _IDENTIFIER_PATH.fullmatch(qualname.replace("::", ".")):
        clean = path.replace("\\", "/").removeprefix("./")
        return FunctionName(text, Precision.EXACT, qualname.replace("::", "."), path=clean)
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
