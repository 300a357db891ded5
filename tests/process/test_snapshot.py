"""Rendering of values: what is shown, what is cut, and that no user code runs."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import fractions
import functools
import inspect
import pathlib
import sqlite3
import sys
import types
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from pytest_cideldill.config.limits import Limits
from pytest_cideldill.frames.frames import NOT_SHOWN, locals_of, notice_secrets
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import class_name, type_name
from pytest_cideldill.rendering.one_line import Detail, render
from tests.each_case import for_each
from tests.process.machine import Machine

HERE = __name__


@dataclasses.dataclass
class Cart:
    items: list[Any]
    coupon: str


@dataclasses.dataclass(slots=True)
class Slotted:
    a: int
    b: int


class SlottedChild(Slotted):
    __slots__ = ("c", "d")

    def __init__(self) -> None:
        super().__init__(1, 2)
        self.c = 3


Point = collections.namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2


class EmptyCart(Exception):
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Names(list[str]):
    """A list with attributes."""


class Money(Decimal):
    pass


class FakeDate(datetime.datetime):
    pass


def rate() -> None: ...


def called_mock() -> mock.MagicMock:
    made = mock.MagicMock(name="gateway")
    made(1)
    return made


def cyclic() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


def with_attributes(items: list[str]) -> Names:
    names = Names(items)
    names.source = "db"  # type: ignore[attr-defined]
    return names


SHOWN: list[tuple[object, str]] = [
    (None, "None"),
    (True, "True"),
    (-5, "-5"),
    (10**5000, "<int of 16610 bits>"),
    (1.5, "1.5"),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    ("it's", '"it\'s"'),
    ("\udc80é\n", r"'\udc80é\n'"),
    (b"ab\xff", r"b'ab\xff'"),
    (bytearray(b"ab"), "bytearray(b'ab')"),
    ([], "[]"),
    ((1,), "(1,)"),
    ((1, 2), "(1, 2)"),
    ({"a": [1]}, "{'a': [1]}"),
    (set(), "set()"),
    ({1}, "{1}"),
    (frozenset({1}), "frozenset({1})"),
    (collections.deque([1, 2]), "deque([1, 2])"),
    (collections.OrderedDict(a=1), "OrderedDict({'a': 1})"),
    ({"a": 1}.keys(), "dict_keys(['a'])"),
    (cyclic(), "[1, <cycle>]"),
    (Cart([1, 2], "BULK10"), "Cart(items=[1, 2], coupon='BULK10')"),
    (Slotted(1, 2), "Slotted(a=1, b=2)"),
    (SlottedChild(), "SlottedChild(c=3, a=1, b=2)"),
    (Point(1, [2]), "Point(x=1, y=[2])"),
    (Color.RED, "<Color.RED: 1>"),
    (Permission.READ | Permission.WRITE, "<Permission.READ|WRITE: 3>"),
    (KeyError("x"), "KeyError('x')"),
    (KeyError(), "KeyError()"),
    (EmptyCart("no items", 4), "EmptyCart('no items', code=4)"),
    (with_attributes(["a"]), "Names(['a'], source='db')"),
    (types.SimpleNamespace(a=1), "SimpleNamespace(a=1)"),
    (functools.partial(int, "7"), "partial(func=<class 'int'>, args=('7',), keywords={})"),
    (object(), "<object object>"),
    (mock.Mock(), "<Mock>"),
    (called_mock(), "<MagicMock name='gateway' call_count=1>"),
    (int, "<class 'int'>"),
    (Cart, f"<class '{HERE}.Cart'>"),
    (rate, f"<function {HERE}.rate>"),
    (list.__init__, "<wrapper_descriptor object>"),
    (len, "<built-in len>"),
    (types, "<module 'types'>"),
    (Decimal("95.0"), "Decimal('95.0')"),
    (Money("9.5"), "Money(Decimal('9.5'))"),
    (fractions.Fraction(1, 3), "Fraction(1, 3)"),
    (pathlib.PurePosixPath("a/b"), "PurePosixPath('a/b')"),
    (uuid.UUID(int=5), "UUID('00000000-0000-0000-0000-000000000005')"),
    (datetime.date(2024, 1, 2), "datetime.date(2024, 1, 2)"),
    (datetime.timedelta(hours=1), "datetime.timedelta(seconds=3600)"),
    (
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        "datetime.datetime(2024, 1, 2, 0, 0, tzinfo=datetime.timezone.utc)",
    ),
    (FakeDate(2024, 1, 2), "FakeDate(datetime.datetime(2024, 1, 2, 0, 0))"),
]


@for_each(("value", "text"), SHOWN)
def test_a_value_is_shown_from_its_data(value: object, text: str) -> None:
    assert render(value) == text


def test_the_classes_of_a_module_are_no_data_of_its_objects() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        shown = render(connection)
    assert shown == "Connection(row_factory=None, text_factory=<class 'str'>)"
    assert (
        render(types.SimpleNamespace(Cart=Cart)) == f"SimpleNamespace(Cart=<class '{HERE}.Cart'>)"
    )


@for_each(
    ("value", "detail", "text"),
    [
        (Cart([1, 2, 3], "BULK10"), Detail(depth=1), "Cart(items=[3 items], coupon='BULK10')"),
        ([[1], {1: 2, 3: 4}, (1,)], Detail(depth=1), "[[1 item], {2 items}, (1 item)]"),
        ([[], {}, ()], Detail(depth=1), "[[], {}, ()]"),
        ([[[[1]]]], Detail(), "[[[[1 item]]]]"),
        ([Cart([], ""), KeyError(1)], Detail(depth=1), "[Cart(…), KeyError(…)]"),
        ("x" * 2000, Detail(string=5), "'xxxxx…'+1995 chars"),
        (b"x" * 20, Detail(string=5), "b'xxxxx…'+15 bytes"),
        (list(range(1000)), Detail(items=3), "[0, 1, 2, … +997 items]"),
        (dict.fromkeys(range(5)), Detail(items=1), "{0: None, … +4 items}"),
        (Cart([1], "c"), Detail(attributes=1), "Cart(items=[1], … +1 attributes)"),
    ],
)
def test_what_is_too_much_is_cut_with_a_notice(value: object, detail: Detail, text: str) -> None:
    assert render(value, detail) == text


def test_the_whole_text_is_limited() -> None:
    text = render([["x" * 50] * 50] * 50, Detail(text=300))
    assert len(text) <= 300
    assert "… +" in text or text.endswith("…")


def test_the_time_is_limited() -> None:
    assert render([Cart([1], "a")] * 3, Detail(milliseconds=-1)) == "[… +3 items]"


def test_numbers_are_not_cut_as_strings_are() -> None:
    assert render([123_456_789, 10**300], Detail(string=3)) == "[123456789, <int of 997 bits>]"
    assert render([10**4400], Detail(string=100_000)).startswith("[<int of ")


def lens(**limits: int) -> Lens:
    return Lens(Project("."), Redactor(environ={}), Limits(**limits))


def test_limits_lower_what_a_list_of_values_shows_and_lengthen_strings() -> None:
    """Strings have 200 characters in lists and locals; other bounds are smaller there, too."""
    value = [Cart([1], "a"), list(range(20)), "x" * 600]
    assert lens(max_items=1).show(value) == "[Cart(items=[1 item], coupon='a'), … +2 items]"
    assert lens(max_depth=1).show(value[:1]) == "[Cart(…)]"
    assert lens(max_items=50).show(value[1]) == lens().show(value[1])
    assert lens(max_string=600).show(value[2]) == repr(value[2])


def test_a_value_may_take_a_tenth_of_a_longer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread on a busy machine is held up for longer than the default allows."""
    monkeypatch.setattr(clock, "time", Machine(own_s=0.01))
    assert lens().show(["a", "b"]) == "['a', … +1 items]"
    assert lens(capture_ms=10_000).show(["a", "b"]) == "['a', 'b']"


def test_values_behind_the_deadline_are_named_only() -> None:
    """`capture_ms`; the deadline has passed."""
    first, second = "a", 2
    frame = inspect.currentframe()
    assert frame is not None
    shown = locals_of(frame, lens(), deadline=Deadline(-1))
    assert shown[0] == {"name": "first", "type": "str", "value": NOT_SHOWN}
    assert [each["value"] for each in locals_of(frame, lens())[:2]] == [repr(first), repr(second)]


def test_secrets_are_looked_for_beyond_what_is_shown() -> None:
    """Limits that are lowered must not have a secret told by a text elsewhere."""
    strict = lens(max_locals=1, max_items=1, max_depth=1, max_attributes=1)
    held = {"a": 1, "b": [{"authorization": "Zk3-opaque-header-001"}]}
    frame = inspect.currentframe()
    assert frame is not None
    notice_secrets(frame, strict)
    assert held
    assert "Zk3" not in strict.text("it was Zk3-opaque-header-001")


def test_the_text_can_always_be_encoded() -> None:
    odd = type("Odd", (), {"__module__": "m\udc80"})()
    setattr(odd, "at\udc81 tribute", "\ud800")
    assert "tribute" in render([odd, odd], Detail())
    render(odd).encode("utf-8")
    type_name(odd).encode("utf-8")
    assert "\n" not in render({"a\nb": type("A\nB", (), {})()})


@for_each(
    ("value", "name"),
    [
        (KeyError("x"), "KeyError"),
        (5, "int"),
        (Cart([], ""), f"{HERE}.Cart"),
        (Decimal(1), "decimal.Decimal"),
        (type("Odd", (), {"__module__": 5})(), "Odd"),
    ],
)
def test_types_are_reported_with_their_module_and_builtins_bare(value: object, name: str) -> None:
    assert type_name(value) == name
    assert class_name(type(value)) == name


class Ran(list[str]):
    """The names of the user code that ran."""

    def method(self, name: str, result: object = None) -> Callable[..., Any]:
        def run(*_args: object, **_kwargs: object) -> object:
            self.append(name)
            if isinstance(result, BaseException):
                raise result
            return result

        return run

    def methods(self, *names: str) -> dict[str, Any]:
        return {f"__{name}__": self.method(name, RuntimeError(name)) for name in names}


ALL = ("getattribute", "getattr", "repr", "str", "format", "eq", "hash", "len", "bool", "iter")
MORE = ("getitem", "contains", "index", "int", "float", "fspath", "lt", "gt", "dir", "reversed")


def hostile_values(ran: Ran) -> dict[str, object]:
    hostile = ran.methods(*ALL, *MORE)

    def make(*bases: type, **namespace: object) -> Any:
        return type("Hostile", bases, {**hostile, **namespace})

    def fake(module: str, name: str) -> object:
        asked = {each: property(ran.method(each)) for each in ("shape", "dtype", "item")}
        return type(name, (), {**hostile, **asked, "__module__": module})()

    meta = type("Meta", (type,), ran.methods("getattribute", "eq", "hash", "repr", "instancecheck"))
    of_meta = meta("OfMeta", (), {})
    plain = make()
    error = make(Exception)("x")
    zone = make(datetime.tzinfo)()
    text = make(str)("text")
    part = type("Part", (str,), ran.methods("repr", "str", "getitem", "eq", "len"))("a")
    with_dict_property = make(__dict__=property(ran.method("dict property")))
    with_class_property = make(__class__=property(ran.method("class property")))
    named = make(__module__=text)
    named.__qualname__ = text
    odd_dict = make()()
    object.__setattr__(odd_dict, "__dict__", make(dict)(a=1))
    hidden = type("H", (), {"__slots__": ("a", "b"), "p": property(ran.method("property"))})()
    hidden.a = plain()
    return {
        "plain": plain(),
        "a class of a hostile metaclass": of_meta,
        "an instance of one": object.__new__(of_meta),
        "dict": make(dict)(a=1),
        "list": make(list)([1]),
        "tuple": make(tuple)([1]),
        "set": make(set)([1]),
        "frozenset": make(frozenset)([1]),
        "deque": make(collections.deque)([1]),
        "str": text,
        "int": make(int)(5),
        "float": make(float)(5.0),
        "bytes": make(bytes)(b"x"),
        "bytearray": make(bytearray)(b"x"),
        "decimal": make(Decimal)("5"),
        "fraction": fractions.Fraction(5),
        "exception": error,
        # 3.11 asks the string when the path is made.
        "path": pathlib.PurePosixPath(part if sys.version_info >= (3, 12) else "a"),
        "date with a hostile zone": datetime.datetime(2024, 1, 1, tzinfo=zone),
        "hostile date": make(datetime.datetime)(2024, 1, 1),
        "module": make(types.ModuleType)("m"),
        "__dict__ property": with_dict_property(),
        "__class__ property": with_class_property(),
        "hostile names": named(),
        "hostile instance dict": odd_dict,
        "slots and properties": hidden,
        "a method": types.MethodType(rate, plain()),
        "a partial": functools.partial(print, plain()),
        "an array of no numpy": fake("numpy", "ndarray"),
        "a scalar of no numpy": fake("numpy", "int64"),
        "a table of no pandas": fake("pandas.core.frame", "DataFrame"),
        "a mock of no mock": fake("unittest.mock", "Mock"),
        "deep": [{"k": (plain(), error)}, {"k": cyclic()}],
    }


def test_no_user_code_runs() -> None:
    ran = Ran()
    values = hostile_values(ran)
    ran.clear()
    leaks = {}
    for name, value in values.items():
        text = render(value)
        assert "unrenderable" not in text, (name, text)
        type_name(value)
        if ran:
            leaks[name] = list(ran)
            ran.clear()
    assert leaks == {}


def test_what_fails_inside_is_named_and_the_rest_is_shown() -> None:
    broken = uuid.UUID(int=1)
    object.__setattr__(broken, "int", "not a number")
    unset = object.__new__(fractions.Fraction)
    assert render([1, unset, 2]) == "[1, <unrenderable: AttributeError>, 2]"
    assert render(broken) == "UUID(int='not a number')"


def test_deep_nesting_at_the_end_of_the_stack_is_survived() -> None:
    def dive(depth: int) -> str:
        try:
            return dive(depth + 1)
        except RecursionError:
            return render([[[Cart([1], "x")]]])

    assert dive(0)


class Name(enum.StrEnum):
    """A key that is a kind of string."""

    PASSWORD = "password"


@for_each(
    "make",
    [
        lambda secret: {b"password": secret},
        lambda secret: {("db", "password"): secret},
        lambda secret: {"name": "DB_PASSWORD", "value": secret},
        lambda secret: [{"Key": "api_key", "Value": secret}],
        lambda secret: {Name.PASSWORD: secret},
    ],
)
def test_names_that_are_no_plain_keys_hide_what_they_name(make: Callable[[str], object]) -> None:
    shown = render(make("Zq1x9pV7wK"), redactor=Redactor(environ={}))
    assert "Zq1x9pV7wK" not in shown
    assert "<redacted:" in shown


def test_a_name_without_a_secret_behind_it_hides_nothing() -> None:
    row = {"name": "token", "value": "NAME", "count": 3}
    assert render(row, redactor=Redactor(environ={})) == repr(row)
