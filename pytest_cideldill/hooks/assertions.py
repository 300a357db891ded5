"""What pytest and unittest know of an assertion that failed: its operands and their expressions.

Comparisons are noted as they fail, as shown values: no object is kept. The rest is read from the
frame at the failure. Private parts of pytest are used with a fallback: without them less is shown.
"""

from __future__ import annotations

import ast
import functools
import sys
from _thread import get_ident
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Final

import pytest
from _pytest.assertion.rewrite import AssertionRewriter

from pytest_cideldill.frames import operands
from pytest_cideldill.frames.failure import Place
from pytest_cideldill.frames.frames import is_of_tools
from pytest_cideldill.hooks.guest import Warns, guest
from pytest_cideldill.hooks.tracebacks import Raised, raw_places
from pytest_cideldill.interpreter.frame_locals import read_locals
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.source_text import CannotRewrite, Rewrite

_INNER: Final = "@py_assert"
_VISITS: Final = ("BoolOp", "UnaryOp", "BinOp", "Call", "Attribute", "Compare")
_OTHERS: Final = "generic_visit"

_OF_UNITTEST: Final[Mapping[str, str]] = {
    "Equal": "==",
    "ListEqual": "==",
    "TupleEqual": "==",
    "SetEqual": "==",
    "DictEqual": "==",
    "SequenceEqual": "==",
    "MultiLineEqual": "==",
    "NotEqual": "!=",
    "Less": "<",
    "LessEqual": "<=",
    "Greater": ">",
    "GreaterEqual": ">=",
    "Is": "is",
    "IsNot": "is not",
    "In": "in",
    "NotIn": "not in",
    "True": operands.TRUTH,
    "False": "is false",
    "IsNone": "is None",
    "IsNotNone": "is not None",
}
"""Methods of `TestCase`, without `assert`; others are shown by their own name."""


class Assertions:
    """A plugin of pytest that finds the operands and the expressions of failed assertions."""

    def __init__(self, lens: Lens, host: Warns) -> None:
        self.host = host
        self._lens = lens
        # Thread → where its latest comparison failed, and what it compared.
        self._latest: dict[int, tuple[CodeType, int, operands.Compared]] = {}

    @guest
    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """A comparison failed; pytest asks for an explanation, and gets none from us."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and is_of_tools(frame):
            frame = frame.f_back
        if frame is not None:
            shown = operands.Compared(op, self._lens.show(left), self._lens.show(right))
            self._latest[get_ident()] = (frame.f_code, frame.f_lineno, shown)

    def forget(self) -> None:
        """A test begins."""
        self._latest.clear()

    def failed(self, excinfo: Raised, places: list[Place], printed: str) -> dict[str, Any] | None:
        """`assertion` of the autopsy; None when no assertion of the user failed.

        Args:
            places: Of its traceback, innermost first.
            printed: pytest's text of it.
        """
        if not isinstance(excinfo.value, AssertionError) or not places:
            return None
        method = method_of_unittest(excinfo)
        if method is not None:
            return self._of_unittest(method, printed)
        frame, line = places[0]
        texts = self._lens.texts
        statement = operands.statement_at(frame.f_code, line, texts.of(frame))
        code, at, compared = self._latest.get(get_ident(), (None, 0, None))
        if statement is None and texts.source(frame, line)[0].split()[:1] == ["assert"]:
            found = compared if code is frame.f_code and at == line else None
            return operands.explained(found, printed, self._lens)
        if not isinstance(statement, ast.Assert):
            return None
        is_it = code is frame.f_code and statement.lineno <= at <= (statement.end_lineno or at)
        values = _values(statement, frame)
        found = compared if is_it else None
        return operands.assertion_of(statement, frame, found, values, printed, self._lens)

    def _of_unittest(self, frame: FrameType, printed: str) -> dict[str, Any]:
        """The arguments of a method `assert…`, the first two of which are compared."""
        code, held = frame.f_code, given_to_method(frame)
        name = code.co_name.removeprefix("assert")
        op = _OF_UNITTEST.get(name, code.co_name)
        is_pair = op in ("==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in")
        sides = ("left", "right") if is_pair or op == code.co_name else ("left",)
        shown = {side: self._lens.show(value) for side, value in zip(sides, held, strict=False)}
        assertion = {"left": shown.get("left"), "op": op, "right": shown.get("right")}
        for (side, text), value in zip(shown.items(), held, strict=False):
            assertion |= operands.children_of(side, value, text, self._lens)
        return assertion | {"explanation": self._lens.text(printed, operands.MAX_EXPLANATION)}


def rewriting(config: pytest.Config) -> Rewrite:
    """What pytest does with the assertions of a module, to compile it once more."""

    def rewrite(tree: ast.Module, source: bytes) -> None:
        if any(isinstance(x, ast.Assert) and isinstance(x.test, ast.Tuple) for x in ast.walk(tree)):
            raise CannotRewrite("pytest would warn of these assertions again")
        try:
            AssertionRewriter(None, config, source).run(tree)
        except Exception as error:  # a private class; another pytest may have another one
            raise CannotRewrite from error

    return rewrite


def method_of_unittest(excinfo: Raised) -> FrameType | None:
    """The frame of the method `assert…` of `unittest` that failed, if one did."""
    frames = (frame for frame, _ in raw_places(excinfo.tb))
    return next((each for each in frames if _is_method(each)), None)


def given_to_method(frame: FrameType) -> list[object]:
    """The first two arguments of such a method, without its message."""
    code, values = frame.f_code, read_locals(frame)
    names = [name for name in code.co_varnames[1 : code.co_argcount] if name != "msg"][:2]
    return [values[name] for name in names if name in values]


def _is_method(frame: FrameType) -> bool:
    """Whether a frame is that of an assertion of `unittest`."""
    return "__unittest" in frame.f_globals and frame.f_code.co_name.startswith("assert")


def _values(statement: ast.Assert, frame: FrameType) -> dict[str, Any]:
    """What the parts of a rewritten assertion were, by their text; it keeps them when it fails."""
    held = read_locals(frame)
    kept = {name: held[name] for name in list(held) if name.startswith(_INNER)}
    names = _names(statement) if kept else {}
    return {text: kept[name] for name, text in names.items() if name in kept}


def _names(statement: ast.Assert) -> dict[str, str]:
    """The variables of a rewritten assertion → the expressions that they hold."""
    try:
        writer = _naming()("", None, b"")
        writer.run(ast.Module([statement], []))
    except Exception:  # noqa: BLE001 - a private class; another pytest may have another one
        return {}
    names: dict[str, str] = writer.names
    return names


@functools.cache
def _naming() -> Any:
    """pytest's rewriter, noting which variable holds which expression."""

    def begin(self: Any, *args: Any) -> None:
        AssertionRewriter.__init__(self, *args)
        self.names = {}

    members: dict[str, Any] = {"__init__": begin}
    for name in (*(f"visit_{kind}" for kind in _VISITS), _OTHERS):
        members[name] = _noting(name)
    return type("_Naming", (AssertionRewriter,), members)


def _noting(visit: str) -> Any:
    def visiting(self: Any, node: ast.expr) -> Any:
        text = ast.unparse(node)
        result = getattr(AssertionRewriter, visit)(self, node)
        is_noted = visit != _OTHERS or isinstance(node, ast.GeneratorExp)
        if is_noted and isinstance(result[0], ast.Name) and result[0].id.startswith(_INNER):
            self.names.setdefault(result[0].id, text)
        return result

    return visiting
