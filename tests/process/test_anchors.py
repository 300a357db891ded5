"""Lines found again in a later text (sources edited between runs)."""

from __future__ import annotations

import textwrap

import pytest

from pytest_cideldill.sourcecode.locations import (
    Anchor,
    InvalidColumn,
    InvalidLine,
    SourceMap,
    find_again,
)
from tests.each_case import for_each

SHOP = """\
import math

def total(prices):
    result = 0
    for price in prices:
        result += price
    return result

def twice(prices):
    result = 2 * total(prices)
    return result

double = lambda price: price * 2
"""


def mapped(text: str) -> SourceMap:
    return SourceMap.from_source(textwrap.dedent(text), "shop.py")


def anchored(line: int, column: int | None = None, text: str = SHOP) -> Anchor:
    """What is remembered of a breakpoint on a line."""
    shop = mapped(text)
    place = shop.code_for_line(line, column)
    offset = None if column is None else column - shop.margin(line)
    return Anchor(line, place.source, place.key.qualname, offset)


def edited(*changes: tuple[str, str], text: str = SHOP) -> SourceMap:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return mapped(text)


@for_each(
    ("line", "changes", "found"),
    [
        # Nothing changed, or nothing that matters here.
        (6, [], 6),
        (6, [("return result\n", "return result  # done\n")], 6),
        (6, [("def total(prices)", "def total(prices, rate=1)")], 6),
        # Moved with its function, within it, into another function, by its indentation.
        (6, [("import math", "import math\nimport os\n")], 8),
        (6, [("    result = 0\n", "    result = 0\n    count = 0\n")], 7),
        (6, [("def total", "def summed")], 6),
        (6, [("import math", "import math\n"), ("def total", "def summed")], 7),
        (6, [("        result +=", "      result +=")], 6),
        # Another one has its text: that of its own function is meant.
        (7, [("import math", "import math\nimport os")], 8),
        (11, [("import math", "import math\nimport os")], 12),
        (11, [("import math\n", "\ndef one():\n    result = 1\n    return result\n")], 14),
        # Its old line has its text, in another function, since lines were inserted above.
        (11, [("import math\n\n", "import math\n\n\n\n\n\n")], 15),
        # Functions changed places.
        (4, [("def total", "def late(): pass\n\n\n\ndef total")], 8),
        # Two of its function have its text: it stays, as long as one of them is there.
        (7, [("result += price", "result += price\n    return result")], 7),
    ],
)  # fmt: skip
def test_a_line_is_found_by_its_text(line: int, changes: list[tuple[str, str]], found: int) -> None:
    """Unique, or unique in the function of its name."""
    now = edited(*changes)
    place, alike = find_again(now, anchored(line))
    assert (place.line, place.source) == (found, anchored(line).source)
    assert found in alike
    assert place.key in [each.key for each in now.places_at(found)]


@pytest.mark.parametrize(
    ("line", "changes", "source", "alike"),
    [
        # Edited in place.
        (6, [("result += price", "result += 2 * price")], "result += 2 * price", ()),
        # Moved, and there are two now, none at its place.
        (4, [("    result = 0", "    for each in 1, 2:\n        result = 0\n        result = 0")],
         "for each in 1, 2:", (5, 6)),
        # Of the functions that have it none has its name.
        (7, [("def total", "def summed"), ("import math", "import math\n")],
         "result += price", (8, 12)),
    ],
)  # fmt: skip
def test_without_one_that_can_be_meant_it_stays(
    line: int, changes: list[tuple[str, str]], source: str, alike: tuple[int, ...]
) -> None:
    """The line of that number, with what stands there now."""
    place, others = find_again(edited(*changes), anchored(line))
    assert (place.line, place.source, others) == (line, source, alike)


def test_a_line_without_code_is_reported_with_the_nearest_one() -> None:
    """Also when the file is shorter now than the line's number."""
    for changes, nearest in (
        ([("        result += price\n", "        # nothing\n        pass\n")], 7),
        ([(SHOP, "pass\n")], 1),
    ):
        with pytest.raises(InvalidLine) as caught:
            find_again(edited(*changes), anchored(6))
        assert caught.value.nearest == nearest


LAMBDAS = """\
def both():
    return [lambda: 1, lambda: 2]
pair = [each for each in (x for x in "ab")]
"""


def test_a_column_goes_along_with_its_line() -> None:
    """Its place is counted from the text, so that another indentation does no harm."""
    second = anchored(2, 24, LAMBDAS)
    assert second.function == "both.<locals>.<lambda>"
    deeper = "def both():\n    if True:\n        return [lambda: 1, lambda: 2]\n"
    place, _ = find_again(mapped(deeper), second)
    assert (place.line, place.key) == (3, mapped(deeper).code_for_line(3, 28).key)
    changed = "def both():\n    return [lambda: 1, lambda: 22 + 0]\n"
    place, _ = find_again(mapped(changed), second)
    assert place.key == mapped(changed).code_for_line(2, 24).key
    # The only one of its name, wherever on the line.
    moved = "def both():\n    return [1, 2, 3, 4, 5, 6, 7, lambda: 2]\n"
    place, _ = find_again(mapped(moved), second)
    assert place.key.qualname == second.function
    with pytest.raises(InvalidColumn):
        find_again(mapped("def both():\n    return []\n"), second)


def test_a_body_on_the_line_of_its_definition_stays_the_body() -> None:
    """What `function` chose is no column; the line alone would mean the definition."""
    anchor = Anchor(1, "def one(x): return x", "one")
    place, _ = find_again(mapped("import os\n\ndef one(x): return x\n"), anchor)
    assert (place.line, place.key.qualname) == (3, "one")
