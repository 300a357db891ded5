"""Columns: what is packed comes out the same, whatever it is; batches of rows in their order."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pytest_cideldill.protocol import (
    MalformedMessage,
    Recorded,
    columns,
    from_plain,
    to_plain,
)
from pytest_cideldill.protocol.checking import misfit
from pytest_cideldill.protocol.rows import Batch, HitFormat, Row
from tests.each_case import for_each

PLACE = {"file": "till.py", "line": 5, "function": "total"}
SECRET = "sk-live-123"


def sent(column: columns.Column) -> Any:
    """As it arrives."""
    return json.loads(json.dumps(column))


@for_each(
    "values",
    [
        ["one"],
        [""],
        ["", ""],
        ["a=1", "a=2"],
        ["two\nlines", "one"],
        ["\n"],
        ["ends\r", "\u2028", "\x1e"],
        ["lone \udc80", "é\U0001f600"],
    ],
)
def test_texts(values: list[str]) -> None:
    assert columns.values_of(sent(columns.texts(values)), len(values)) == values


@for_each(
    "values",
    [[7], [7, 8, 9], [7, 9, 8], [8, 7], [7, 7], [3, 9, 5], [0, 2**62], [-5, -4], [1, 3, 3]],
)
def test_integers(values: list[int]) -> None:
    assert list(columns.values_of(sent(columns.integers(values)), len(values))) == values


def test_floats_are_those_that_were_added_one_by_one() -> None:
    values = [random.Random(3).uniform(0, 1e6) for _ in range(200)]
    found = columns.values_of(sent(columns.floats(values, 1.7e9)), len(values))
    assert list(found) == [1.7e9 + each for each in values]


@for_each("seed", range(30))
def test_columns_in_columns(seed: int) -> None:
    """A few values again and again, texts with numbers, lists and objects of any columns."""
    generator = random.Random(seed)
    count = generator.choice([1, 2, 7, 60])
    pool = generator.choice([["a"], ["a", "b\n"], list("abcdefghijk"), list(map(str, range(99)))])
    few = generator.choices(pool, k=count)
    kinds: list[list[int | None]] = [[None], [5], [None, 3], [*range(50)]]
    ids = generator.choices(generator.choice(kinds), k=count)
    numbers = list(range(seed, seed + count)) if seed % 3 else ids
    expected: list[Any] = [
        {"lists": [one, f"c{number}" if number is not None else None], "none": [], "all": {}}
        for one, number in zip(few, numbers, strict=True)
    ]
    packed = columns.objects(
        {
            "lists": columns.lists([columns.choices(few), columns.numbered("c", numbers)]),
            "none": columns.lists([]),
            "all": columns.same({}),
        }
    )
    assert columns.values_of(sent(packed), count) == expected


def test_what_comes_again_and_again_is_sent_once() -> None:
    values = ["x" * 128, "y" * 128] * 50
    assert len(json.dumps(columns.choices(values))) < 2_000


@for_each(
    "column",
    [
        {"of": ["a"], "at": [0, 1]},
        {"of": ["a"], "at": [0, -1]},
        {"of": ["a"], "at": [0, "0"]},
        {"of": "ab", "at": [0, 1]},
        {"of": ["a"], "at": [0]},
        {"behind": "c", "numbers": [1]},
        {"behind": 3, "numbers": [1, 2]},
        {"lists": [["a"]]},
        {"lists": "ab"},
        {"keys": {}},
        {"keys": {"a": ["b"]}},
        {"lists": [{"lists": [{"lists": [{"lists": [{"all": 1}]}]}]}]},
        ["a"],
        {"lines": "a"},
        {"lines": "a\nb\nc"},
        {"lines": 3},
        {"floats": "AAAA", "plus": 1.0},
        {"floats": "no base64!", "plus": 1.0},
        {"floats": "AAAAAAAAAAA="},
        {"integers": "AAAAAAAAAAA="},
        {"from": "1"},
        {},
        None,
        "text",
    ],
)
def test_what_is_no_column_of_two_rows_is_refused(column: Any) -> None:
    """A process that is no friend sends it: it is named, and nothing breaks later."""
    with pytest.raises(ValueError, match=r"column|base64|padding|characters"):
        columns.values_of(column, 2)
    series = {"count": 2, "common": {"type": "hit"}, "columns": {"message": column}}
    assert misfit(Recorded, {"rows": [], "series": [series]}) == "series is no list[Series]"


@for_each("series", [{}, {"count": 1}, {"count": 0, "common": {"type": "hit"}, "columns": {}}, 3])
def test_what_is_no_series_is_refused(series: Any) -> None:
    assert misfit(Recorded, {"rows": [], "series": [series]}) == "series is no list[Series]"


# --- batches ------------------------------------------------------------------------------------


def hide(text: str) -> str:
    return text.replace(SECRET, "<redacted>")


def is_plain(text: str) -> bool:
    return SECRET not in text


FORMATS = {
    0: HitFormat("tp-1", PLACE, hide, False, is_plain),
    1: HitFormat("tp-2", {**PLACE, "line": 9}, hide, True, is_plain),
    2: HitFormat("tp-3", PLACE, hide),
}


def call(row: Row) -> dict[str, Any]:
    return {"type": "call", "ts": row[1], "call_id": row[2]}


def rows_made(seed: int) -> list[Row]:
    """Hits of several breakpoints, tests and threads, and calls between them."""
    chance = random.Random(seed)
    kinds: list[Any] = chance.choice([[0], [0, 1], [0, 1, 2, call]])
    tests: list[str | None] = chance.choice([["t::a"], ["t::a", None]])
    threads = chance.choice([[7], [7, 8]])
    rows: list[Row] = []
    for number in range(chance.choice([1, 2, 60])):
        kind = chance.choice(kinds)
        if kind is call:
            rows.append((call, float(number), f"c{number}"))
        else:
            text = chance.choice(["a=1", "two\nlines", f"key={SECRET}", "é\udc80"])
            moment = number / 7
            rows.append((kind, moment, chance.choice(tests), chance.choice(threads), number, text))
    return rows


def made_alone(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = call(row) if row[0] is call else FORMATS[row[0]](row)
    return values


@for_each("seed", range(40))
def test_a_batch_gives_the_rows_that_are_made_one_by_one(seed: int) -> None:
    """In their order, without secrets."""
    rows = rows_made(seed)
    event = Batch(rows, {"hit": 2, "record": 3}, FORMATS).event()
    received = from_plain(json.loads(json.dumps(to_plain(event))))
    assert isinstance(received, Recorded)
    assert received.in_order() == [made_alone(row) for row in rows]
    assert (received.dropped, received.lost) == (5, 3)
    assert SECRET not in json.dumps(to_plain(event))


def test_hits_of_one_place_travel_once_in_common() -> None:
    """Their place, their test and their thread."""
    rows: list[Row] = [(0, n / 8, "t::a", 7, n, f"n={n}") for n in range(100)]
    (series,) = Batch(rows, {}, FORMATS).event().series
    assert series["columns"]["message"] == {"lines": "\n".join(row[5] for row in rows)}
    assert series["columns"]["hit_count"] == {"from": 0}
    assert len(json.dumps(series)) < 100 * 25


@for_each("order", [[0], [0, 2], [0, 0, 1], [1, 1]])
def test_an_order_of_other_rows_is_refused(order: list[int]) -> None:
    row = {"type": "hit"}
    series = {"count": 1, "common": row, "columns": {}}
    message = to_plain(Recorded([row], [series], columns.order(order)))
    with pytest.raises(MalformedMessage, match=r"series 2|other rows"):
        from_plain(message)
