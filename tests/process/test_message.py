"""Messages of tracepoints: how values become text, what runs for it, and what must not be told.

Without a conversion strings and values of standard library types render by
`str()`, others as they are captured; conversions and formats run the object's own method. A
message has at most 1,000 characters, and no secrets.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import random
import sys
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.time_limit import Overtime
from pytest_cideldill.interpreter import clock
from pytest_cideldill.probes.linehits import LineProbe, Surroundings, Watcher
from pytest_cideldill.project import Project
from pytest_cideldill.protocol import AddLine
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.sourcecode.codes import key_of
from tests.each_case import for_each
from tests.process.kept_rows import KeptRows
from tests.process.machine import Machine

At = Callable[..., str]


@pytest.fixture
def reported() -> Iterator[At]:
    with reporting() as report:
        yield report


@contextmanager
def reporting() -> Iterator[At]:
    """`reported(template, **locals)`: the message as it leaves a process of its own."""
    overtime = Overtime(EvaluationGuard())
    kept = KeptRows()
    lens = Lens(Project("."), Redactor(environ={}))
    surroundings = Surroundings(lens, overtime, Position(), kept, _never)

    def report(template: str, /, **names: Any) -> str:
        frame = frame_with(names)
        key = key_of(frame.f_code).to_plain()
        spec = AddLine(0, "tp-1", __file__, 1, key, message=template)
        Watcher(LineProbe(spec), frame.f_code, surroundings).passed(frame)
        message = kept.reported(kept.rows.pop())["message"]
        assert isinstance(message, str)
        return message

    yield report
    overtime.close()


def _never(*_: object) -> None:
    raise AssertionError


def frame_with(names: dict[str, Any]) -> FrameType:
    """The frame of a function with these locals."""
    namespace: dict[str, Any] = {"getframe": sys._getframe, "Refuses": Refuses}
    exec(f"def line({', '.join(names)}): return getframe()", namespace)
    frame: FrameType = namespace["line"](**names)
    return frame


class Refuses:
    """Whoever asks an instance anything gets an error, and is remembered."""

    asked: ClassVar[list[str]] = []

    def __init__(self, error: type[BaseException] = TypeError) -> None:
        object.__setattr__(self, "_raised", error)

    def _refuse(self, what: str) -> Any:
        Refuses.asked.append(what)
        raise object.__getattribute__(self, "_raised")(what)

    def __getattribute__(self, name: str) -> Any:
        return Refuses._refuse(self, name)

    __class__ = property(lambda self: Refuses._refuse(self, "__class__"))

    def __repr__(self) -> str:
        return str(Refuses._refuse(self, "__repr__"))

    def __str__(self) -> str:
        return str(Refuses._refuse(self, "__str__"))

    def __format__(self, spec: str) -> str:
        return str(Refuses._refuse(self, "__format__"))

    def __eq__(self, other: object) -> bool:
        return bool(Refuses._refuse(self, "__eq__"))

    def __hash__(self) -> int:
        return int(Refuses._refuse(self, "__hash__"))

    def __bool__(self) -> bool:
        return bool(Refuses._refuse(self, "__bool__"))

    def __len__(self) -> int:
        return int(Refuses._refuse(self, "__len__"))

    def __iter__(self) -> Any:
        return Refuses._refuse(self, "__iter__")


class Meta(type):
    """The class refuses as well."""

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(cls, other: object) -> bool:
        raise AssertionError

    def __hash__(cls) -> int:
        raise AssertionError

    def __instancecheck__(cls, instance: object) -> bool:
        raise AssertionError

    def __subclasscheck__(cls, other: type) -> bool:
        raise AssertionError


class Text(str):
    """A string with ideas of its own."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name != "__class__":  # so that paths can be made of it
            raise AssertionError(name)
        return Text

    def __str__(self) -> str:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError

    def __format__(self, spec: str) -> str:
        raise AssertionError

    def __getitem__(self, key: object) -> str:
        raise AssertionError


class Number(int):
    def __str__(self) -> str:
        raise AssertionError

    __repr__ = __format__ = __str__  # type: ignore[assignment]


class Zone(datetime.tzinfo):
    def utcoffset(self, when: object) -> Any:
        raise AssertionError

    tzname = dst = utcoffset


class Path(pathlib.PurePosixPath):
    def __str__(self) -> str:
        raise AssertionError

    __fspath__ = __repr__ = __str__


class Colour(str, enum.Enum):  # noqa: UP042 - that is another kind
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


# --- plain fields


NOON = datetime.datetime(2024, 5, 6, 12, 30)


@for_each(
    ("value", "shown"),
    [
        ("text", "text"),
        ("", ""),
        ("it's “quoted”\n%s {x} %", "it's “quoted”\n%s {x} %"),
        (5, "5"),
        (-(10**18), "-1000000000000000000"),
        (2.5, "2.5"),
        (float("nan"), "nan"),
        (True, "True"),
        (None, "None"),
        (1 + 2j, "(1+2j)"),
        (b"bytes", "b'bytes'"),
        ([1, "a"], "[1, 'a']"),
        (("a",), "('a',)"),
        ({"a": None}, "{'a': None}"),
        (range(3), "range(0, 3)"),
        (decimal.Decimal("1.50"), "1.50"),
        (fractions.Fraction(1, 2), "1/2"),
        (NOON, "2024-05-06 12:30:00"),
        (NOON.date(), "2024-05-06"),
        (NOON.time(), "12:30:00"),
        (datetime.timedelta(hours=1), "1:00:00"),
        (NOON.replace(tzinfo=datetime.UTC), "2024-05-06 12:30:00+00:00"),
        (NOON.replace(tzinfo=zoneinfo.ZoneInfo("UTC")), "2024-05-06 12:30:00+00:00"),
        (datetime.UTC, "UTC"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (pathlib.PureWindowsPath("a/b"), r"a\b"),
        (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
        (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        (Colour.RED, "<Colour.RED: 'red'>"),
        (Level.HIGH, "<Level.HIGH: 3>"),
        (SimpleNamespace(a=1), "SimpleNamespace(a=1)"),
        (ValueError("bad"), "ValueError('bad')"),
        (int, "<class 'int'>"),
        ("\ud800", "\ud800"),
        ([1] * 1_000, f"[{'1, ' * 10}… +990 items]"),
    ],
)
def test_a_value_is_shown_as_itself(reported: At, value: object, shown: str) -> None:
    assert reported("{value}", value=value) == shown
    assert reported("<{value}>", value=value) == f"<{shown}>"


def test_subclasses_of_plain_types_are_not_asked(reported: At) -> None:
    """Strings are told as their text."""
    assert reported("{text} {number}", text=Text("text"), number=Number(5)) == "text Number(5)"


def test_an_integer_that_has_no_text_is_measured(reported: At) -> None:
    """CPython refuses to write more than 4,300 digits."""
    shown = "<int of 16610 bits>"
    names = {"huge": 10**5_000, "own": Number(10**5_000), "text": "t"}
    assert reported("{huge}", **names) == shown
    assert reported("{text} {huge} 5% {own}", **names) == f"t {shown} 5% {shown}"
    assert reported("{[huge]} {huge}", **names) == f"[{shown}] {shown}"


HOSTILE: dict[str, Callable[[], Any]] = {
    "object": Refuses,
    "class": lambda: Meta("Made", (), {}),
    "instance of a class": lambda: Meta.__call__(Meta("Made", (), {})),
    "list": lambda: [Refuses(), {"key": Refuses()}],
    "string": lambda: Text("text"),
    "number": lambda: Number(5),
    "time zone": lambda: NOON.replace(tzinfo=Zone()),
    "time": lambda: NOON.replace(tzinfo=Zone()).timetz(),
    "name of a time zone": lambda: datetime.timezone(datetime.timedelta(hours=1), Text("text")),
    "path": lambda: Path("a"),
    "key": lambda: {Text("text"): 1},
    "exception": lambda: ValueError(Refuses()),
}
if sys.version_info >= (3, 12):  # before, a path is made of plain strings
    HOSTILE["path of a string"] = lambda: pathlib.PurePosixPath(Text("text"))


@pytest.mark.full
@for_each("kind", HOSTILE)
@for_each("template", ["{x}", "a {x} b {x}", "{x, 1}", "{x} {x} {number} {text}"])
def test_plain_fields_run_no_code_of_the_program(reported: At, kind: str, template: str) -> None:
    value = HOSTILE[kind]()
    Refuses.asked.clear()
    message = reported(template, x=value, number=10**5_000, text="t")
    assert "error" not in message
    assert "failed" not in message
    assert Refuses.asked == []


# --- conversions and formats


@for_each(
    ("template", "shown"),
    [
        ("{text!r}", "'it\\'s \"é\"'"),
        ("{text!s}", 'it\'s "é"'),
        ("{text!a}", "'it\\'s \"\\xe9\"'"),
        ("{number!r:>5}|{number:05}|{number:x}|{number:,}", "   42|00042|2a|42"),
        ("{number:{width}}|{number:{width}.{precision}f}", "     42|  42.00"),
        ("{number!s:{fill}>{width}}", "*****42"),
        ("{number=}|{number = }|{number=!s:>4}|{number + 1 =}", "number=42|number = 42|"),
        ("{when:%H:%M} {when!s:.4}", "12:30 2024"),
        ("{number:}|{text:}", '42|it\'s "é"'),
        ("100% %s %d %(x)s {number}%", "100% %s %d %(x)s 42%"),
        ("{{number}} {{}} }}{{ {number}", "{number} {} }{ 42"),
        ("{ {'a': number}['a'] }", "42"),
        ("", ""),
        ("no fields", "no fields"),
        ("{number}", "42"),
        ("{number}{number}", "4242"),
        ("{number, text}", "(42, 'it\\'s \"é\"')"),
        ("{items}{items!r}", "[1, 'a'][1, 'a']"),
        ("{f'{number:>5}'}", "   42"),
        ("line\n{number}\ttab", "line\n42\ttab"),
        ("{number:%}", "4200.000000%"),
        ("{Refuses.__name__}", "Refuses"),
    ],
)
def test_conversions_and_formats_are_those_of_f_strings(
    reported: At, template: str, shown: str
) -> None:
    names = {"text": 'it\'s "é"', "number": 42, "width": 7, "precision": 2, "fill": "*"}
    message = reported(template, **names, when=NOON, items=[1, "a"])
    assert message.startswith(shown) if shown.endswith("|") else message == shown


@pytest.mark.full
@for_each(
    ("template", "shown"),
    [
        ("{x!r}", "<error: TypeError>"),
        ("{x!s}", "<error: TypeError>"),
        ("{x!a}", "<error: TypeError>"),
        ("{x:>5}", "<error: TypeError>"),
        ("{x!r:>30}", "            <error: TypeError>"),
        ("{number:zz}", "<error: ValueError>"),
        ("{text:.2f}", "<error: ValueError>"),  # no code of texts
        ("{text!r:.2f}", "<error: ValueError>"),
        ("{items:.2f}", "<error: TypeError>"),  # a type without formats
        ("{number:{text}}", "<error: ValueError>"),
        ("{number:99999999999999999999}", "<error: ValueError>"),
        ("{huge:c}", "<error: OverflowError>"),
        ("{number:{unknown}}", "<error: NameError>"),
        ("{unknown:{number}}", "<error: NameError>"),
        ("{number:{x}}", "<error: TypeError>"),
        ("{unknown!r}", "<error: NameError>"),
        ("{x.name}", "<error: TypeError>"),
        ("{not x}", "<error: TypeError>"),
        ("{x == 1}", "<error: TypeError>"),
        ("{d['key']}", "<error: KeyError>"),
        ("{quits!r}", "<error: SystemExit>"),
        ("{quits:5}", "<error: SystemExit>"),
        ("{lies!r}", "<error: TypeError>"),
        ("{huge!r}", "<error: ValueError>"),
        ("{huge:,}", "<error: ValueError>"),
    ],
)
def test_what_fails_fails_alone(reported: At, template: str, shown: str) -> None:
    names = {"x": Refuses(), "quits": Refuses(SystemExit), "lies": Lies(), "d": {}, "number": 3}
    message = reported(f"{{number}} {template} {{d}}", **names, huge=10**5_000, text="t", items=[])
    assert message == f"3 {shown} {{}}"


class Lies:
    def __repr__(self) -> str:
        return 5  # type: ignore[return-value]


class Subtle:
    """Its texts are strings that are hostile themselves."""

    def __repr__(self) -> str:
        return Text("text")

    def __str__(self) -> str:
        return Text("text")

    def __format__(self, spec: str) -> str:
        return Text("text")


@for_each("field", ["{x!r}", "{x!s}", "{x!a}", "{x:3}", "{x!r:>3}", "{x!s:}"])
def test_texts_of_a_class_of_their_own_become_plain_ones(reported: At, field: str) -> None:
    assert reported(field, x=Subtle()) == "text"
    assert reported(f"<{field}>", x=Subtle()) == "<text>"


def test_long_texts_are_cut(reported: At) -> None:
    assert reported("{x}", x="é" * 999) == "é" * 999
    for count in (1_000, 1_001, 80_000, 3_000_000):
        assert reported("{x}", x="é" * count) == "é" * 1_000
        assert reported("{x!s}{x!s}", x="é" * count) == "é" * 1_000
        assert reported("{x:}", x=Text("é" * count)) != ""
        assert reported("{x}", x=Text("é" * count)) == "é" * 1_000


# --- secrets


WORD = "hunter"  # short, and a word: nothing but its name tells that it is a secret
SHAPED = "ghp_" + "a1B2" * 9
SECRETS = {
    "password": WORD,
    "d": {"api_key": WORD},
    "user": SimpleNamespace(token=WORD),
    "secret": [WORD, "other"],
    "SECRET_KEY": WORD.encode(),
}


@for_each(
    "template",
    [
        "{password}",
        "{password!r}",
        "{password:>20}",
        "{password=}",
        "{d['api_key']}",
        "{d}",
        "{d!r}",
        "{d.get('api_key')}",
        "{d.get('api_key', None)!r}",
        "{user.token}",
        "{getattr(user, 'token')}",
        "{f'x {password}'}",
        "{f'x {password!r:>20}'}",
        "{'x' + password}",
        "{'%s' % password}",
        "{[password]}",
        "{[password]!r}",
        "{(password, 1)}",
        "{{{'a': password}}}",
        "{(lambda: password)()}",
        "{[c for c in [password]]}",
        "{[token for token in secret]}",
        "{secret}",
        "{secret[0]}",
        "{', '.join(secret)}",
        "{str(secret)}",
        "{SECRET_KEY}",
        "{[SECRET_KEY]}",
        "{SECRET_KEY.decode()} {SECRET_KEY!r}",
        "{locals()}",
        "{password:{len(password)}}",
        "{1:{password}}",
        "{(password, unknown)}",
        "{user!r:>1}",
        "{d['api_key'].upper() and d['api_key']}",
    ],
)
def test_what_has_a_sensitive_name_is_not_reported(template: str) -> None:
    with reporting() as reported:  # no other template has made the secret known
        assert WORD not in reported(template, **SECRETS)


def test_what_says_nothing_is_reported(reported: At) -> None:
    names: dict[str, Any] = {"password": None, "token": "", "secret": True, "pins": []}
    assert reported("{password} {token} {secret} {pins} {len(token)}", **names) == "None  True [] 0"
    assert reported("{len(password)} {password == 'x'} {password is None}", password=WORD) == (
        "6 False False"
    )


def test_equal_secrets_have_equal_tags(reported: At) -> None:
    message = reported(
        "{password} {'x' + password} {other.token}", password=WORD, other=SECRETS["user"]
    )
    first, second, third = message.split()
    assert first.startswith("<redacted:password#")
    assert second == f"x{first}"
    assert third.partition("#")[2] == first.partition("#")[2]


@pytest.mark.full
@pytest.mark.quick("7")
@pytest.mark.parametrize("step", [1, 7])
def test_a_secret_across_the_cut_is_not_reported(reported: At, step: int) -> None:
    for before in range(1_000, 949, -step):
        for template in ("{pad}{x} {pad}", "{pad}{x!s} {pad}"):
            message = reported(template, pad="-" * before, x=SHAPED)
            assert "ghp" not in message
            assert len(message) <= 1_100
            assert "<redacted" in message or before == 1_000


def test_what_was_cut_at_once_is_the_same_as_what_is_cut_later(reported: At) -> None:
    """The tags of secrets in a long text are whole."""
    message = reported("{x}", x=f"{SHAPED} " * 100)
    assert message.count("<redacted") == message.count(">")
    assert "ghp" not in message


# --- at random


PIECES = ["%", "%s", "{{", "}}", "é", "\n", "{a}", "{b!r}", "{c:>4}", "{a, b}", "{unknown}", "{c=}"]


@pytest.mark.full
@pytest.mark.parametrize("count", [50, 300])
def test_any_mixture_is_what_an_f_string_gives(
    reported: At, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(clock, "time", Machine())  # nothing is too slow
    chooser = random.Random(5)
    a, b, c = 1.5, "b%{}", 7
    for _ in range(count):
        template = "".join(chooser.choices(PIECES, k=chooser.randrange(9)))
        shown = eval("f" + repr(template.replace("{unknown}", "<error: NameError>")))
        assert reported(template, a=a, b=b, c=c) == shown, template
