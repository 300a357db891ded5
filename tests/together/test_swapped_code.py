"""Whoever reads the code of a watched function finds what the Python compiler made of its source.

Compilers, `marshal`, comparisons, hashes and pickles by value do; each kind of function is shown to
each of them while breakpoints stop in it, only record it, or were set in the middle of a test.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import only_stop
from tests.together.installed import on_path
from tests.together.records import recorded
from tests.together.workbench import Bench, workbench

full = pytest.mark.full

SHAPES = """
    import sys

    def plain(n, /, m=2, *rest, by: int = 1, **more):
        "Adds."
        total = n + m
        return sum([total * by, *rest])

    def running(n):
        return sys._getframe().f_code

    def outer(n):
        def nested(m=3):
            def deepest(): return (n, m)
            return deepest
        class Local:
            def method(self): return n
        return nested, Local

    def closure(n):
        count = 0
        def closed():
            nonlocal count
            count += n
            return count
        return closed

    def generator(n):
        got = yield n
        return got

    async def coroutine(n):
        return n

    async def generated(n):
        yield n

    short = lambda n, m=(1, 2.5, None, ...): [each for each in m if n]

    class Shape:
        def method(self, n): return __class__, n
        @staticmethod
        def static(n): return n
        @classmethod
        def made(cls, n): return cls, n
        @property
        def value(self): return "value"
"""

KINDS = """
    import asyncio
    import shapes

    nested, Local = shapes.outer(1)
    METHODS = vars(shapes.Shape)
    FUNCTIONS = {
        "plain": shapes.plain, "running": shapes.running, "outer": shapes.outer,
        "nested": nested, "deepest": nested(), "Local.method": Local.method,
        "closure": shapes.closure, "closed": shapes.closure(1), "generator": shapes.generator,
        "coroutine": shapes.coroutine, "generated": shapes.generated, "short": shapes.short,
        "method": shapes.Shape.method, "static": METHODS["static"].__func__,
        "made": METHODS["made"].__func__, "value": METHODS["value"].fget,
    }

    async def all_of(items):
        return [each async for each in items]

    def call_all():
        shape = shapes.Shape()
        assert shapes.plain(1, 2, 3, by=2) == 9
        assert shapes.running(1) is shapes.running.__code__
        nested, Local = shapes.outer(1)
        assert nested(2)() == (1, 2) and Local().method() == 1
        assert shapes.closure(2)() == 2
        assert list(shapes.generator(1)) == [1]
        assert asyncio.run(shapes.coroutine(1)) == 1
        assert asyncio.run(all_of(shapes.generated(1))) == [1]
        assert shapes.short(1)[0] == 1
        assert shape.method(1) == (shapes.Shape, 1) and shape.static(1) == 1
        assert shape.made(1) == (shapes.Shape, 1) and shape.value == "value"
"""

OBSERVERS = """
    import copy, dis, gc, inspect, io, marshal, pickle, re, subprocess, sys
    from pathlib import Path
    from types import CodeType, FunctionType

    import kinds, shapes

    def codes_in(code):
        yield code
        for each in code.co_consts:
            if type(each) is CodeType:
                yield from codes_in(each)

    TEXT = Path(shapes.__file__).read_text(encoding="utf-8")
    ROOT = compile(TEXT, shapes.__file__, "exec", dont_inherit=True)
    EXPECTED = {each.co_qualname: each for each in codes_in(ROOT)}
    PLAIN = (int, float, str, bytes, bool, tuple, frozenset, type(None), type(...), CodeType)

    def expected(function):
        return EXPECTED[function.__qualname__]

    def check_equal(function):
        assert function.__code__ == expected(function)
        assert {expected(function): 1}[function.__code__]
        assert function.__code__ is function.__code__

    def check_hash(function):
        assert hash(function.__code__) == hash(expected(function))

    def check_marshal(function):
        assert marshal.loads(marshal.dumps(function.__code__)) == expected(function)

    def check_constants(function):
        for code in codes_in(function.__code__):
            assert all(type(each) in PLAIN for each in code.co_consts), code.co_consts

    def check_names(function):
        for name in ("co_names", "co_varnames", "co_cellvars", "co_freevars", "co_code",
                     "co_nlocals", "co_stacksize", "co_flags", "co_linetable"):
            assert getattr(function.__code__, name) == getattr(expected(function), name), name
        assert [*function.__code__.co_lines()] == [*expected(function).co_lines()]

    def check_dis(function):
        def text(what):
            into = io.StringIO()
            dis.dis(what, file=into)
            return re.sub("0x[0-9a-f]+", "", into.getvalue())
        assert text(function) == text(expected(function))

    def check_inspect(function):
        lines, first = inspect.getsourcelines(function)
        assert first == expected(function).co_firstlineno and "".join(lines) in TEXT
        free = inspect.getclosurevars(function).nonlocals.keys()
        assert free == {*expected(function).co_freevars}
        assert inspect.signature(function).parameters.keys() <= {*expected(function).co_varnames}

    def check_copy(function):
        held = copy.deepcopy({"code": function.__code__, "function": function})
        assert held["function"] is function and held["code"] == expected(function)

    def check_replace(function):
        code = function.__code__.replace(co_name="other")
        other = FunctionType(code, function.__globals__, "other", None, function.__closure__)
        assert other.__code__ == expected(function).replace(co_name="other")

    def check_assign(function):
        function.__code__ = function.__code__
        assert function.__code__ == expected(function)

    def check_pickle(function):
        is_bound = isinstance(vars(shapes.Shape).get(function.__name__), (classmethod, property))
        if "<" not in function.__qualname__ and not is_bound:
            assert pickle.loads(pickle.dumps(function)) is function

    ELSEWHERE = "import marshal, sys, types; " \
        "function = types.FunctionType(marshal.load(sys.stdin.buffer), {'sum': sum}); "
    RESULTS = {
        shapes.plain: ("function(1, 2, by=3)", "9"),
        shapes.outer: ("function(1)[0](2)()", "(1, 2)"),
    }

    def check_elsewhere(function):
        if function in RESULTS:
            call, result = RESULTS[function]
            done = subprocess.run(
                [sys.executable, "-c", f"{ELSEWHERE}print({call})"],
                input=marshal.dumps(function.__code__), capture_output=True, check=True)
            assert done.stdout.decode().strip() == result

    def refers(function):
        "What the function really runs."
        held = [each for each in gc.get_referents(function) if type(each) is CodeType]
        return held == [expected(function)] and held[0] is function.__code__

    CHECKS = {name: each for name, each in globals().items() if name.startswith("check_")}
"""

TESTS = """
    import pytest
    from kinds import FUNCTIONS, call_all
    from observers import CHECKS, refers

    def begin(): pass

    def test_begin():
        begin()

    def test_called():
        call_all()

    @pytest.mark.parametrize("kind", FUNCTIONS)
    @pytest.mark.parametrize("check", CHECKS)
    def test_seen(kind, check):
        CHECKS[check](FUNCTIONS[kind])
"""

UNCHANGED = """
    import pytest
    from kinds import FUNCTIONS
    from observers import refers

    @pytest.mark.parametrize("kind", FUNCTIONS)
    def test_unchanged(kind):
        assert refers(FUNCTIONS[kind])
"""

FILES = {"shapes": SHAPES, "kinds": KINDS, "observers": OBSERVERS, "test_it": TESTS}

needs_monitoring = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="calls are recorded by interception before sys.monitoring"
)


CALLED = {
    "plain", "running", "outer", "nested", "deepest", "method", "closure", "closed", "generator",
    "coroutine", "generated", "short", "static", "made", "value",
}  # fmt: skip


def to_the_end(bench: Bench, reply: dict[str, Any]) -> set[str]:
    """Go on from every stop, to the end of a run in which all tests pass; where it stopped."""
    names = set()
    while reply["state"] == "paused":
        stop = only_stop(reply)
        name = stop["call_data"]["method_name"]
        names.add("short" if name == "<lambda>" else name)  # not assigned yet in its module
        reply = bench.go_on(stop)
    assert (reply["exit_code"], reply["outcomes"]["failed"]) == (0, 0), [
        each["nodeid"] for each in bench.results().values() if each["outcome"] == "failed"
    ]
    return names


@full
@pytest.mark.sample("shapes.*")
@pytest.mark.parametrize("name", ["shapes.*", "shapes.outer", "shapes.outer.nested"])
def test_code_reads_as_compiled_while_its_calls_stop(bench: Bench, name: str) -> None:
    bench.write(**FILES)
    bench.breakpoint(name)
    names = to_the_end(bench, bench.run(["test_it.py"], pause_on="never"))
    assert names == (CALLED if name == "shapes.*" else {name.rpartition(".")[2]})


@full
@pytest.mark.sample("shapes.outer.nested.deepest")
@pytest.mark.parametrize("name", ["shapes.*", "shapes.outer.nested.deepest", "shapes.closure.*"])
def test_code_reads_as_compiled_when_a_breakpoint_comes_at_a_pause(bench: Bench, name: str) -> None:
    bench.write(**FILES)
    bench.breakpoint("test_it.begin")
    stop = only_stop(bench.run(["test_it.py"], pause_on="never"))
    assert bench.breakpoint(name)["verified"]
    names = to_the_end(bench, bench.go_on(stop))
    assert names == (
        CALLED if name == "shapes.*" else {"closed" if name.endswith("*") else "deepest"}
    )


@full
@pytest.mark.sample("{'behavior': 'go', *", "{'condition*")
@pytest.mark.parametrize(
    "options",
    [
        {"behavior": "go"},
        {"condition": "False"},
        {"behavior": "go", "after_behavior": "exception"},
    ],
    ids=str,
)
def test_code_reads_as_compiled_while_calls_are_looked_at(
    bench: Bench, options: dict[str, str]
) -> None:
    bench.write(**FILES)
    after = options.pop("after_behavior", None)
    bench.breakpoint("shapes.*", **options)
    if after:
        bench.agent.call("breakpoint_set_after_behavior", function_name="shapes.*", behavior=after)
    assert to_the_end(bench, bench.run(["test_it.py"], pause_on="never")) == set()


@full
@needs_monitoring
def test_what_is_only_recorded_runs_its_own_code(bench: Bench) -> None:
    bench.write(**FILES | {"test_it": UNCHANGED})
    bench.breakpoint("shapes.*", behavior="go")
    assert to_the_end(bench, bench.run(["test_it.py"], pause_on="never")) == set()
    calls = bench.agent.call("breakpoint_get_call_records")["calls"]
    assert {"outer", "nested", "closure"} <= {each["method_name"] for each in calls}


@full
@needs_monitoring
def test_a_breakpoint_that_goes_on_from_now_on_gives_functions_their_own_code_back(
    bench: Bench,
) -> None:
    text = """
    import gc, shapes

    def now(): pass

    def test_it():
        nested, _ = shapes.outer(1)
        now()
        for each in (shapes.plain, nested, shapes.outer(1)[0]):
            assert any(held is each.__code__ for held in gc.get_referents(each))
        now()
        for each in (shapes.plain, nested, shapes.outer(1)[0]):
            assert not any(held is each.__code__ for held in gc.get_referents(each))
        assert nested(1)() == (1, 1)
    """
    bench.write(shapes=SHAPES)
    bench.breakpoint("test_it.now")
    bench.breakpoint("shapes.*", condition="n == 5")
    stop = bench.stop_of(text)
    bench.breakpoint("shapes.*", behavior="go")
    stop = only_stop(bench.go_on(stop))
    bench.breakpoint("shapes.*", behavior="stop", condition="True")
    assert to_the_end(bench, bench.go_on(stop)) == {"outer", "nested", "deepest"}


@full
def test_code_reads_as_compiled_in_a_run_that_records_calls(make_project: MakeProject) -> None:
    files = FILES | {"test_own": UNCHANGED}
    done = recorded(make_project(**files), "--cideldill-record-calls=shapes.*")
    assert done.exit_code == 0, done.out
    assert done.of("call")


# --- pickles by value ---------------------------------------------------------------------------

BY_VALUE = """
    import subprocess, sys
    import cloudpickle, shapes

    LOAD = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(1))"

    def elsewhere(function):
        done = subprocess.run(
            [sys.executable, "-P", "-c", LOAD], input=cloudpickle.dumps(function),
            capture_output=True, check=True)
        return done.stdout.decode().strip()

    def test_by_value():
        cloudpickle.register_pickle_by_value(shapes)
        nested, Local = shapes.outer(1)
        assert elsewhere(shapes.plain) == "3"
        assert elsewhere(lambda n, add=shapes.closure(3): add()) == "3"
        assert elsewhere(lambda n: shapes.outer(n)[0](n)()) == "(1, 1)"
        assert elsewhere(lambda n: nested(n)()) == "(1, 1)"
        assert elsewhere(lambda n: Local().method()) == "1"
        assert b"cideldill" not in cloudpickle.dumps(shapes.outer)
"""


@full
@pytest.mark.sample("stop")
@pytest.mark.parametrize("behavior", ["stop", "go"])
def test_functions_that_are_pickled_by_value_run_where_we_are_not(
    tmp_path: Path, behavior: str
) -> None:
    with workbench(tmp_path / "project", env=on_path("cloudpickle")) as bench:
        bench.write(shapes=SHAPES, test_it=BY_VALUE)
        bench.breakpoint("shapes.*", behavior=behavior)
        to_the_end(bench, bench.run(["test_it.py"], pause_on="never"))


# --- compilers ----------------------------------------------------------------------------------

FASTMATH = """
    from numba import njit, vectorize
    from numba.experimental import jitclass
    from numba import int64

    @njit
    def inner(n): return n + 1

    @njit
    def outer(n):
        def nested(m): return inner(m) * 2
        return nested(n)

    @vectorize(["int64(int64)"])
    def double(n): return n * 2

    @jitclass([("n", int64)])
    class Counter:
        def __init__(self, n): self.n = n
        def next(self): return self.n + 1

    def slow(n): return inner(n) - 1

    def late(n):
        def add(m): return m + n
        return add(1)
"""

NUMBA = """
    import numpy, numba, pytest
    import fastmath

    def begin(): pass

    def test_begin(): begin()

    def test_compiled():
        assert fastmath.outer(1) == 4
        assert fastmath.double(numpy.arange(3)).tolist() == [0, 2, 4]
        assert fastmath.Counter(1).next() == 2

    def test_compiled_now():
        for function in (fastmath.slow, fastmath.late):
            assert numba.njit(function)(3) == function(3)
        @numba.njit
        def local(n): return n + 2
        assert local(1) == 3

    def test_plain(): assert fastmath.slow(1) == 1
"""

WILL_NOT_STOP = "compiled by numba: calls of compiled code will not stop"
COMPILED = ("inner", "outer", "double", "Counter.next")


def numba_bench(tmp_path: Path) -> AbstractContextManager[Bench]:
    return workbench(tmp_path / "project", env=on_path("numba"))


@full
def test_functions_that_numba_compiled_say_that_they_will_not_stop(tmp_path: Path) -> None:
    """Set while they are compiled already, and set before their module is imported."""
    with numba_bench(tmp_path) as bench:
        bench.write(fastmath=FASTMATH, test_it=NUMBA)
        bench.breakpoint("begin")
        stop = only_stop(bench.run(["test_it.py"], pause_on="never"))
        added = [bench.breakpoint(f"fastmath.{name}") for name in COMPILED]
        assert [(each["verified"], each.get("message")) for each in added] == [
            (False, WILL_NOT_STOP) for _ in COMPILED
        ]
        assert to_the_end(bench, bench.go_on(stop)) == set()
        assert to_the_end(bench, bench.run(["test_it.py"], pause_on="never")) == {"begin"}
        for each in added:
            listed = bench.listed(each["id"])
            assert (listed["verified"], listed["message"]) == (False, WILL_NOT_STOP)
            assert listed["whyNotHit"] == f"no_code ({WILL_NOT_STOP})"


@full
@pytest.mark.sample("stop")
@pytest.mark.parametrize("behavior", ["stop", "go"])
def test_numba_compiles_what_a_glob_means_as_without_it(tmp_path: Path, behavior: str) -> None:
    """While the module is imported, and in a test functions that stop already."""
    with numba_bench(tmp_path) as bench:
        bench.write(fastmath=FASTMATH, test_it=NUMBA)
        bench.breakpoint("fastmath.*", behavior=behavior)
        names = to_the_end(bench, bench.run(["test_it.py"], pause_on="never"))
        assert names == ({"slow", "late", "add"} if behavior == "stop" else set())


DOUBLE = """
    from types import CodeType, FunctionType

    def codes_in(code):
        yield code
        for each in code.co_consts:
            assert type(each) in (int, str, tuple, type(None), CodeType), each
            if type(each) is CodeType:
                yield from codes_in(each)

    class Compiled:
        def __init__(self, function):
            self.py_func = function
            [code, *_] = codes_in(function.__code__)
            self.code = FunctionType(code.replace(co_name="fast"), function.__globals__)
        def __call__(self, *args): return self.code(*args)

    class Calling:
        def __init__(self, function): self.__wrapped__ = function
        def __call__(self, *args): return self.__wrapped__(*args)
"""

COMPILES = """
    import functools
    from double import Calling, Compiled

    @Compiled
    def fast(n):
        def nested(m): return m + n
        return nested(1)

    class Math:
        @staticmethod
        @Compiled
        def static(n): return n

    @Calling
    def called(n): return n

    @functools.lru_cache
    def cached(n): return n

    @functools.singledispatch
    def single(n): return n
"""


@full
def test_a_function_that_any_compiler_keeps_is_not_intercepted(bench: Bench) -> None:
    text = """
    import maths

    def test_it():
        assert maths.fast(1) == 2 and maths.fast.py_func(1) == 2 and maths.Math.static(1) == 1
        assert maths.called(1) == maths.cached(1) == maths.single(1) == 1
    """
    bench.write(double=DOUBLE, maths=COMPILES)
    added = [bench.breakpoint(f"maths.{name}") for name in ("fast", "Math.static")]
    for name in ("called", "cached", "single"):
        bench.breakpoint(f"maths.{name}")
    bench.write(test_it=text)
    assert to_the_end(bench, bench.run(["test_it.py"])) == {"called", "cached", "single"}
    message = "compiled by double: calls of compiled code will not stop"
    reported = [bench.listed(each["id"]) for each in added]
    assert [(each["verified"], each["message"]) for each in reported] == [(False, message)] * 2
