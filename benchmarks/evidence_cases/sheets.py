"""A spreadsheet: formulas are tokenized, parsed, evaluated, and kept until something changes."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases.cases import INI, Case, MadeUp
from tests.together.real_package import Breakage

FILES: Final = {
    "pytest.ini": INI,
    "sheets/__init__.py": "",
    "sheets/tokens.py": '''
"""Text of formulas to tokens."""

import re

TOKEN = re.compile(r"\\s*(?:(\\d+(?:\\.\\d+)?)|([A-Z]+\\d+)|([A-Z]+)|(.))")


def tokens(text):
    found = []
    for number, cell, name, other in TOKEN.findall(text):
        if number:
            found.append(("number", number_of(number)))
        elif cell:
            found.append(("cell", cell))
        elif name:
            found.append(("name", name))
        elif other.strip():
            found.append(("sign", other))
    return found


def number_of(text):
    return float(text) if "." in text else int(text)
''',
    "sheets/formula.py": '''
"""Tokens to trees: tuples whose first item is the kind."""

from sheets.tokens import tokens

LEVELS = (("+", "-"), ("*", "/"))


class BadFormula(Exception):
    """The text is no formula."""


class Parser:
    def __init__(self, text):
        self._tokens = tokens(text)
        self._at = 0

    def parse(self):
        tree = self._level(0)
        if self._at < len(self._tokens):
            raise BadFormula(f"unexpected {self._tokens[self._at][1]!r}")
        return tree

    def _peek(self):
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", None)

    def _next(self):
        token = self._peek()
        self._at += 1
        return token

    def _level(self, level):
        if level == len(LEVELS):
            return self._atom()
        tree = self._level(level + 1)
        while self._peek()[0] == "sign" and self._peek()[1] in LEVELS[level]:
            _, sign = self._next()
            tree = ("binary", sign, tree, self._level(level + 1))
        return tree

    def _atom(self):
        kind, value = self._next()
        if kind in ("number", "cell"):
            if kind == "cell" and self._peek() == ("sign", ":"):
                self._next()
                return ("range", value, self._next()[1])
            return (kind, value)
        if kind == "name":
            return self._call(value)
        if (kind, value) == ("sign", "("):
            tree = self._level(0)
            self._next()
            return tree
        if (kind, value) == ("sign", "-"):
            return ("binary", "-", ("number", 0), self._atom())
        raise BadFormula(f"unexpected {value!r}")

    def _call(self, name):
        arguments = []
        self._next()
        while self._peek() != ("sign", ")"):
            arguments.append(self._level(0))
            if self._peek() == ("sign", ","):
                self._next()
        self._next()
        return ("call", name, arguments)


def references(tree):
    """The cells that a tree names."""
    kind = tree[0]
    if kind == "cell":
        return {tree[1]}
    if kind == "range":
        return set(cells_of(tree[1], tree[2]))
    if kind == "binary":
        return references(tree[2]) | references(tree[3])
    if kind == "call":
        return {name for each in tree[2] for name in references(each)}
    return set()


def cells_of(first, last):
    """`A1`, `A3` → A1, A2, A3; one column."""
    column = first.rstrip("0123456789")
    start, end = int(first[len(column) :]), int(last[len(column) :])
    return [f"{column}{row}" for row in range(start, end + 1)]
''',
    "sheets/functions.py": '''
"""What formulas can call: functions of lists of numbers."""


def total(values):
    return sum(values)


def mean(values):
    return sum(values) / len(values)


def middle(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def spread(values):
    return max(values) - min(values)


BY_NAME = {"SUM": total, "MEAN": mean, "MEDIAN": middle, "SPREAD": spread}
''',
    "sheets/sheet.py": '''
"""Cells and their values."""

from sheets.formula import Parser, cells_of, references
from sheets.functions import BY_NAME

SIGNS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


class Sheet:
    def __init__(self):
        self._trees = {}
        self._values = {}
        self._used_by = {}
        self.evaluations = 0

    def set(self, name, content):
        if isinstance(content, str):
            tree = Parser(content.removeprefix("=")).parse()
        else:
            tree = ("number", content)
        self._unlink(name)
        self._trees[name] = tree
        for other in references(tree):
            self._used_by.setdefault(other, set()).add(name)
        self._forget(name)

    def fill(self, column, values, first=1):
        for row, value in enumerate(values, first):
            self.set(f"{column}{row}", value)

    def get(self, name):
        if name not in self._values:
            self._values[name] = self._evaluated(self._trees.get(name, ("number", 0)))
        return self._values[name]

    def _unlink(self, name):
        for users in self._used_by.values():
            users.discard(name)

    def _forget(self, name):
        """The value of a cell, and of all that use it, is no longer known."""
        pending = [name]
        seen = set()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            self._values.pop(each, None)
            pending += self._used_by.get(each, ())

    def _evaluated(self, tree):
        self.evaluations += 1
        kind = tree[0]
        if kind == "number":
            return tree[1]
        if kind == "cell":
            return self.get(tree[1])
        if kind == "binary":
            _, sign, left, right = tree
            return SIGNS[sign](self._evaluated(left), self._evaluated(right))
        _, name, arguments = tree
        return BY_NAME[name](self._listed(arguments))

    def _listed(self, arguments):
        values = []
        for each in arguments:
            if each[0] == "range":
                values += [self.get(name) for name in cells_of(each[1], each[2])]
            else:
                values.append(self._evaluated(each))
        return values
''',
    "sheets/export.py": '''
"""A sheet as text."""


def shown(value, digits=2):
    if isinstance(value, int):
        return str(value)
    return f"{value:.{digits}f}"


def table(sheet, columns, rows):
    lines = []
    for row in range(1, rows + 1):
        lines.append("\\t".join(shown(sheet.get(f"{column}{row}")) for column in columns))
    return "\\n".join(lines)
''',
    "tests/test_sheet.py": """
import pytest

from sheets.export import table
from sheets.formula import BadFormula
from sheets.sheet import Sheet


@pytest.fixture
def sheet():
    made = Sheet()
    made.fill("A", [4, 1, 3, 2])
    made.fill("B", [10, 20, 30, 40])
    return made


def test_number(sheet):
    assert sheet.get("A1") == 4
    assert sheet.get("Z9") == 0


def test_bad(sheet):
    with pytest.raises(BadFormula):
        sheet.set("C1", "=*")


def test_precedence(sheet):
    sheet.set("C1", "=A1+A2*B1-2")
    assert sheet.get("C1") == 12


def test_parentheses(sheet):
    sheet.set("C1", "=(A1+A2)*B1")
    assert sheet.get("C1") == 50


def test_left_to_right(sheet):
    sheet.set("C1", "=B4-B1-A1")
    assert sheet.get("C1") == 26


def test_sum(sheet):
    sheet.set("C1", "=SUM(B1:B4)")
    assert sheet.get("C1") == 100


def test_odd_median(sheet):
    sheet.set("C1", "=MEDIAN(A1:A3)")
    assert sheet.get("C1") == 3


def test_changed_cell(sheet):
    sheet.set("C1", "=A1*2")
    assert sheet.get("C1") == 8
    sheet.set("A1", 5)
    assert sheet.get("C1") == 10


def test_kept(sheet):
    sheet.set("C1", "=SUM(A1:A4)")
    sheet.get("C1")
    before = sheet.evaluations
    sheet.get("C1")
    assert sheet.evaluations == before


def test_budget(sheet):
    sheet.set("C1", "=SUM(A1:A4)")
    sheet.set("C2", "=C1*B1")
    sheet.set("C3", "=C2/4+C1")
    assert sheet.get("C3") == 35
    sheet.set("A2", 5)
    assert sheet.get("C1") == 14
    assert sheet.get("C3") == 49


def test_statistics(sheet):
    for row, name in enumerate(("SUM", "MEAN", "MEDIAN", "SPREAD"), 1):
        sheet.set(f"D{row}", f"={name}(A1:A4)")
    assert table(sheet, "D", 4) == "10\\n2.50\\n2.50\\n3"
""",
}

SHEETS: Final = MadeUp("sheets_app", FILES)

CASES: Final = (
    Case(
        "sheets-stale",
        "stale cache, one level deep",
        SHEETS,
        Breakage(
            "Sheet._forget",
            "sheets/sheet.py",
            """            self._values.pop(each, None)
            pending += self._used_by.get(each, ())
""",
            """            known = self._values.pop(each, None)
            if each == name or known is None:
                pending += self._used_by.get(each, ())
""",
        ),
        "tests/test_sheet.py::test_budget",
    ),
    Case(
        "sheets-integer",
        "int for float",
        SHEETS,
        Breakage(
            "middle",
            "sheets/functions.py",
            "return (ordered[half - 1] + ordered[half]) / 2",
            "return (ordered[half - 1] + ordered[half]) // 2",
        ),
        "tests/test_sheet.py::test_statistics",
    ),
    Case(
        "sheets-off-by-one",
        "off by one at the end of a range",
        SHEETS,
        Breakage(
            "cells_of",
            "sheets/formula.py",
            "for row in range(start, end + 1)]",
            "for row in range(start, end)]",
        ),
        "tests/test_sheet.py::test_statistics",
    ),
)
