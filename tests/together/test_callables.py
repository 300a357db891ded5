"""Function breakpoints on lambdas, classes, decorated functions and callables of C."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

CART = """
    import functools, time
    from dataclasses import dataclass
    from math import sqrt

    discount = lambda amount, by=1: amount - by

    class Cart:
        tax = lambda self, rate=2: rate * 10
        def __init__(self, owner): self.owner = owner

    class Basket(Cart): pass

    @dataclass
    class Line:
        name: str
        count: int = 1

    class Plain: pass

    def root(value): return sqrt(value)
    def wait(): time.sleep(0)
    four = functools.partial(root, 16.0)
"""

DECORATED = """
    import functools
    from contextlib import contextmanager

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args): return function(*args)
        return wrapper

    @logged
    def wrapped(n): return n

    @functools.lru_cache
    def cached(n): return n

    @contextmanager
    def opened(n): yield n

    @functools.singledispatch
    def named(n): return "object"

    @named.register
    def _(n: int): return "int"

    class Kinds:
        @property
        def plain(self): return 1
        @functools.cached_property
        def once(self): return 2
        @staticmethod
        def static(n): return n
        @classmethod
        def made(cls, n): return n

    shifted = functools.partial(pow, 2)
"""


@pytest.fixture
def shop(bench: Bench) -> Bench:
    """A package with callables of many kinds."""
    bench.write(**{"shop/__init__.py": "", "shop/cart.py": CART, "shop/kinds.py": DECORATED})
    return bench


def names_of(reply: dict[str, Any]) -> tuple[list[str], bool, str | None]:
    short = [each.removeprefix("shop.cart.") for each in reply["functions"]]
    return short, reply["verified"], reply["via"]


BEFORE = {
    "discount": (["discount"], True, "code"),
    "shop.cart.discount": (["discount"], True, "code"),
    "shop/cart.py::Cart.tax": (["Cart.tax"], True, "code"),
    "Cart": (["Cart.__init__"], True, "code"),
    "shop.cart:Cart": (["Cart.__init__"], True, "code"),
    "shop.cart.disc*": (["discount"], True, "code"),
    "shop.cart.Line": ([], False, None),
    "time.sleep": ([], False, None),
}
"""What the sources tell."""

DURING = {
    **BEFORE,
    "shop.cart.Line": (["Line.__init__"], True, "code"),
    "Line": (["Line.__init__"], True, "code"),
    "shop.cart.Basket": (["Cart.__init__"], True, "code"),
    "shop.cart.four": (["root"], True, "code"),
    "shop.cart.sqrt": (["sqrt"], True, "attribute"),
    "time.sleep": (["time.sleep"], True, "attribute"),
    "json.scanner.c_make_scanner": (["json.scanner.c_make_scanner"], True, "attribute"),
    "sqrt": ([], False, None),
    "shop.kinds.wrapped": (["shop.kinds.wrapped"], True, "code"),
    "shop.kinds.shifted": (["shop.kinds.shifted"], True, "attribute"),
}
"""What a process tells."""

REFUSED = ("shop.cart.Plain", "str.upper", "dict.get", "datetime.datetime.now", "builtins.vars")


@pytest.mark.full
def test_names_mean_the_same_with_and_without_a_run(shop: Bench) -> None:
    """Both answer; what cannot be intercepted is refused, and not kept."""
    for name, expected in BEFORE.items():
        assert names_of(shop.breakpoint(name)) == expected, name
        shop.agent.call("breakpoint_remove", function_name=name)
    refused = shop.agent.refused("breakpoint_add", function_name="str.upper")
    assert (refused["error"], refused["function"]) == ("cannot_intercept", "str.upper")
    listed = shop.agent.call("breakpoint_list_functions", pattern="shop.cart.")
    assert listed["signatures"]["shop.cart.discount"] == "(amount, by=1)"
    kinds = {name: each["kind"] for name, each in listed["metadata"].items()}
    assert (kinds["shop.cart.discount"], kinds["shop.cart.Cart.tax"]) == ("function", "method")
    stop = shop.stop_of("import datetime, shop.cart, shop.kinds\ndef test_it(): assert 0\n")
    for name, expected in DURING.items():
        assert names_of(shop.breakpoint(name, behavior="go")) == expected, name
        shop.agent.call("breakpoint_remove", function_name=name)
    for name in REFUSED:
        refused = shop.agent.refused("breakpoint_add", function_name=name)
        assert (refused["error"], name) == ("cannot_intercept", name)
    assert shop.agent.call("breakpoint_list")["breakpoints"] == []
    assert shop.go_on(stop)["exit_code"] == 1


CALLS = """
    import math, time

    def test_all():
        from shop.cart import Basket, Cart, Line, discount, four, root, wait
        assert discount(3) == 2
        assert Cart("ann").tax() == 20
        assert Basket("bob").owner == "bob"
        assert Line("tea").count == 1
        assert four() == root(16.0) == 4.0
        wait()
        time.sleep(0)
        assert math.sqrt(4) == 2  # not that of shop.cart
        assert type(time.sleep) is not type(math.sqrt) and repr(time.sleep).startswith("<built-in")
"""

STOPS = [
    ("shop.cart.discount", ["3", "1"]),
    ("shop.cart.Cart.tax", ["2"]),
    ("shop.cart.Cart.__init__", ["'bob'"]),
    ("shop.cart.Line.__init__", ["'tea'", "1"]),
    ("shop.cart.sqrt", ["16.0"]),
    ("shop.cart.sqrt", ["16.0"]),
    ("time.sleep", ["0"]),
    ("time.sleep", ["0"]),
]


@pytest.mark.full
def test_calls_of_all_kinds_pause_also_when_they_are_imported_late(shop: Bench) -> None:
    """Set before the run; the module is imported by the test itself."""
    for name in ("discount", "Cart.tax", "Basket", "Line", "sqrt"):
        shop.breakpoint(f"shop.cart.{name}")
    shop.breakpoint("time.sleep")
    reply = shop.test(CALLS)
    seen = []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        data = stop["call_data"]
        assert data["call_site"]["file"] in ("test_it.py", "shop/cart.py")
        args = [each for each in data["pretty_args"] if "shop.cart" not in each]
        seen.append((data["qualified_name"], [each for each in args if "(" not in each]))
        reply = shop.go_on(stop)
    assert seen == STOPS
    assert reply["exit_code"] == 0
    assert "warnings" not in shop.agent.call("debug_state")


@full
def test_callables_of_c_are_recorded_replaced_and_conditioned(shop: Bench) -> None:
    """All that breakpoints do works for them; what has no signature is not replaced for good."""
    text = """
        import math
        from shop.cart import root, wait
        def fake(x, /): return -x
        def test_it():
            wait()
            assert root(4) == 2
            assert [root(9), math.log(1)] == [3, 0]
            assert sum([1, 2, 3]) == 0
            assert root(16) == -16
    """
    shop.breakpoint("time.sleep", behavior="go")
    shop.breakpoint("shop.cart.sqrt", condition="x == 9")
    shop.breakpoint("math.log", behavior="go")
    shop.breakpoint("builtins.sum", condition="iterable == [1, 2, 3]")
    stop = shop.stop_of(text)
    assert (stop["call_data"]["signature"], stop["call_data"]["pretty_args"]) == ("(x, /)", ["9"])
    assert shop.eval(stop, "x + 1") == "10"

    def replaced(function: str, **by: Any) -> dict[str, Any]:
        call = shop.agent.refused if by.pop("refused", True) else shop.agent.call
        return call("breakpoint_set_replacement", function_name=function, **by)

    mismatch = replaced("math.log", replacement_function="test_it.fake")
    assert (mismatch["error"], mismatch["reason"]) == ("signature_mismatch", "no_signature")
    mismatch = replaced("shop.cart.sqrt", replacement_function="shop.cart.root")
    assert (mismatch["signature"], mismatch["replacement_signature"]) == ("(x, /)", "(value)")
    stop = only_stop(shop.go_on(stop))
    assert stop["call_data"]["qualified_name"] == "builtins.sum"
    assert shop.eval(stop, "sum([1, 1])") == "2"
    shop.breakpoint("shop.cart.sqrt", condition="", behavior="go")
    replaced("shop.cart.sqrt", replacement_function="test_it.fake", refused=False)
    assert shop.go_on(stop, action="skip", fake_result=0)["exit_code"] == 0
    records = shop.agent.call("breakpoint_get_call_records")["calls"]
    reported = {each["qualified_name"]: each for each in records}
    assert reported["time.sleep"]["pretty_args"] == ["0"]
    assert reported["time.sleep"]["call_site"]["file"] == "shop/cart.py"
    assert (reported["math.log"]["status"], reported["math.log"]["pretty_result"]) == (
        "success",
        "0.0",
    )
    assert reported["shop.cart.sqrt"]["replaced_by"] == "test_it.fake"
    assert reported["builtins.sum"]["altered"] == "result"


USES = """
    import inspect, shop.kinds as kinds
    from shop.kinds import Kinds, cached, opened, named, wrapped

    def test_uses():
        assert wrapped(1) == 1
        assert [cached(2), cached(2)] == [2, 2]
        with opened(3) as n: assert n == 3
        assert (named(""), named(4)) == ("object", "int")
        assert [kind.plain + kind.once + kind.once for kind in [Kinds()]] == [5]
        assert (Kinds.static(6), Kinds().made(7)) == (6, 7)
        assert kinds.shifted(3) == 8
        assert str(inspect.signature(wrapped)) == str(inspect.signature(cached)) == "(n)"
        assert inspect.isgeneratorfunction(opened.__wrapped__)
        assert cached.cache_info().hits == 1
"""


@full
def test_decorated_functions_pause_in_the_function_of_the_user(shop: Bench) -> None:
    """Once per call; what a cache answers is no call."""
    wanted = ("wrapped", "cached", "opened", "named", "shifted")
    methods = ("plain", "once", "static", "made")
    for name in (*wanted, *(f"Kinds.{each}" for each in methods)):
        shop.breakpoint(f"shop.kinds.{name}")
    reply = shop.test(USES)
    seen = []
    while reply["state"] == "paused":
        stop = only_stop(reply)
        seen.append(stop["call_data"]["method_name"])
        reply = shop.go_on(stop)
    assert seen == ["wrapped", "cached", "opened", "named", "_", "plain", "once", "static", "made",
                    "shifted"]  # fmt: skip
    assert reply["exit_code"] == 0


@full
@pytest.mark.parametrize(
    ("package", "source", "function"),
    [
        ("attrs", "import attrs\n@attrs.define\nclass Item:\n    n: int\n", "late.Item.__init__"),
        (
            "pydantic",
            "import pydantic\nclass Item(pydantic.BaseModel): n: int\nclass Not(Item): pass\n",
            "pydantic.main.BaseModel.__init__",
        ),
    ],
)
def test_classes_whose_init_is_generated_elsewhere_pause(
    bench: Bench, package: str, source: str, function: str
) -> None:
    """By what is there, whoever made it."""
    pytest.importorskip(package)
    bench.write(late=source)
    bench.breakpoint("Item")
    text = "def test_it():\n    import late\n    assert late.Item(n=1).n == 1\n"
    stop = bench.stop_of(text)
    assert stop["call_data"]["qualified_name"] == function
    assert bench.go_on(stop)["exit_code"] == 0
