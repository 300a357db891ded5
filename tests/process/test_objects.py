"""CIDs: the bytes of dill where they can be had, no user code on the way, nothing of secrets."""

from __future__ import annotations

import abc
import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import gc
import hashlib
import pathlib
import random
import subprocess
import sys
import textwrap
import threading
import time
import types
import typing
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import dill
import pytest

from pytest_cideldill.config.limits import Limits
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.evaluation.interrupt import EvaluationInterrupted, Interruptor
from pytest_cideldill.interpreter import clock
from pytest_cideldill.interpreter.clock import Deadline
from pytest_cideldill.objects import content_ids
from pytest_cideldill.objects.content_ids import Held, Identified, Objects
from pytest_cideldill.objects.object_log import ObjectLog, StoredObject
from pytest_cideldill.objects.pickles import fast
from pytest_cideldill.patching.code_swap import intercept
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.instances import Unfit
from tests.each_case import for_each
from tests.process.machine import Machine
from tests.process.test_snapshot import Ran, hostile_values
from tests.together import counted

KEY = b"k" * 32
T = typing.TypeVar("T")


class Bench:
    """The objects of one process, and what they hand to the store."""

    def __init__(self, **options: Any) -> None:
        self.log = ObjectLog()
        redactor = options.pop("redactor", None) or Redactor(environ={})
        limits = options.pop("limits", Limits(capture_ms=20_000))
        self.objects = Objects(self.log, redactor, KEY, EvaluationGuard(), limits, **options)
        self.objects._fast_ms = limits.capture_ms  # tests may be held up for 15 ms

    def recorded(self, value: object, name: str = "") -> Identified:
        return self.objects.identify(self.objects.freeze(value, name))

    def paused(self, value: object, name: str = "") -> Identified:
        return self.objects.take({}, value, name)

    def copied(self, value: object) -> bytes | None:
        """What is stored of an object that a client asks for at a pause."""
        held: dict[str, Held] = {}
        cid = self.objects.take(held, value).cid
        description = self.objects.unchanged(held[cid])
        assert description is not None
        self.objects.copy(cid, held[cid], description)
        return held[cid].copy

    def stored(self) -> list[StoredObject]:
        rows: list[StoredObject] = []
        self.log.write(rows.extend)
        return rows


@pytest.fixture
def bench() -> Bench:
    return Bench()


def digest(value: object) -> str:
    return hashlib.sha512(dill.dumps(value, protocol=4)).hexdigest()


# --- shapes -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Cart:
    items: Any
    coupon: str = "BULK10"


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: int = 2


class Child(Slotted):
    __slots__ = ("__private", "unset")

    def __init__(self, a: Any) -> None:
        super().__init__(a)
        self.__private = a


class Mixed(Slotted):
    def __init__(self, a: Any) -> None:
        super().__init__(a)
        self.more = a


class Empty: ...


class Bare:
    __slots__ = ()


class Box(typing.Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


class Base(abc.ABC):  # noqa: B024 - what counts is the metaclass
    def __init__(self, value: Any) -> None:
        self.value = value


class Names(list[Any]): ...


class Config(dict[str, Any]): ...


class Pair(tuple[Any, ...]): ...


class Text(str): ...


class Number(int): ...


class Failure(Exception):
    def __init__(self, message: Any, code: int) -> None:
        super().__init__(message)
        self.code = code


class Color(enum.Enum):
    RED = 1
    BLUE = (1, "x")


class Size(enum.StrEnum):
    S = "s"


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2


class Outer:
    class Inner:
        def __init__(self) -> None:
            self.x = 1

    def method(self) -> None: ...


def function() -> None: ...


Point = collections.namedtuple("Point", "x y")


def with_attribute(value: Any, attribute: Any) -> Any:
    value.attribute = attribute
    return value


INSTANCES: list[Callable[[Any], object]] = [
    Cart,
    Slotted,
    Child,
    Mixed,
    Box,
    Base,
    lambda v: Empty(),
    lambda v: Bare(),
    lambda v: Names([v, v]),
    lambda v: with_attribute(Names([v]), v),
    lambda v: with_attribute(Config(a=v, b=1), v),
    lambda v: Pair((v, 1)),
    lambda v: with_attribute(Text("t"), v),
    lambda v: Number(7),
    lambda v: Failure(v, 4),
    lambda v: [Color.RED, Color.BLUE, Size.S],
    lambda v: Permission.READ | Permission.WRITE,
    lambda v: Outer.Inner(),
    lambda v: [function, Cart, Outer.Inner, Outer.method],
    lambda v: uuid.UUID(int=5),
    lambda v: pathlib.PurePosixPath("a/b"),
    lambda v: decimal.Decimal("1.10"),
    lambda v: datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    lambda v: [datetime.date(2024, 1, 2), datetime.timedelta(3), datetime.time(4)],
    lambda v: [collections.deque([v], 5), collections.OrderedDict(a=v)],
]


def tree(rng: random.Random, depth: int = 0, *, plain: bool = True) -> Any:
    def below() -> Any:
        return tree(rng, depth + 1, plain=plain)

    count = rng.randrange(5)
    leaves: list[Callable[[], Any]] = [
        lambda: rng.randrange(-(10**6), 10**12),
        lambda: 10 ** rng.randrange(700),
        lambda: "x" * rng.randrange(400) + str(rng.random()),
        lambda: rng.randbytes(rng.randrange(300)),
        rng.random,
        lambda: rng.choice([None, True, False, "\ud800é", ""]),
    ]
    nodes: list[Callable[[], Any]] = [
        lambda: [below() for _ in range(count)],
        lambda: tuple(below() for _ in range(count)),
        lambda: {str(key): below() for key in range(count)},
        lambda: {1, 2, "a"},
        lambda: frozenset("ab"),
    ]
    others = [] if plain else [lambda: rng.choice(INSTANCES)(below())] * 6
    return rng.choice(leaves if depth > 4 else leaves + nodes + others)()


# --- what dill would make -----------------------------------------------------------------------


@pytest.mark.parametrize("plain", [True, False])
def test_the_bytes_are_those_of_dill(plain: bool) -> None:
    for seed in range(600):
        value = tree(random.Random(seed), plain=plain)
        data, is_plain = fast(value, 1 << 24, Deadline(10))
        assert data == dill.dumps(value, protocol=4), seed
        assert is_plain or not plain


@pytest.mark.full
def test_the_bytes_of_large_values_are_those_of_dill() -> None:
    for value in (
        [str(n) for n in range(30_000)],
        [Cart([n]) for n in range(3_000)],
        "x" * 200_000,
    ):
        assert fast(value, 1 << 24, Deadline(10))[0] == dill.dumps(value, protocol=4)


@for_each("make", INSTANCES)
def test_both_ways_give_the_digest_of_dills_bytes(make: Callable[[Any], object]) -> None:
    value = make([1, "a"])
    assert Bench().recorded(value)[:2] == (digest(value), "dill")
    assert Bench().paused(value)[:2] == (digest(value), "dill")


class Hooked:
    def __init__(self) -> None:
        self.x = 1

    def __getstate__(self) -> object:
        return {"x": 1, "hooked": True}


NEEDS_DILL: list[object] = [
    Hooked(),
    [1, Hooked()],
    Point(1, 2),
    lambda: 5,
    range(3),
    KeyError("x"),
    types,
    bytearray(b"x"),
    collections.defaultdict(list),
    type("Local", (), {"x": 1})(),
    int,
    Outer().method,
]


@for_each("value", NEEDS_DILL)
def test_what_takes_code_is_called_by_its_snapshot_and_copied_when_asked_for(value: object) -> None:
    bench = Bench()
    for called in (bench.recorded(value), bench.paused(value)):
        assert (called.kind, called.data) == ("snapshot", None)
    bench.stored()
    assert bench.copied(value) == dill.dumps(value, protocol=4)
    (before, after) = bench.stored()
    assert (before.cid, before.description, before.data) == (after.cid, after.description, None)
    assert after.data is not None
    assert after.data.endswith(dill.dumps(value, protocol=4))


@for_each(
    "value",
    [
        (each for each in ""),
        sys._getframe(),
        memoryview(b"x"),
        pytest.raises(KeyError),
        pytest.MonkeyPatch(),
        [pytest.MonkeyPatch()],
    ],
)
def test_what_dill_refuses_has_no_copy(value: object) -> None:
    assert Bench().paused(value).kind == Bench().recorded(value).kind == "snapshot"
    assert Bench().copied(value) is None


@pytest.mark.full
def test_pytest_is_not_walked_through(request: pytest.FixtureRequest, bench: Bench) -> None:
    started = time.monotonic()
    for value in (request, [request.config], {"node": request.node}, Cart(request)):
        assert bench.recorded(value).kind == "snapshot"
        assert bench.paused(value).kind == "snapshot"
        assert bench.copied(value) is None
    assert time.monotonic() - started < 5


def test_no_user_code_runs(bench: Bench) -> None:
    ran = Ran()
    values = hostile_values(ran)
    reduce = {f"__{name}__": ran.method(name) for name in ("reduce", "reduce_ex", "getstate")}
    reducing = types.new_class("Reducing", (), {}, lambda names: names.update(reduce))
    reducing.__module__ = __name__
    values |= {
        "reducing": reducing(),
        "by items": type("Odd", (dict,), {"items": ran.method("items")})(a=1),
        "by iteration": type("Odd", (list,), {"__iter__": ran.method("iter")})([1]),
    }
    ran.clear()
    for name, value in values.items():
        for each in (value, [value], {"a": value}):
            assert len(bench.recorded(each).cid) == len(bench.paused(each).cid) == 128
        assert list(ran) == [], name


@pytest.mark.sample("object", "Exception", "dict", "str", "meta", "lazy", "registered")
@pytest.mark.full
@pytest.mark.parametrize("kind", [*counted.BASES, "meta", "lazy", "registered"])
def test_no_hook_of_a_class_is_asked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copyreg, "dispatch_table", copyreg.dispatch_table.copy())
    bench = Bench()
    for each in counted.things(kind):
        held: dict[str, Held] = {}
        for value in (each, [each], {"a": each}, Cart(each)):
            bench.recorded(value)
            cid = bench.objects.take(held, value).cid
            assert bench.objects.unchanged(held[cid]) is not None
        assert counted.COUNTS == {}, type(each)


def test_a_class_that_pretends_to_be_in_a_module_is_not_looked_up(bench: Bench) -> None:
    ran = Ran()
    module = types.ModuleType("pretended")
    module.__getattr__ = ran.method("module")  # type: ignore[method-assign]
    pretender = type("Pretender", (), {"__module__": "pretended"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pretended", module)
        assert bench.recorded(pretender()).kind == "snapshot"
        assert bench.recorded(pretender).kind == "snapshot"
    assert list(ran) == []


def test_an_object_that_is_taken_twice_at_a_pause_is_called_and_copied_once(bench: Bench) -> None:
    value, held = Hooked(), dict[str, Held]()
    first = bench.objects.take(held, value)
    (mine,) = held.values()
    bench.objects.copy(first.cid, mine, "{}")
    assert bench.objects.take(held, value) == first
    assert list(held.values()) == [mine]
    assert mine.copy == dill.dumps(value, protocol=4)
    other = bench.objects.take(held, Hooked())
    assert other.cid != first.cid
    assert len(held) == 2


def test_a_pause_holds_the_objects_that_were_taken_last(bench: Bench) -> None:
    held: dict[str, Held] = {}
    names = [bench.objects.take(held, [number]).cid for number in range(content_ids.MAX_HELD + 3)]
    assert list(held) == names[3:]


@pytest.mark.parametrize("error", [SystemExit(1), RecursionError(), GeneratorExit(), TypeError()])
def test_what_user_code_raises_at_a_pause_is_swallowed(bench: Bench, error: BaseException) -> None:
    ran = Ran()
    broken = type("Broken", (), {"__reduce__": ran.method("reduce", error)})()
    assert bench.copied(broken) is None
    assert list(ran) == ["reduce"]


def test_ctrl_c_is_not_swallowed(bench: Bench) -> None:
    broken = type("Broken", (), {"__reduce__": Ran().method("reduce", KeyboardInterrupt())})()
    with pytest.raises(KeyboardInterrupt):
        bench.copied(broken)


def test_nothing_stops_or_records_what_dill_runs() -> None:
    guard = EvaluationGuard()
    seen = []

    class Watching:
        def __reduce__(self) -> Any:
            seen.append(guard.is_quiet())
            return (int, (1,))

    bench = Bench()
    bench.objects._guard = guard
    assert bench.copied(Watching()) is not None
    assert seen == [True]
    assert not guard.is_quiet()


@pytest.mark.full
def test_deep_nesting_is_survived(bench: Bench) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    try:
        assert bench.recorded(deep).kind == "snapshot"
        assert bench.paused(deep).kind == "snapshot"
    finally:
        while deep:  # taken apart without recursion
            deep = deep.pop()


def test_the_end_of_the_stack_is_survived(bench: Bench) -> None:
    value = Cart([Empty()])

    def dive() -> Identified:
        try:
            return dive()
        except RecursionError:
            return bench.recorded(value)

    assert len(dive().cid) == 128


def test_a_damaged_pickle_is_called_something(bench: Bench) -> None:
    assert bench.objects.identify(b"garbage").kind == "secret"


def test_a_swapped_function_is_called_as_if_it_were_not() -> None:
    def make() -> tuple[types.FunctionType, object]:
        def inner(amount: int = 3) -> int:
            return amount * 2

        return typing.cast("types.FunctionType", inner), {"f": inner}

    inner, value = make()
    before = Bench().copied(value)
    undo = intercept(inner, lambda _frame, original, args, kwargs: original(*args, **kwargs))
    assert Bench().copied(value) == before
    undo()


# --- limits -------------------------------------------------------------------------------------


def test_what_is_too_large_is_called_by_its_snapshot_except_at_a_pause() -> None:
    value = list(range(2_000))
    small = Limits(max_object_bytes=1_024, capture_ms=20_000)
    assert Bench(limits=small).recorded(value).kind == "snapshot"
    assert Bench(limits=small).recorded("x" * 2_000).kind == "snapshot"
    bench = Bench(limits=small)
    assert bench.paused(value) == (digest(value), "dill", None)
    (row,) = bench.stored()
    assert (row.cid, row.data) == (digest(value), None)
    assert bench.copied([lambda: 1, value]) is None


@pytest.mark.full
def test_what_takes_too_long_is_given_up() -> None:
    with pytest.raises(Unfit):
        fast([Cart(1)] * 2, 1 << 20, Deadline(-1))
    assert Bench(limits=Limits(capture_ms=1)).paused(list(range(10**6))).kind == "snapshot"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_ids, "COPY_MS", 1)
        assert Bench().copied([(lambda: 1, number) for number in range(20_000)]) is None


@pytest.mark.timeout(20)
def test_user_code_that_does_not_end_is_interrupted(bench: Bench) -> None:
    started = threading.Event()

    class Endless:
        def __getstate__(self) -> object:
            started.set()
            while True:
                pass

    interruptor = Interruptor()

    def interrupt() -> None:
        started.wait()
        while not interruptor.interrupt():
            pass

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(EvaluationInterrupted):
        interruptor.run(lambda: bench.copied(Endless()))
    thread.join()


def test_frozen_pickles_have_a_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_ids, "MAX_FROZEN_BYTES", 30_000)
    bench = Bench()
    values = ["x" * 10_000 + str(number) for number in range(4)]
    frozen = [bench.objects.freeze(value) for value in values]
    assert [bench.objects.identify(each).kind for each in frozen] == ["dill"] * 2 + ["snapshot"] * 2
    frozen.clear()
    assert bench.recorded(values[3]).kind == "dill"


def test_what_waits_to_be_named_is_taken_once(bench: Bench) -> None:
    """A large object that many calls get one after the other costs a snapshot once."""
    value = [Cart(number) for number in range(50)]
    frozen = [bench.objects.freeze(value) for _ in range(3)]
    assert frozen[0] is frozen[1] is frozen[2]
    value.append(Cart(50))
    changed = bench.objects.freeze(value)
    assert changed is not frozen[0]
    names = [bench.objects.identify(each).cid for each in (*frozen, changed)]
    assert len(set(names)) == 2
    assert bench.objects.freeze(value) == bench.objects.identify(changed)._replace(data=None)
    frozen.clear()
    del changed
    assert bench.objects._waiting == {}


@pytest.mark.full
def test_pickling_and_the_snapshot_share_the_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """15 ms of a recorded call for both; here each look at the clock takes one."""
    machine = Machine(own_s=0.001)
    monkeypatch.setattr(clock, "time", machine)
    bench.objects._fast_ms = 15
    value = [Cart(number) for number in range(500)]
    assert bench.recorded(value).kind == "snapshot"
    assert machine.looks < 50
    (row,) = bench.stored()
    assert '"truncated":true' in row.description


def test_an_object_is_handed_on_once(bench: Bench) -> None:
    values: list[object] = [1, "a", [1], Cart([1]), Hooked(), "x" * 5_000]
    names = [bench.recorded(value).cid for value in values]
    rows = bench.stored()
    assert [row.cid for row in rows] == names
    assert [bench.recorded(value).cid for value in values] == names
    assert bench.stored() == []


def test_an_object_is_taken_as_it_was(bench: Bench) -> None:
    items = [1, 2]
    frozen = [bench.objects.freeze(items), bench.objects.freeze(Cart(items))]
    names = [digest(items), digest(Cart(items))]
    items.append(3)
    assert [bench.objects.identify(each).cid for each in frozen] == names


@pytest.mark.full
def test_nothing_is_kept_alive(bench: Bench) -> None:
    class Local:
        pass

    gone: list[weakref.ref[Any]] = [weakref.ref(Local)]
    for value in ([Local()], Cart(Empty()), Names([Empty()])):
        gone += [weakref.ref(value)] if type(value) is not list else [weakref.ref(value[0])]
        bench.recorded(value)
        bench.paused(value)
    gc.disable()  # no cycle of ours keeps them
    del value
    assert [each() for each in gone[1:]] == [None] * 3
    gc.enable()
    del Local
    gc.collect()
    assert gone[0]() is None


@pytest.mark.full
def test_many_threads_may_freeze_at_once(bench: Bench) -> None:
    values = [tree(random.Random(seed), plain=False) for seed in range(60)]
    names = [bench.recorded(value).cid for value in values]
    found: list[list[str]] = []
    threads = [
        threading.Thread(
            target=lambda: found.append([Bench().recorded(value).cid for value in values])
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [names] * 4


@pytest.mark.full
def test_dill_is_imported_late_and_changes_nothing_in_pickle() -> None:
    script = """
        import pickle, sys
        from pytest_cideldill.objects.content_ids import Objects
        from pytest_cideldill.evaluation.guard import EvaluationGuard
        from pytest_cideldill.objects.object_log import ObjectLog
        from pytest_cideldill.redaction.redactor import Redactor
        before = dict(pickle._Pickler.dispatch)
        from pytest_cideldill.config.limits import Limits
        limits = Limits(capture_ms=20_000)
        objects = Objects(ObjectLog(), Redactor(environ={}), b"k", EvaluationGuard(), limits)
        objects.identify(objects.freeze([1, lambda: 1]))
        held = {}
        cid = objects.take(held, range(3)).cid
        description = objects.unchanged(held[cid])
        assert "dill" not in sys.modules
        objects.copy(cid, held[cid], description)
        assert "dill" in sys.modules
        assert pickle._Pickler.dispatch == before
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""


def atom(generator: random.Random) -> object:
    """A number or a string; many are equal to others, and have another pickle."""
    number = generator.choice([0, 1, 2, 255, 256, 65_535, 2**31, 2**63, 10**18, 10**40])
    text = generator.choice(["", "a", "lamp", "é", "\ud800", "\x00", "日本", "a\n"])
    length = generator.choice([1, 1, 1, 30, 255, 256, 700, 1_999, 2_000, 5_000])
    make: Callable[[], object] = generator.choice(
        [
            lambda: generator.choice([1, -1]) * number,
            lambda: generator.choice([1, -1]) * float(number % 2**70),
            lambda: bool(number % 2),
            lambda: generator.choice([None, float("nan"), -float("nan"), float("inf")]),
            lambda: (text * length)[:length],
            lambda: "".join([text, *map(str, range(length % 7))]),  # not interned
        ]
    )
    return make()


@pytest.mark.full
@pytest.mark.quick("3-1024")
@pytest.mark.parametrize("most", [1_048_576, 1_024])
@pytest.mark.parametrize("seeds", [3, 20])
def test_numbers_and_strings_are_called_by_their_pickles(
    seeds: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(seeds):
        check_names_of_atoms(seed, most, monkeypatch)


def check_names_of_atoms(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever equals them was named before, one by one or many at once, and is known or not."""
    monkeypatch.setattr(content_ids, "_MOST_ATOMS", 5 if seed % 2 else 8_192)
    bench, generator = Bench(limits=Limits(max_object_bytes=most)), random.Random(seed)
    atoms = [atom(generator) for _ in range(300)]
    alike = [each for each in atoms if type(each) is type(atoms[0])]
    frozen = list(map(bench.objects.freeze, alike))
    assert bench.objects.cids(frozen) == [bench.objects.identify(each).cid for each in frozen], seed
    for each in atoms:
        named = bench.recorded(each)
        if type(each) is str and len(each) > most:
            assert named.kind == "snapshot", seed
        else:
            assert (named.cid, named.kind) == (digest(each), "dill"), seed
    frozen = list(map(bench.objects.freeze, atoms))
    assert bench.objects.cids(frozen) == [bench.recorded(each).cid for each in atoms], seed
    stored = {row.cid: row.data for row in bench.stored()}
    for each in atoms:
        assert stored[bench.recorded(each).cid] in (dill.dumps(each, protocol=4), None), seed


# --- secrets ------------------------------------------------------------------------------------

SECRET = "tr0ub4dor&3"
LONG = [0] * 500


class Login:
    def __init__(self, password: str) -> None:
        self.password = password


class Terse(Login):
    def __reduce__(self) -> Any:
        return (Terse, (self.password,))


Account = collections.namedtuple("Account", "user password")


def deep(value: object, levels: int = 9) -> object:
    for _ in range(levels):
        value = [value]
    return value


HOLDERS: dict[str, Callable[[str], object]] = {
    "key": lambda secret: {"password": secret},
    "second key": lambda secret: [{"password": None}, {"password": secret}],
    "url": lambda secret: f"postgres://shop:{secret}@db/shop",
    "deep": lambda secret: deep({"a": 1, "api-key": secret}),
    "far": lambda secret: [*LONG, {"secret": secret}],
    "long text": lambda secret: "x" * 5_000 + f" password={secret} " + "x" * 9,
    "bytes": lambda secret: [f"redis://:{secret}@cache/0".encode()],
    "attribute": Login,
    "deep attribute": lambda secret: deep(Login(secret)),
    "reduced": Terse,
    "deep and reduced": lambda secret: deep(Terse(secret)),
    "named tuple": lambda secret: Account("alice", secret),
    "deep named tuple": lambda secret: deep(Account("alice", secret)),
    "closure": lambda secret: {"f": lambda: {"token": secret}, "token": secret},
    "exception": lambda secret: Failure({"cookie": secret}, 1),
    "path": lambda secret: pathlib.PurePosixPath(f"a/password={secret}/b"),
    "in the environment": lambda secret: ["x", secret],
}


@for_each("name", HOLDERS)
def test_a_secret_leaves_neither_its_bytes_nor_its_plain_digest(name: str) -> None:
    environ = {"DEPLOY_TOKEN": SECRET} if name == "in the environment" else {}
    make = HOLDERS[name]
    bench = Bench(redactor=Redactor(environ=environ))
    names = {bench.recorded(make(SECRET)), bench.paused(make(SECRET))}
    plain = {digest(make(SECRET)), hashlib.sha512(SECRET.encode()).hexdigest()}
    assert bench.copied(make(SECRET)) is None
    for each in names:
        assert each.data is None
        assert each.kind in ("secret", "snapshot")
        assert each.cid not in plain
    for row in bench.stored():
        assert SECRET not in row.description
        assert row.data is None


def test_a_value_under_a_sensitive_name_is_a_secret_as_a_whole(bench: Bench) -> None:
    first, second = bench.recorded(SECRET, "password"), bench.paused(SECRET, "password")
    assert first == second
    assert first.kind == "snapshot"
    assert bench.recorded(SECRET + "x", "password").cid != first.cid
    assert SECRET not in str(bench.stored())
    assert bench.recorded("hello", "greeting").cid == digest("hello")


def test_equal_secrets_are_called_equal_in_one_run_only() -> None:
    value = {"password": SECRET}
    assert Bench().recorded(value) == Bench().recorded(value) == Bench().paused(value)
    other = Objects(ObjectLog(), Redactor(environ={}), b"other", EvaluationGuard())
    assert other.take({}, value).cid != Bench().recorded(value).cid


@for_each(
    "value",
    [
        {"key": "monkey", "passengers": 3, "max_token": 5},
        {"kind": "password"},
        [Color.RED, "token"],
        "the password was wrong",
        Cart(["keyboard"], "TOKEN"),
    ],
)
def test_what_only_resembles_a_secret_is_none(bench: Bench, value: object) -> None:
    assert bench.recorded(value)[:2] == (digest(value), "dill")


@for_each("name", ["tax_number", "Tax Number", "pass word", "X-Api-Key", "auth/key"])
def test_a_name_is_found_in_any_spelling(name: str) -> None:
    bench = Bench(redactor=Redactor(["taxnumber"], environ={}))
    assert bench.recorded({name: "x", "b": 1}).kind == "secret"


def test_patterns_of_the_user_are_looked_for_in_whole_strings() -> None:
    bench = Bench(redactor=Redactor((), [r"^\d{16}$"], environ={}))
    assert bench.recorded(deep("4111111111111111")).kind == "secret"
    assert bench.recorded(deep("41111111111111112")).kind == "dill"


def test_without_redaction_everything_is_kept() -> None:
    bench = Bench(redactor=Redactor(environ={}, enabled=False))
    value = {"password": SECRET}
    assert bench.recorded(value, "password") == (
        digest(value),
        "dill",
        dill.dumps(value, protocol=4),
    )
