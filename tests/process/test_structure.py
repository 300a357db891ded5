"""Objects as plain data and the way to their parts: what is told, what is cut, no user code."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import functools
import json
import random
import types
from typing import Any
from unittest import mock

import pytest

from pytest_cideldill.config.limits import Limits
from pytest_cideldill.protocol.object_paths import (
    Unreachable,
    item_key,
    navigate_description,
    parse_path,
)
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.redaction.tags import TAG
from pytest_cideldill.rendering import tree
from pytest_cideldill.rendering.navigation import navigate
from tests.each_case import for_each
from tests.process.test_snapshot import Ran, cyclic, hostile_values

HERE = __name__

describe = functools.partial(tree.describe, milliseconds=20_000)


@dataclasses.dataclass
class Item:
    name: str
    price: decimal.Decimal


class Cart:
    limit = 5

    def __init__(self, *items: Item) -> None:
        self.items = list(items)
        self.by_name = {item.name: item for item in items}

    @property
    def total(self) -> decimal.Decimal:
        raise AssertionError("no code of the user's runs")

    def __getitem__(self, index: int) -> Item:
        raise AssertionError("no code of the user's runs")


class Color(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")
CART = Cart(Item("lamp", decimal.Decimal("9.5")), Item("desk", decimal.Decimal(80)))


def leaf(kind: str, text: str, **more: object) -> dict[str, object]:
    return {"type": kind, "repr": text, "attributes": {}, **more}


def keys(value: object, **options: Any) -> list[str]:
    return list(describe(value, **options)["attributes"])


def test_an_object_is_reported_with_its_parts() -> None:
    reported = describe(CART)
    assert reported["type"] == f"{HERE}.Cart"
    assert reported["repr"].startswith("Cart(items=[Item(name='lamp', price=Decimal('9.5')), ")
    assert list(reported["attributes"]) == ["items", "by_name"]
    items = reported["attributes"]["items"]
    assert (items["type"], items["length"]) == ("list", 2)
    assert items["attributes"]["[0]"]["attributes"] == {
        "name": leaf("str", "'lamp'", length=4),
        "price": leaf("decimal.Decimal", "Decimal('9.5')"),
    }
    assert list(reported["attributes"]["by_name"]["attributes"]) == ["['lamp']", "['desk']"]
    assert "truncated" not in reported


@for_each(
    ("value", "reported"),
    [
        (5, leaf("int", "5")),
        (None, leaf("NoneType", "None")),
        ("", leaf("str", "''", length=0)),
        (b"ab", leaf("bytes", "b'ab'", length=2)),
        ([], leaf("list", "[]", length=0)),
        ([1], leaf("list", "[1]", length=1) | {"attributes": {"[0]": leaf("int", "1")}}),
        (Cart, leaf("type", f"<class '{HERE}.Cart'>")),
        (types, leaf("module", "<module 'types'>")),
    ],
)
def test_plain_values_are_shown_in_full(value: object, reported: dict[str, object]) -> None:
    assert describe(value) == reported


def with_attribute(value: Any, name: str) -> Any:
    setattr(value, name, 1)
    return value


@for_each(
    ("value", "expected"),
    [
        ({"a": 1, 2: 1, (1, "b"): 1, None: 1, 1.5: 1, b"x": 1, True: 1}, "as they are"),
        ({Color.RED: 1, "x" * 200: 1, float("nan"): 1}, ["[#0]", "[#1]", "[#2]"]),
        ({7}, ["[#0]"]),
        ({"a": 1}.values(), ["[#0]"]),
        (Point(1, 2), ["x", "y"]),
        (Color.RED, ["value", "name"]),
        (KeyError("x"), ["args"]),
        (mock.Mock(), []),
        (with_attribute(collections.OrderedDict(a=1), "odd name"), ["['a']", "'odd name'"]),
        (collections.deque([1, 2]), ["[0]", "[1]"]),
    ],
)
def test_parts_are_named_by_the_step_to_them(value: Any, expected: Any) -> None:
    expected = [f"[{key!r}]" for key in value] if expected == "as they are" else expected
    assert [key for key in keys(value) if key != "_sort_order_"] == expected


def test_a_key_that_is_no_literal_is_reported_beside_its_value() -> None:
    reported = describe({Color.RED: "stop"})
    assert reported["attributes"]["[#0]"] == leaf("str", "'stop'", length=4, key="<Color.RED: 1>")


def test_an_exception_reports_what_caused_it() -> None:
    try:
        try:
            raise KeyError("x")
        except KeyError as cause:
            raise ValueError("bad") from cause
    except ValueError as error:
        reported = describe(error)
    assert reported["attributes"]["__cause__"]["repr"] == "KeyError('x')"


@for_each(
    ("value", "options", "shown"),
    [
        ([[1]], {"depth": 1}, 1),
        ([1], {"depth": 0}, 0),
        (list(range(9)), {"limits": Limits(max_items=3)}, 3),
        (CART, {"limits": Limits(max_attributes=1)}, 1),
    ],
)
def test_what_is_left_out_is_reported(value: object, options: Any, shown: int) -> None:
    reported = describe(value, **options)
    assert len(reported["attributes"]) == shown
    below = list(reported["attributes"].values())
    assert reported.get("truncated") or below[0].get("truncated")


def test_an_inspected_string_may_be_longer_than_one_in_a_list() -> None:
    reported = describe("x" * 5_000)
    assert reported["repr"] == f"'{'x' * 1_999}x…'+3000 chars"
    assert (reported["length"], reported["truncated"]) == (5_000, True)
    assert "truncated" not in describe("x" * 2_000)


def test_a_cycle_ends_where_it_closes() -> None:
    assert describe(cyclic())["attributes"]["[1]"] == leaf("list", "<cycle>")


def large() -> object:
    rows = [[{"name": "x" * 900, "n": [n] * 90} for n in range(90)] for _ in range(90)]
    return {"rows": rows, "more": rows}


@pytest.mark.full
def test_a_description_is_bounded() -> None:
    text = json.dumps(describe(large(), depth=20))
    assert len(text) < 4 * tree.MAX_CHARACTERS
    assert text.count('"repr"') <= tree.MAX_NODES + 1
    assert '"truncated": true' in text


def test_the_time_is_limited() -> None:
    assert len(keys([[1]] * 50, milliseconds=-1)) == 0


def test_it_is_json_whatever_the_object() -> None:
    odd = type("Odd", (), {"__module__": "m\udc80"})()
    setattr(odd, "at\udc81 tribute", {"\ud800": "\ud800", 1: float("nan")})
    json.dumps(describe(odd), allow_nan=False).encode("utf-8")
    assert r"at\udc81 tribute" in keys(odd)[0]


def test_no_user_code_runs() -> None:
    ran = Ran()
    values = hostile_values(ran)
    ran.clear()
    for name, value in values.items():
        reported = describe(value, redactor=Redactor(environ={}))
        assert "unrenderable" not in json.dumps(reported), name
        for path in (".a", ".missing", "[0]", "['a']", "[#0]", "[(1, 'a')]"):
            try:
                navigate(value, path)
            except Unreachable:
                continue
        assert list(ran) == [], name


# --- secrets ------------------------------------------------------------------------------------

SECRET = "tr0ub4dor&3"


@for_each(
    "value",
    [
        {"password": SECRET},
        {"a": [{"api_key": SECRET}]},
        types.SimpleNamespace(secret=SECRET),
        {"password": {"user": SECRET}},
        {SECRET: 1, "password": SECRET},
        f"postgres://shop:{SECRET}@db/shop",
    ],
)
def test_secrets_are_replaced(value: object) -> None:
    redactor = Redactor(environ={})
    describe({"password": SECRET}, redactor=redactor)  # known from now on, also as a key
    reported = json.dumps(describe(value, redactor=redactor))
    assert SECRET not in reported
    assert "<redacted:" in reported


def test_of_a_secret_nothing_else_is_reported() -> None:
    redactor = Redactor(environ={})
    reported = describe(SECRET, name="password", redactor=redactor)
    assert set(reported) == {"type", "repr", "attributes"}
    for value in ([SECRET], {"a": SECRET}, [[{"a": [SECRET]}]]):
        reported = describe(value, name="password", redactor=redactor)
        assert SECRET not in str(reported)
        assert TAG.search(str(reported))


def test_equal_secrets_have_equal_tags_and_empty_ones_are_shown() -> None:
    value = {"token": SECRET, "password": SECRET, "secret": None}
    parts = describe(value, redactor=Redactor(environ={}))["attributes"]
    assert parts["['token']"]["repr"] == parts["['password']"]["repr"]
    assert parts["['secret']"] == leaf("NoneType", "None")


def test_what_is_inside_of_a_secret_is_found_under_its_name() -> None:
    redactor = Redactor(environ={})
    found = navigate({"password": {"user": [SECRET]}}, "['password']['user'][0]", redactor)
    assert SECRET not in describe(found.value, name=found.name, redactor=redactor)["repr"]
    assert found == (SECRET, "password")


# --- paths --------------------------------------------------------------------------------------

NESTED: dict[Any, Any] = {
    "cart": CART,
    ("a", 1): [Point(1, [2, 3])],
    "it's]": {"odd": types.SimpleNamespace(**{"odd name": 4})},
    Color.RED: "stop",
}


@for_each(
    ("path", "value"),
    [
        ("", NESTED),
        ("['cart'].items[1].price", decimal.Decimal(80)),
        ("['cart'].items[-1].name", "desk"),
        ("['cart'].by_name['lamp'].name", "lamp"),
        ("['cart'].limit", 5),
        ("[('a', 1)][0].y[1]", 3),
        ("[('a', 1)][0][0]", 1),
        ('["it\'s]"].odd', None),
        ("[\"it's]\"]['odd'].'odd name'", 4),
        ("[#3]", "stop"),
    ],
)
def test_a_path_leads_to_a_part_of_a_live_object(path: str, value: object) -> None:
    if value is None:
        with pytest.raises(Unreachable):
            navigate(NESTED, path)
    else:
        assert navigate(NESTED, path).value == value


@for_each(
    "path",
    [
        "",
        "['cart'].items[1].price",
        "['cart'].items[-1].name",
        "[('a', 1)][0].x",
        "[\"it's]\"]['odd'].'odd name'",
        "[#3]",
        "['cart'].items[#0]",
    ],
)
def test_the_same_path_leads_through_a_snapshot(path: str) -> None:
    found = navigate_description(describe(NESTED, depth=9), path)
    assert found["type"] == describe(navigate(NESTED, path).value)["type"]
    assert (
        found["repr"].partition("(")[0]
        == describe(navigate(NESTED, path).value)["repr"].partition("(")[0]
    )


def test_the_first_dot_may_be_missing() -> None:
    assert navigate(CART, "items[0].name").value == "lamp"


def test_every_part_of_a_snapshot_can_be_reached_by_its_key() -> None:
    def walk(reported: dict[str, Any], path: str) -> int:
        assert describe(navigate(NESTED, path).value)["type"] == reported["type"]
        assert navigate_description(whole, path) == reported
        steps = reported["attributes"]
        return 1 + sum(
            walk(below, path + (key if key.startswith("[") else f".{key}"))
            for key, below in steps.items()
        )

    whole = describe(NESTED, depth=9)
    assert walk(whole, "") > 15


@for_each(
    ("path", "part"),
    [
        (".items[5]", "no '[5]'; it has [0], [1]"),
        (".wares", "no '.wares'; it has .items, .by_name"),
        (".items.price", "no '.price'"),
        (".by_name['bed']", "it has ['lamp'], ['desk']"),
        (".items['a']", "no \"['a']\""),
        (".items[0].name[0]", "nothing to look into"),
        (".total", "breakpoint_repl_eval"),
        ("[0]", "breakpoint_repl_eval"),
        (".items.append", "breakpoint_repl_eval"),
    ],
)
def test_what_can_not_be_reached_is_reported_with_the_way_out(path: str, part: str) -> None:
    with pytest.raises(Unreachable) as caught:
        navigate(CART, path)
    assert part in str(caught.value)


def test_the_end_of_a_snapshot_is_distinguished_from_a_wrong_path() -> None:
    reported = describe(CART, depth=1)
    with pytest.raises(Unreachable) as caught:
        navigate_description(reported, ".items[0]")
    assert caught.value.is_cut
    with pytest.raises(Unreachable) as caught:
        navigate_description(reported, ".wares")
    assert not caught.value.is_cut


@for_each(
    ("path", "position"),
    [
        (".", 1),
        ("..a", 1),
        (".a b", 2),
        ("[", 1),
        ("[]", 1),
        ("[1", 1),
        (".a[b]", 3),
        (".a[[1]]", 3),
        (".a['b'", 3),
        (".1", 1),
        ("1", 0),
        ("[#x]", 1),
        ("[__import__('os')]", 1),
    ],
)
def test_a_malformed_path_is_refused_with_its_position(path: str, position: int) -> None:
    with pytest.raises(ValueError, match=rf"at position {position} of "):
        parse_path(path)


def test_a_path_has_a_greatest_length() -> None:
    with pytest.raises(ValueError, match="1002 characters"):
        parse_path(".a" * 501)


def test_a_key_and_the_path_to_it_are_the_same() -> None:
    rng = random.Random(3)
    for _ in range(500):
        key: Any = rng.choice(
            [
                "".join(rng.choices("a]['\"\\.#é\n", k=rng.randrange(6))),
                rng.randrange(-9, 10**9),
                rng.random(),
                (rng.randrange(9), "]"),
                None,
                b"\x00]",
            ]
        )
        shown = item_key(key)
        assert shown is not None
        (step,) = parse_path(shown)
        assert (step.value, step.key) == (key, shown)
