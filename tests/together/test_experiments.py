"""Experiments on small programs: a fix as a patch and as a replacement, and what is none.

Asked through a client and through the command; both give the same answer, and no file changes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, ToolError
from tests.together.experiment_cases import CASES, Case
from tests.together.frontend import clean_environment
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.long(80)

COMMAND = "import sys; from cideldill_mcp.commands.main import main; sys.exit(main())"

full, soak = pytest.mark.full, pytest.mark.soak

OFTEN = ("comparison", "waiting", "wrapped")
"""Programs that are tried in the full tier; all others are in the soak tier."""

SHOP = """
    TAXES = {"a": 1}

    def price(number, tax=0):
        total = number * 2
        return total + tax

    class Cart:
        def __init__(self):
            self.items = []

        def add(self, number):
            self.items.append(number)

        def total(self):
            return sum(price(number) for number in self.items)

    async def load(number):
        return number + 1

    def numbers(most):
        yield from range(most)

    def never():
        return 1
    """

TESTS = """
    import asyncio, os, sys
    import pytest
    import shop

    def test_total():
        cart = shop.Cart()
        cart.add(1)
        cart.add(2)
        assert cart.total() == 9

    def test_price():
        given = 3
        assert shop.price(given) == 6

    def test_load():
        assert asyncio.run(shop.load(1)) == 2

    def test_numbers():
        assert list(shop.numbers(3)) == [0, 1, 2]

    def test_variable():
        assert os.environ.get("SHOP_MODE") == "fast"

    @pytest.mark.xfail
    def test_expected():
        assert shop.price(1) == 3

    @pytest.mark.skip
    def test_skipped():
        assert 0
    """


@pytest.fixture
def asking(bench: Bench) -> Bench:
    """The shared bench with all programs."""
    files = {"shop": SHOP, "test_shop": TESTS}
    for case in CASES:
        files[case.name] = case.source
        tests = textwrap.dedent(case.tests)
        files[f"test_{case.name}"] = f"import {case.name}\n{tests}"
    bench.write(**files)
    return bench


def ask(bench: Bench, nodeids: list[str], *experiments: dict[str, Any], **more: Any) -> Any:
    return bench.agent.call(
        "test_experiment", nodeids=nodeids, experiments=list(experiments), **more
    )


def command(root: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The command, run in the project."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        cwd=root,
        env=clean_environment() | {"XDG_STATE_HOME": str(root.parent / "states")},
        input=given,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def digest_of(root: Path) -> dict[str, str]:
    """Of all files of a project."""
    files = sorted(each for each in root.rglob("*") if each.is_file())
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def of(reply: dict[str, Any], name: str) -> dict[str, Any]:
    """An experiment in a reply."""
    (found,) = [each for each in reply["experiments"] if each["name"] == name]
    assert isinstance(found, dict)
    return found


def experiments_of(case: Case) -> list[dict[str, Any]]:
    old, new = (textwrap.dedent(each) for each in case.patch)
    function, source = case.replace
    file = f"{case.name}.py"
    return [
        {"name": "patch", "patch": [{"file": file, "old": old, "new": new}]},
        {"name": "replace", "replace": {"function": function, "with": source}},
        {"name": "constant", "return": {"function": function, "value": case.constant}},
    ]


def test_a_patch_flips_a_test_and_changes_no_file(asking: Bench) -> None:
    (case,) = [each for each in CASES if each.name == "comparison"]
    before = digest_of(asking.root)
    reply = ask(asking, [case.failing], experiments_of(case)[0])
    found = of(reply, "patch")
    assert (found["applied"], found["flips"], found["breaks"]) == (True, [case.failing], [])
    assert reply["cause"] == "patch"
    assert digest_of(asking.root) == before


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=each.name,
            marks=full if each.name in OFTEN else soak,
        )
        for each in CASES
    ],
)
def test_the_fix_flips_and_a_wrong_constant_does_not(asking: Bench, case: Case) -> None:
    before = digest_of(asking.root)
    reply = ask(asking, [f"test_{case.name}.py"], *experiments_of(case))
    failing = case.failing
    assert (reply["nodeid"], reply["outcome"]) == (failing, "failed")
    for name in ("patch", "replace"):
        assert (of(reply, name)["flips"], of(reply, name)["breaks"]) == ([failing], []), reply
        assert of(reply, name)["applied"]
    assert of(reply, "constant")["flips"] == []
    assert reply["cause"] == "patch"
    lines = reply["text"].splitlines()
    assert [line for line in lines if "← cause" in line] == [
        line for line in lines if line.startswith("patch ")
    ]
    assert digest_of(asking.root) == before


@pytest.mark.soak
def test_the_command_says_the_same(asking: Bench, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    asked: list[dict[str, Any]] = [
        {"return": {"function": "shop.price", "value": {"$eval": "__return__ * 1.5"}}},
        {"replace": {"function": "Cart.total", "with": "lambda self: 9"}},
        {"set_local": {"file": "shop.py", "line": 6, "name": "total", "value": 4}},
        {"raise": {"function": "price", "type": "ValueError", "message": "no"}},
    ]
    spec.write_text(json.dumps(asked))
    reply = ask(asking, ["test_shop.py"], *asked, evaluate=["cart.items"])
    done = command(
        asking.root, "try", "test_shop.py", "--spec", str(spec), "--evaluate", "cart.items"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip("\n") == reply["text"]
    options = ["--return", "shop.price", "__return__ * 1.5", "--replace", "Cart.total"]
    options += ["lambda self: 9", "--raise", "price", "ValueError: no"]
    shown = json.loads(command(asking.root, "try", "test_shop.py", *options, "--json").stdout)
    same = {"price → __return__ * 1.5", "replace total", "price ✗ ValueError"}
    assert {each["name"] for each in shown["experiments"]} == same
    for each in shown["experiments"]:
        assert each["outcomes"] == of(reply, each["name"])["outcomes"]


CHANGES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a result": ({"return": {"function": "price", "value": 4.5}}, {"test_total": "passed"}),
    "one call's result": (
        {"return": {"function": "shop.price", "value": 7, "call": 2}},
        {"test_total": "passed", "test_price": "passed"},
    ),
    "a result where it holds": (
        {"return": {"function": "shop.price", "value": 7, "when": "number == 2"}},
        {"test_total": "passed", "test_price": "passed"},
    ),
    "a result made of the result": (
        {"return": {"function": "shop.price", "value": {"$eval": "__return__ + 3"}, "call": 1}},
        {"test_total": "passed", "test_price": "failed"},
    ),
    "arguments by name": (
        {"set_args": {"function": "price", "arguments": {"tax": 1.5}}},
        {"test_total": "passed", "test_price": "failed"},
    ),
    "leading arguments": (
        {"set_args": {"function": "shop.price", "arguments": [2.25]}},
        {"test_total": "passed"},
    ),
    "an exception": (
        {"raise": {"function": "price", "type": "KeyError", "message": "x"}},
        {"test_total": "failed", "test_price": "failed"},
    ),
    "a local": (
        {"set_local": {"file": "shop.py", "line": 6, "name": "total", "value": 4.5}},
        {"test_total": "passed", "test_price": "failed"},
    ),
    "an item of a global": (
        {"set_local": {"file": "shop.py", "line": 6, "name": "TAXES['a']", "value": 9}},
        {"test_price": "passed"},
    ),
    "a coroutine's result": (
        {"return": {"function": "shop.load", "value": 5}},
        {"test_load": "failed"},
    ),
    "a generator's items": (
        {"return": {"function": "shop.numbers", "value": [0]}},
        {"test_numbers": "failed"},
    ),
    "a library's result": (
        {"return": {"function": "os.environ.get", "value": "fast"}},
        {},
    ),
    "a variable": ({"env": {"SHOP_MODE": "fast"}}, {"test_variable": "passed"}),
    "arguments of pytest": ({"args": ["--runxfail"]}, {"test_expected": "failed"}),
    "several": (
        {
            "return": [
                {"function": "price", "value": 4.5},
                {"function": "shop.load", "value": 3},
            ],
            "env": {"SHOP_MODE": "fast"},
        },
        {"test_total": "passed", "test_load": "failed", "test_variable": "passed"},
    ),
}


@full
def test_each_kind_of_change(asking: Bench) -> None:
    names = list(CHANGES)
    for some in (names[::2], names[1::2]):  # a call has a limit
        named = [{"name": name} | CHANGES[name][0] for name in some]
        reply = ask(asking, ["test_shop.py"], *named, timeout_s=120)
        for name in some:
            assert_outcomes(reply, name, CHANGES[name][1])


def assert_outcomes(reply: dict[str, Any], name: str, expected: dict[str, str]) -> None:
    """Of an experiment of a reply."""
    found = of(reply, name)
    flipped = dict.fromkeys(found["flips"], "passed") | dict.fromkeys(found["breaks"], "failed")
    outcomes = reply["baseline"] | flipped | found["outcomes"]
    shown = {each: outcomes[f"test_shop.py::{each}"] for each in expected}
    assert (name, shown) == (name, expected), reply["text"]


NOT_APPLIED: dict[str, tuple[dict[str, Any], str]] = {
    "never called": ({"return": {"function": "shop.never", "value": 2}}, "never called"),
    "no such call": ({"return": {"function": "price", "value": 2, "call": 9}}, "no call 9"),
    "false": (
        {"return": {"function": "price", "value": 2, "when": "number > 99"}},
        "when was true at none of",
    ),
    "a condition that raises": (
        {"return": {"function": "price", "value": 2, "when": "nope > 99"}},
        "NameError",
    ),
    "a line": (
        {"set_local": {"file": "shop.py", "line": 25, "name": "x", "value": 2}},
        "never called",
    ),
    "a value that raises": (
        {"return": {"function": "price", "value": {"$eval": "1 / 0"}}},
        "ZeroDivisionError",
    ),
    "an unknown exception": (
        {"raise": {"function": "price", "type": "NoSuchError"}},
        "NoSuchError",
    ),
    "a patch": (
        {"patch": [{"file": "shop.py", "old": "    return 1\n", "new": "    return 2\n"}]},
        "the changed lines were not reached",
    ),
}


@pytest.mark.soak
def test_what_was_not_reached_is_not_applied(asking: Bench) -> None:
    named = [{"name": name} | change for name, (change, _) in NOT_APPLIED.items()]
    reply = ask(asking, ["test_shop.py::test_total"], *named)
    assert "cause" not in reply
    for name, (_, reason) in NOT_APPLIED.items():
        found = of(reply, name)
        assert (name, found["applied"], found["flips"], found["breaks"]) == (name, False, [], [])
        (line,) = [each for each in reply["text"].splitlines() if each.startswith(f"{name} ")]
        assert ("not applied" in line, reason in line) == (True, True), line


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown function": (
        {"return": {"function": "shop.prize", "value": 1}},
        "function_not_found",
        "price",
    ),
    "an unknown file": (
        {"patch": [{"file": "shp.py", "old": "a", "new": "b"}]},
        "file_not_found",
        "shp.py",
    ),
    "a line without code": (
        {"set_local": {"file": "shop.py", "line": 999, "name": "x", "value": 1}},
        "invalid_line",
        "999",
    ),
    "an absent text": (
        {"patch": [{"file": "shop.py", "old": "number * 3", "new": "number"}]},
        "invalid_parameter",
        "number * 2",
    ),
    "an ambiguous text": (
        {"patch": [{"file": "shop.py", "old": "return", "new": "yield"}]},
        "invalid_parameter",
        "6, 16",
    ),
    "source that does not compile": (
        {"patch": [{"file": "shop.py", "old": "number * 2", "new": "number *"}]},
        "invalid_source",
        "5",
    ),
    "no change": ({"name": "x"}, "invalid_parameter", "experiments[0]"),
    "an unknown key": ({"returns": {}}, "invalid_parameter", "experiments[0].returns"),
    "a missing key": ({"return": {"value": 1}}, "missing_parameter", "function"),
    "a call and a condition": (
        {"return": {"function": "price", "value": 1, "call": 1, "when": "True"}},
        "invalid_parameter",
        "when",
    ),
    "an expression that does not compile": (
        {"return": {"function": "price", "value": {"$eval": "1 +"}}},
        "invalid_parameter",
        "experiments[0].return.value",
    ),
    "a replacement that is none": (
        {"replace": {"function": "price", "with": "x = 1"}},
        "invalid_parameter",
        "with",
    ),
}


@full
@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_tried_is_refused_before_a_test_runs(asking: Bench, name: str) -> None:
    change, code, words = REFUSED[name]
    with pytest.raises(ToolError) as refusal:
        ask(asking, ["test_shop.py::test_total"], change)
    assert (refusal.value.body["error"], words in refusal.value.body["message"]) == (code, True), (
        refusal.value.body
    )


@pytest.mark.full
def test_expressions_are_evaluated_at_the_failure_or_at_the_end(asking: Bench) -> None:
    reply = ask(
        asking,
        ["test_shop.py::test_total"],
        {"name": "it", "return": {"function": "price", "value": 4.5}},
        evaluate=["cart.items", "len(cart.items) + 1", "nope"],
    )
    values = of(reply, "it")["values"]
    assert (values["cart.items"], values["len(cart.items) + 1"]) == ("[1, 2]", "3")
    assert "nope = ✗ NameError" in reply["text"]
    assert "cart.items = [1, 2]  at test_shop.py:10" in reply["text"]


@full
def test_several_runs_are_counted(asking: Bench) -> None:
    change = {"name": "it", "return": {"function": "price", "value": 4.5}}
    reply = ask(asking, ["test_shop.py::test_total"], change, repeat=3)
    assert reply["baseline"] == {"test_shop.py::test_total": "0/3"}
    assert of(reply, "it")["outcomes"] == {"test_shop.py::test_total": "3/3"}
    assert reply["cause"] == "it"


@full
def test_an_order(bench: Bench) -> None:
    bench.write(
        test_order="""
        SEEN = []
        def test_a():
            SEEN.append("a")
        def test_b():
            assert SEEN == []
        """
    )
    nodeids = ["test_order.py::test_a", "test_order.py::test_b"]
    reply = ask(bench, nodeids, {"name": "reversed", "order": nodeids[::-1]})
    assert reply["baseline"] == {nodeids[0]: "passed", nodeids[1]: "failed"}
    assert (reply["cause"], of(reply, "reversed")["breaks"]) == ("reversed", [])


@full
def test_suggestions_are_marked_and_go_behind_the_clients_own(asking: Bench) -> None:
    reply = ask(asking, ["test_shop.py"], suggest=True)
    suggested = [each for each in reply["experiments"] if each.get("suggested")]
    assert suggested == reply["experiments"]
    assert any("test_shop.py::test_total" in each["flips"] for each in suggested)
    assert "(suggested)" in reply["text"]
    own = {"name": "own", "return": {"function": "shop.Cart.total", "value": 9}}
    assert ask(asking, ["test_shop.py"], own, suggest=True)["cause"] == "own"


@full
def test_a_run_that_is_paused_stays_so(bench: Bench) -> None:
    """Experiments need no `replace`, and set no breakpoint that stays."""
    stop = bench.stop_of("def test_it():\n    mine = 1\n    assert mine == 2")
    change = {"name": "it", "set_local": {"file": "test_it.py", "line": 3, "name": "mine"}}
    change["set_local"]["value"] = 2  # type: ignore[index]
    reply = ask(bench, ["test_it.py::test_it"], change)
    assert (reply["cause"], bench.eval(stop, "mine")) == ("it", "1")
    assert bench.agent.call("breakpoint_list")["breakpoints"] == []
    assert "questions" not in bench.agent.call("debug_state")


@full
def test_an_answer_is_partial_when_the_time_is_over(bench: Bench) -> None:
    bench.write(
        test_long="""
        import os, time
        def test_it():
            time.sleep(1000 if os.environ.get("LONG") else 0)
            assert False
        """
    )
    reply = ask(
        bench,
        ["test_long.py::test_it"],
        {"name": "long", "env": {"LONG": "1"}},
        {"name": "short", "env": {"LONG": None}},
        timeout_s=8,
    )
    assert reply["text"].startswith("partial: the time was over after")
    assert of(reply, "short")["outcomes"] == {"test_long.py::test_it": "failed"}
    assert of(reply, "long")["flips"] == []


@full
def test_secrets_are_hidden_in_all_parts(bench: Bench) -> None:
    secret = "zk3-opaque-value-77"
    bench.write(
        test_hidden=f"""
        def login(password):
            raise ValueError(password)
        def test_it():
            password = "{secret}"
            login(password)
        """
    )
    reply = ask(
        bench,
        ["test_hidden.py::test_it"],
        {"name": "it", "replace": {"function": "login", "with": "lambda password: 1 / 0"}},
        {"name": "args", "set_args": {"function": "login", "arguments": {"password": secret}}},
        evaluate=["password", "password.upper()"],
    )
    assert secret not in json.dumps(reply, ensure_ascii=False)
    assert "<redacted:" in reply["text"]


@full
def test_a_patch_is_applied_where_it_is_imported(bench: Bench) -> None:
    """Each time: by several tests, by reload, and by the test file itself."""
    bench.write(
        shop="def price():\n    return 1\n\n\ndef tax():\n    return 2\n",
        test_buys="""
        import importlib, inspect, linecache, traceback
        import shop
        def test_it():
            assert shop.price() == 3
        def test_reload():
            assert importlib.reload(shop).price() == 1
        def test_source():
            assert "return 1" in inspect.getsource(shop.price)
        def test_own():
            assert 1 == 2
        """,
    )
    change = {"file": "shop.py", "old": "return 1", "new": "return 3"}
    own = {"file": "test_buys.py", "old": "1 == 2", "new": "2 == 2"}
    reply = ask(
        bench,
        ["test_buys.py"],
        {"name": "shop", "patch": [change]},
        {"name": "test", "patch": own},
        {"name": "tax", "patch": [{"file": "shop.py", "old": "return 2", "new": "return 9"}]},
    )
    id = "test_buys.py::test_{}".format
    assert of(reply, "shop")["flips"] == [id("it")]
    assert of(reply, "shop")["breaks"] == [id("reload"), id("source")]
    assert (of(reply, "test")["flips"], of(reply, "test")["breaks"]) == ([id("own")], [])
    assert not of(reply, "tax")["applied"]
    assert "cause" not in reply


@full
def test_calls_at_imports_are_changed_and_have_no_number(bench: Bench) -> None:
    bench.write(
        test_tables="""
        def row(number):
            return number
        TABLE = [row(1), row(2)]
        def test_it():
            assert TABLE + [row(3)] == [7, 7, 7]
        def test_one():
            assert TABLE + [row(3)] == [1, 2, 7]
        """
    )
    reply = ask(
        bench,
        ["test_tables.py"],
        {"name": "all", "return": {"function": "row", "value": 7}},
        {"name": "first", "return": {"function": "row", "value": 7, "call": 1}},
    )
    assert of(reply, "all")["flips"] == ["test_tables.py::test_it"]
    assert of(reply, "first")["flips"] == ["test_tables.py::test_one"]


@full
def test_forced_changes_of_runs_are_kept_too(bench: Bench) -> None:
    bench.write(
        test_forced="""
        def price():
            return 1
        def test_it():
            assert price() == 2
        """
    )
    bench.agent.call("breakpoint_add", function_name="price")
    (stop,) = bench.run(["test_forced.py"])["stops"]
    bench.go_on(stop, action="skip", fake_result=2)
    newest = bench.agent.call("debug_state")["tried"][0]
    assert "the result of test_forced.price()" in newest
    assert "passed  test_forced.py::test_it" in newest


@full
def test_a_recorded_session_has_what_was_tried(tmp_path: Path) -> None:
    with workbench(tmp_path / "project", f"--cideldill-record={tmp_path / 'rec'}") as bench:
        bench.write(test_it="def test_it():\n    assert 0")
        ask(bench, ["test_it.py"], {"name": "mine", "env": {"A": "1"}})
        ask(bench, ["test_it.py"], {"name": "two", "env": {"A": "2"}})
    done = command(tmp_path, "tried", str(tmp_path / "rec"))
    first, second = done.stdout.splitlines()
    assert ("q2 two" in first, "q1 mine" in second, "test_it.py::test_it" in first) == (True,) * 3


@full
def test_it_is_said_that_there_is_nothing_to_suggest(bench: Bench) -> None:
    bench.write(test_bare="def test_bare(): assert 1 == 2\ndef test_fine(): pass\n")
    reply = ask(bench, ["test_bare.py"], suggest=True)
    assert reply["text"].startswith("nothing to suggest: no call of your code gave a side of a ")
    reply = ask(bench, ["test_bare.py::test_fine"], suggest=True)
    assert reply["text"].startswith("nothing to suggest: no test fails\n")


@full
def test_what_a_function_gave_in_a_test_that_passes_is_suggested(bench: Bench) -> None:
    """For the same arguments; other results are no suggestion."""
    bench.write(
        test_rates="""
        RATES = {"a": 1}
        def rate(name):
            return RATES[name]
        def cost(name, hours):
            return [name, rate(name) * hours]
        def test_before():
            assert cost("a", 2)[1] == 2
        def test_it():
            RATES["a"] = 5
            assert cost("a", 2)[1] + 0 == 2
        """
    )
    reply = ask(bench, ["test_rates.py"], suggest=True)
    names = [each["name"] for each in reply["experiments"]]
    assert "rate → 1" in names
    assert of(reply, "rate → 1")["flips"] == ["test_rates.py::test_it"]


@full
def test_wrong_usage_of_the_command_names_the_way_out(tmp_path: Path) -> None:
    for words, text in (
        (["try", "test_x.py"], "nothing to try: give --patch"),
        (["try", "test_x.py", "--set", "x.py", "a", "1"], "--set takes FILE:LINE"),
        (["try", "test_x.py", "--spec", "none.json"], "none.json can't be read"),
        (["try", "test_x.py", "--return", "f", "1 +"], "experiments[0].return.value"),
    ):
        done = command(tmp_path, *words)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr


@full
def test_what_was_tried_is_kept(asking: Bench, tmp_path: Path) -> None:
    ask(asking, ["test_shop.py::test_total"], {"name": "mine", "env": {"A": "1"}})
    ask(
        asking,
        ["test_shop.py::test_total"],
        {"name": "good", "return": {"function": "price", "value": 4.5}},
    )
    tried = asking.agent.call("debug_state")["tried"]
    assert ["good  ✗→✓ cause" in tried[0], "mine  ✗" in tried[1]] == [True, True], tried
    done = command(asking.root, "try", "test_shop.py::test_total", "--env", "A=2")
    assert done.returncode == 0, done.stderr
    done = command(asking.root, "tried")
    assert done.returncode == 0
    assert "env A  ✗" in done.stdout.splitlines()[0]
    (tmp_path / "empty").mkdir()
    assert command(tmp_path / "empty", "tried").returncode == 1
