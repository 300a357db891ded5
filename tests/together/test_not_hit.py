"""Why a breakpoint was not hit (contract, section 5): each reason beside one that is nearly it."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

SHOP = """
    LIMIT = 100  # module

    class Empty(Exception): pass
    class Full(Exception): pass

    def total(prices, limit):
        amount = 0  # first
        for price in prices:
            amount += price  # add
        if amount > limit:
            amount = limit  # cut
            print(amount)  # told
        return amount  # end

    def refund(price):
        if price:
            raise Empty(price)  # raised
        return price  # behind

    def unused():
        return 1  # unused

    def again(): return 1
"""

ATTIC = """
    class Gone(Exception): pass

    def old():
        return 1  # old
"""

TEST = """
    import pytest, shop

    def test_total(): assert shop.total([1, 2, 3], 10) == 6

    def test_refund():
        with pytest.raises(shop.Empty):
            shop.refund(1)
"""


def line(text: str, mark: str) -> int:
    (found,) = (n for n, each in enumerate(dedent(text).splitlines(), 1) if each.endswith(mark))
    return found


@pytest.fixture
def shop(bench: Bench) -> Bench:
    bench.write(shop=SHOP, attic=ATTIC)
    return bench


def at(bench: Bench, mark: str, **options: Any) -> str:
    """A breakpoint on a marked line of `shop.py`; its id."""
    file, text = ("attic.py", ATTIC) if mark == "# old" else ("shop.py", SHOP)
    reply = bench.agent.call("breakpoint_set", file=file, line=line(text, mark), **options)
    assert isinstance(reply["id"], str)
    return reply["id"]


def on(bench: Bench, exception_type: str, **options: Any) -> str:
    """An exception breakpoint; its id."""
    reply = bench.agent.call("breakpoint_set_exception", exception_type=exception_type, **options)
    id = reply["breakpoint"]["id"]
    assert isinstance(id, str)
    return id


def reasons(bench: Bench, reply: dict[str, Any]) -> dict[str, str]:
    """Id → `whyNotHit`, the same in the reply of a run that is over and in `breakpoint_list`."""
    assert reply["state"] == "finished", reply
    never = {each["id"]: each["whyNotHit"] for each in reply["neverHit"]}
    listed = bench.agent.call("breakpoint_list", max_chars=50_000)["breakpoints"]
    assert {each["id"]: each["whyNotHit"] for each in listed if "whyNotHit" in each} == never
    return never


def test_the_reasons_of_lines(shop: Bench) -> None:
    """All in one run; what was hit has none."""
    told = {"log_message": "x"}
    cut, first = line(SHOP, "# cut") - 1, line(SHOP, "# raised")
    expected = {
        at(shop, "# old"): "never_imported",
        at(shop, "# unused"): "never_called",
        at(shop, "# cut"): f"line_not_reached (nearest executed line {cut})",
        at(shop, "# told"): f"line_not_reached (nearest executed line {line(SHOP, '# end')})",
        at(shop, "# behind"): f"line_not_reached (nearest executed line {first})",
        at(shop, "# add", condition="price > 3"): "condition_false (3 times)",
        at(shop, "# first", condition="limit > 10"): "condition_false (1 time)",
        at(shop, "# add", hit_count=4): "condition_false (3 times; hit_count is 4)",
        at(shop, "# add", hit_count=3, condition="price == 2"): (
            "condition_false (3 times; hit_count is 3)"
        ),
        at(shop, "# add", hit_count=3, condition="price > 3"): "condition_false (3 times)",
    }
    switched = at(shop, "# end")
    shop.agent.call("breakpoint_enable", id=switched, enabled=False)
    expected[switched] = "disabled"
    for mark in ("# module", "# end", "# raised"):
        at(shop, mark, **told)
    at(shop, "# add", condition="price > 2", **told)
    at(shop, "# add", condition="nope", **told)  # told once as an error
    reply = shop.test(TEST)
    assert reply["exit_code"] == 0
    assert reasons(shop, reply) == expected


def test_the_reasons_of_functions_and_exceptions(shop: Bench) -> None:
    """Names that lead nowhere, functions that nobody calls, classes that nobody raises."""
    nothing = "nothing of this name was loaded"
    behind = (f"never_imported ({nothing})", f"no_code ({nothing})")
    added = {
        "attic.old": behind[0],
        "shop.nope": behind[1],
        "shop.py::nope": behind[1],
        "attic.py::old": behind[0],
        "nowhere": behind[0],
        "shop.unused": "never_called",
        "shop.total": "condition_false (1 time)",
        "shop.again": "disabled (behavior go)",
    }
    options: dict[str, Any] = {
        "shop.total": {"condition": "limit > 10"},
        "shop.again": {"behavior": "go"},
    }
    expected = {
        shop.breakpoint(name, **options.get(name, {}))["id"]: why for name, why in added.items()
    }
    ids = {name: id for id, name in zip(expected, added, strict=True)}
    overruled = shop.breakpoint("tot*l".replace("*", "a"))["id"]  # a bare name
    expected[overruled] = f"disabled ({ids['shop.total']} decides at the functions of its name)"
    second_chance = {"break_on_first_chance": False}
    expected |= {
        on(shop, "attic.Gone"): "never_imported",
        on(shop, "shop.Nope"): "no_code",
        on(shop, "shop.Full"): "never_called (not raised in user code)",
        on(shop, "ZeroDivisionError", scope="all"): "never_called (not raised)",
        on(shop, "shop.Empty", **second_chance): "never_called (did not escape)",
    }
    switched = on(shop, "shop.Empty")
    shop.agent.call("breakpoint_enable", id=switched, enabled=False)
    expected[switched] = "disabled"
    on(shop, "Empty")
    shop.breakpoint("shop.refund", condition="price == 1")
    stop = shop.stop_of(TEST)
    assert stop["location"]["function"] == "refund"
    stop = only_stop(shop.go_on(stop))
    assert stop["phase"] == "raise"
    assert reasons(shop, shop.go_on(stop)) == expected
