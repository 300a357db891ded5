"""Why a breakpoint was not hit: each reason beside one that is nearly it."""

from __future__ import annotations

import sys
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

    def seen(): return 1
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
        shop.seen()
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


@pytest.mark.full
def test_the_reasons_of_lines(shop: Bench) -> None:
    """All in one run; what was hit has none."""
    reported = {"log_message": "x"}
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
        at(shop, mark, **reported)
    at(shop, "# add", condition="price > 2", **reported)
    at(shop, "# add", condition="nope", **reported)  # told once as an error
    reply = shop.test(TEST)
    assert reply["exit_code"] == 0
    assert reasons(shop, reply) == expected


@pytest.mark.full
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
        "shop.again": "never_called",
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
    shop.breakpoint("shop.seen", behavior="go")  # its calls are recorded
    shop.breakpoint("shop.refund", condition="price == 1")
    stop = shop.stop_of(TEST)
    assert stop["location"]["function"] == "refund"
    stop = only_stop(shop.go_on(stop))
    assert stop["phase"] == "raise"
    assert reasons(shop, shop.go_on(stop)) == expected


@pytest.mark.full
def test_a_run_that_goes_on_reports_nothing_and_a_late_breakpoint_what_it_saw(shop: Bench) -> None:
    """What ran before it was set does not count, and the reason says so."""
    part, loop = "watched for a part of the run", line(SHOP, "# add") - 1
    early = at(shop, "# unused")
    at(shop, "# add")
    reply = shop.test(TEST)
    stop = only_stop(reply)
    assert reply["neverHit"] is None
    assert not any(
        "whyNotHit" in each for each in shop.agent.call("breakpoint_list")["breakpoints"]
    )
    shop.agent.call("breakpoint_remove", id=stop["breakpoint_id"])
    expected = {
        early: "never_called",
        at(shop, "# module"): f"never_called ({part})",
        at(shop, "# unused"): f"never_called ({part})",
        # The frame is behind this line already, and no further call comes.
        at(shop, "# first"): f"line_not_reached (nearest executed line {loop}; {part})",
        at(shop, "# old"): f"never_imported ({part})",
        shop.breakpoint("shop.total")["id"]: f"never_called ({part})",
        on(shop, "shop.Full"): f"never_called (not raised in user code; {part})",
    }
    at(shop, "# end", log_message="reached")
    # What an evaluation runs counts for nothing.
    assert shop.eval(stop, "__import__('shop').unused()") == "1"
    reply = shop.go_on(stop)
    assert reply["exit_code"] == 0
    assert reasons(shop, reply) == expected


@full
def test_counts_begin_anew_with_each_run(shop: Bench) -> None:
    """A reason is that of the newest run, and none while it goes on."""
    id = at(shop, "# add", condition="limit == 11")
    assert reasons(shop, shop.test(TEST)) == {id: "condition_false (3 times)"}
    assert reasons(shop, shop.run(["test_it.py::test_refund"])) == {id: "never_called"}
    stop = shop.stop_of(TEST.replace("10)", "11)"))
    assert "whyNotHit" not in shop.agent.call("breakpoint_list")["breakpoints"][0]
    shop.agent.call("breakpoint_remove", id=stop["breakpoint_id"])
    assert shop.go_on(stop)["neverHit"] == []


@full
def test_code_that_is_another_one_by_now_has_no_such_line(bench: Bench) -> None:
    """Edited between the breakpoint and the import; what stays in its place is found."""
    before = "def stays():\n    return 1\n\ndef moves():\n    return 2\n"
    bench.write(**{"late.py": before})
    bench.write(test_it="def test_late():\n    here = 1\n    import late\n    late.moves()\n")
    bench.agent.call("breakpoint_set", file="test_it.py", line=2)
    stop = only_stop(bench.run(["test_it.py"]))
    stays = bench.agent.call("breakpoint_set", file="late.py", line=2)["id"]
    moves = bench.agent.call("breakpoint_set", file="late.py", line=5)["id"]
    bench.write(**{"late.py": before.replace("\ndef moves", "\n\n\ndef moves")})
    assert reasons(bench, bench.go_on(stop)) == {
        stays: "never_called (watched for a part of the run)",
        moves: "no_code",
    }


SPREAD = """
    import pathlib, pytest, shop

    @pytest.mark.parametrize("n", [1, 2])
    def test_both(n):
        pathlib.Path(f"here-{n}").touch()
        while not pathlib.Path(f"here-{3 - n}").exists():
            pass
        shop.total([n], 10)
        if n == 2:
            shop.again()
"""


@full
def test_passes_of_several_workers_are_not_those_of_one(shop: Bench) -> None:
    """Thresholds count per process; hit in one worker is hit."""
    each = "1 in gw0, 1 in gw1"
    expected = {
        at(shop, "# add", hit_count=2): f"other_worker ({each}; hit_count is 2 for each worker)",
        at(shop, "# add", hit_count=3): "condition_false (2 times; hit_count is 3)",
        at(shop, "# add", condition="price > 2"): "condition_false (2 times)",
        at(shop, "# unused"): "never_called",
        shop.breakpoint("shop.unused")["id"]: "never_called",
        shop.breakpoint("shop.total", condition="limit > 10")["id"]: "condition_false (2 times)",
    }
    at(shop, "# add", condition="price == 2", log_message="in one of them")
    shop.agent.call("breakpoint_set", file="shop.py", function="again", log_message="as well")
    reply = shop.test(SPREAD, workers=2)
    assert (reply["exit_code"], reply["outcomes"]["passed"]) == (0, 2)
    assert reasons(shop, reply) == expected


@full
def test_a_worker_that_crashed_leaves_open_what_it_did(shop: Bench) -> None:
    """What it told before counts; the others can't speak for it."""
    text = SPREAD.replace("shop.again()", "import os; os._exit(3)")
    ids = [at(shop, "# unused"), shop.breakpoint("shop.unused")["id"], on(shop, "shop.Full")]
    switched = at(shop, "# end")
    shop.agent.call("breakpoint_enable", id=switched, enabled=False)
    reply = shop.test(text, workers=2, pause_on="never")
    reported = reasons(shop, reply)
    assert reported.pop(switched) == "disabled"
    assert list(reported) == ids
    for id, others in zip(ids, ["", "", " (not raised in user code)"], strict=True):
        assert reported[id].startswith("other_worker (gw")
        assert f" ended without a report; the others: never_called{others}" in reported[id]


@full
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring is not in the way")
def test_a_program_that_removes_our_tracer_leaves_nothing_to_say(shop: Bench) -> None:
    """What ran without being seen can't be told from what did not run."""
    removes = "import shop, sys\ndef test_x():\n    sys.settrace(None)\ndef test_y(): pass\n"
    id = at(shop, "# unused")
    assert reasons(shop, shop.test(removes.replace("settrace(None)", "gettrace()"))) == {
        id: "never_called"
    }
    assert reasons(shop, shop.test(removes)) == {}


@full
def test_a_run_that_is_cut_short_says_so(shop: Bench) -> None:
    """Stopped at the first failure, by a client, or by a crash, which tells nothing."""
    id = at(shop, "# unused")
    failing = TEST + "\n    def test_later(): shop.unused()\n"
    text = failing.replace("== 6", "== 7")
    reply = shop.test(text, maxfail=1, pause_on="never")
    assert reasons(shop, reply) == {id: "never_called (1 of 3 tests ran)"}
    shop.stop_of(text)
    shop.agent.call("test_stop")
    (listed,) = shop.agent.call("breakpoint_list")["breakpoints"]
    # Tests that run on until Ctrl-C reaches them are not watched any more.
    assert listed["whyNotHit"].startswith("never_called (watched for a part of the run")
    reply = shop.test("import os\nos.abort()\n")
    assert (reply["state"], reply["neverHit"]) == ("crashed", None)
    (listed,) = shop.agent.call("breakpoint_list")["breakpoints"]
    assert "whyNotHit" not in listed
