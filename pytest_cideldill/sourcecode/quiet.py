"""Parses, compiles and tokenizes text without warnings, since tests may count warnings.

Runs on any thread of the process under test. The parser and the compiler warn through the filters
of the whole process, in C, about escapes (`"\\d"`), numbers (`1or 2`), comparisons (`x is 1`) and
calls (`"a" (b)`), about more with each version. Filters of ours stand in front while they run.
"""

from __future__ import annotations

import ast
import operator
import re
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, cycle, product
from types import CodeType
from typing import Any, Final

from pytest_cideldill.interpreter.stack_room import with_room

_Filter = tuple[str, None, type[Warning], str, int]
_KINDS: Final = (SyntaxWarning, DeprecationWarning)
_ESCAPED_BRACE: Final = re.compile(r"\\(?=[{}])")


def parse(source: str | bytes, filename: str = "<text>") -> ast.Module:
    """As `ast.parse`; raises what that raises."""
    tree: ast.Module = _made(source, filename, "exec", ast.PyCF_ONLY_AST)
    return tree


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression; raises what `ast.parse` raises."""
    tree: ast.Expression = _made(source, "<text>", "eval", ast.PyCF_ONLY_AST)
    return tree.body


def compiled(
    source: str | ast.Module | ast.Expression, filename: str, mode: str, flags: int = 0
) -> CodeType:
    """As `compile`, which inherits nothing from its caller here; raises what that raises."""
    code: CodeType = _made(source, filename, mode, flags)
    return code


def literal(source: str) -> Any:
    """As `ast.literal_eval`, which raises the same."""
    return ast.literal_eval(parse_expression(source.lstrip(" \t")))


def tokens(lines: Iterable[str]) -> Iterator[tokenize.TokenInfo]:
    """As `tokenize.generate_tokens`, but for the text of backslashes before braces.

    From 3.12 on it warns of `f"\\{x}"`, as it reads, and nothing else.
    """
    harmless = (_ESCAPED_BRACE.sub("_", line) for line in lines)
    return tokenize.generate_tokens(chain(harmless, [""]).__next__)


def _made(source: Any, filename: str, mode: str, flags: int) -> Any:
    """The result of `compile`, which recurses in C and needs room on the stack.

    Raises:
        RecursionError: There is no room on the stack.
        BaseException: Whatever `compile` raises.
    """
    return with_room(partial(_made_here, source, filename, mode, flags))


def _made_here(source: Any, filename: str, mode: str, flags: int) -> Any:
    """The result of `compile` on the calling thread.

    `warnings.catch_warnings` won't do: it exchanges the filters that all threads use, and makes
    them forget which warnings were shown. Filters for the names of what is compiled here mean
    nothing to the rest of the program. All is one call of C, from looking up the filters that are
    in force on: another thread that came between could exchange them.
    """
    module = sys.modules.get("warnings", warnings)
    if not isinstance(getattr(module, "filters", None), list):
        return compile(source, filename, mode, flags, dont_inherit=True)
    ours = _filters(filename)
    held: list[list[_Filter]] = []
    steps = chain(
        map(held.append, map(getattr, (module,), ("filters",))),
        map(operator.setitem, held, (slice(0, 0),), (ours,)),
        map(compile, (source,), (filename,), (mode,), (flags,), (True,)),
        map(list.remove, cycle(held), ours),
    )
    try:
        return next(made for made in list(steps) if made is not None)
    except BaseException:  # whatever it is, it passes on
        for filters, each in product(held, ours):
            with suppress(ValueError):
                filters.remove(each)
        raise


def _filters(filename: str) -> list[_Filter]:
    """A filter for each module name to which the interpreter attributes a warning.

    It makes one from the name of the file, by cutting off `.py`; for constants that are folded
    (`~True`) it takes the module that calls `compile`.
    """
    names = (filename.removesuffix(".py"), __name__)
    return [("ignore", None, kind, name, 0) for name in names for kind in _KINDS]


def compile_condition(text: str) -> CodeType:
    """The code object of a condition, for `eval`.

    Raises:
        ValueError: The text is no expression; the message names the position.
    """
    try:
        return compiled(text.strip(), "<condition>", "eval")
    except SyntaxError as error:
        place = f" at column {error.offset}" if error.offset else ""
        raise ValueError(f"condition {text!r}: {error.msg}{place}") from error
    except ValueError as error:
        raise ValueError(f"condition {text!r}: {error}") from error
