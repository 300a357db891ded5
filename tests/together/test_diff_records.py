"""`test_diff` against a run or a record: the same test there, by client and command."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import connected, server
from tests.together.records import recorded
from tests.together.test_diff import known, run_command
from tests.together.workbench import Bench

SHOP = """\
    import os, random, uuid

    RATE = 2

    class Cart:
        def __init__(self):
            self.items, self.token = [], uuid.uuid4().hex

        def add(self, price, count=1):
            self.items.append((price, count))
            return len(self.items)

        def total(self):
            return sum(price * count for price, count in self.items) * RATE

    def fee(weight):
        total = weight * RATE
        return total

    def twice(weight):
        return fee(weight) + fee(weight)

    def luck(weight):
        return random.random()

    def parsed(text):
        return int(text)

    def login(password):
        return len(password)
"""

TESTS = """\
    import os
    from shop import Cart, fee, login, luck, parsed, twice

    def test_fee():
        assert fee(3) == 6

    def test_twice():
        assert twice(3) == 12

    def test_cart():
        cart = Cart()
        cart.add(5)
        cart.add(2, count=3)
        assert cart.total() == 23

    def test_parsed():
        assert parsed("7") == 7

    def test_luck():
        assert luck(1) < 2

    def test_login():
        password = "zq81-secret-7751"
        assert login(password) == 5

    def test_same():
        assert len(os.sep) == 1

    def test_expected():
        amount = 3
        rows = [{"n": 1, "of": list(range(20))}, {"n": amount, "of": list(range(20))}]
        assert sum(row["n"] for row in rows) == 5
"""


@dataclass(frozen=True)
class RecordCase:
    """A change of the program behind the record, and the answer.

    Attributes:
        name: Of the test, without `test_`.
        edits: `(old, new)` in `shop.py` or, of lines that it does not have, `test_it.py`.
        has: What stands in the text.
        divergence: Keys of it; None: there is none.
        lacks: What does not stand there.
        asked: Further arguments.
        record: Which one: `calls` has calls and hits, `plain` has none.
        tier: `full` or `soak`.
    """

    name: str
    edits: tuple[tuple[str, str], ...] = ()
    has: tuple[str, ...] = ()
    divergence: dict[str, Any] | None = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    asked: dict[str, Any] = field(default_factory=dict)
    record: str = "calls"
    tier: str = "soak"

    @property
    def id(self) -> str:
        return f"{self.name}-{self.record}-{self.edits[0][1] if self.edits else 'same'}"[:40]


RATE = ("RATE = 2", "RATE = 3")
CASES: tuple[RecordCase, ...] = (
    RecordCase(
        "fee",
        (RATE,),
        (
            "left:  test_it.py::test_fee  failed: AssertionError: assert 9 == 6  test_it.py:5",
            "right: test_it.py::test_fee  passed  (in calls)",
            "first difference: hit 1 of shop.py:18\n  message: total 9 | total 6\n",
            "  call 1 of shop.fee from test_it.py:5\n    return: 9 | 6",
            "  outcome: failed | passed",
            "compared: outcome, 1 recorded call of shop.fee, 1 hit of shop.py:18",
        ),
        {"function": "shop.py:18", "line": 18, "path": "message", "left": "total 9"},
        tier="full",
    ),
    RecordCase(
        "fee",
        (),
        ("equal: nothing that could be compared differs", "compared: outcome, 1 recorded call of"),
        None,
        tier="full",
    ),
    RecordCase(
        "cart",
        (RATE,),
        (
            "call 1 of shop.Cart.total",
            "return: 33 | 22",
            "exception: AssertionError: assert 33 == 23 | AssertionError: assert 22 == 23",
            "environment: tests before it 0 | 2",
            "locals of 1 frame, 4 recorded calls of shop.Cart.__init__, shop.Cart.add",
        ),
        {"function": "shop.Cart.total", "path": "return", "left": "33", "right": "22"},
        lacks=("token",),
        tier="full",
    ),
    RecordCase(
        "cart",
        (("    cart.add(5)", "    cart.add(4)"),),
        ("first difference: call 1 of shop.Cart.add from test_it.py:12", "argument 2: 4 | 5"),
        {"function": "shop.Cart.add", "file": "test_it.py", "line": 12},
    ),
    RecordCase(
        "cart",
        (("    cart.add(5)\n", "    cart.add(5)\n    cart.add(9)\n"),),
        ("argument 2: 9 | 2", "only left: call 3 of shop.Cart.add from test_it.py:14"),
        {"function": "shop.Cart.add"},
    ),
    RecordCase(
        "twice",
        (("fee(weight) + fee(weight)", "2 * fee(weight)"),),
        ("first difference: only right: call 2 of shop.fee", "only right: hit 2 of shop.py:18"),
        {"function": "shop.fee", "left": "absent"},
    ),
    RecordCase(
        "parsed",
        (("return int(text)", "return float(text + 'x')"),),
        ("raises: ValueError: could not convert string to float: '7x' | absent", "failed | passed"),
        {"function": "shop.parsed"},
    ),
    RecordCase("luck", (), ("equal: ", "noise: 1 value that differ"), None, tier="full"),
    RecordCase(
        "login",
        (("zq81-secret-7751", "zq81-secret-77519"),),
        ("call 1 of shop.login", "return: 17 | 16"),
        {"function": "shop.login", "path": "return"},
        lacks=("zq81",),
    ),
    RecordCase(
        "expected",
        (("amount = 3", "amount = 7"),),
        (
            "test_it.test_expected at the failure",
            "amount: 7 | 3",
            "rows[1]: {'n': 7, ",
            "no calls and no hits were recorded there",
        ),
        {"function": "test_it.test_expected", "line": 32},
        record="plain",
    ),
    RecordCase(
        "fee",
        (RATE,),
        ("first difference: the failure\n  outcome: failed | passed", "no calls and no hits"),
        {"path": "outcome", "left": "failed", "right": "passed"},
        record="plain",
        tier="full",
    ),
    RecordCase(
        "fee",
        (("    return total\n", "    return total + 1\n"), ("RATE = 2", "# Moved.\nRATE = 2")),
        ("not compared: hits of shop.py:18 (other code is there now)", "return: 7 | 6"),
        {"function": "shop.fee"},
        lacks=("message",),
    ),
    RecordCase(
        "cart",
        (RATE,),
        ("first difference: the failure",),
        lacks=("call 1 of",),
        asked={"function": "shop.Cart.add"},
    ),
    RecordCase("same", (RATE,), ("equal: ", "compared: outcome"), None),
)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server, and a project with two records."""
    root = tmp_path_factory.mktemp("recorded") / "project"
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    _write(root)
    calls = ["--cideldill-record-calls=shop.*", "--cideldill-trace=shop.py:18=total {total}"]
    assert recorded(root, *calls, record="calls").exit_code == 1
    assert recorded(root, record="plain").exit_code == 1
    with connected(server(root, env={"PYTHONDONTWRITEBYTECODE": "1"})) as agent:
        yield Bench(agent, root)


def _write(root: Path, edits: tuple[tuple[str, str], ...] = ()) -> None:
    for name, text in (("shop.py", SHOP), ("test_it.py", TESTS)):
        text = textwrap.dedent(text)
        for old, new in edits:
            text = text.replace(old, new)
        (root / name).write_text(text, encoding="utf-8")


@pytest.mark.sample("fee-calls-RATE = 3", "fee-plain-*", "luck-*")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.id, marks=getattr(pytest.mark, case.tier)) for case in CASES],
)
def test_the_answer_names_what_differs_from_the_record(asking: Bench, case: RecordCase) -> None:
    _write(asking.root, case.edits)
    nodeid, record = f"test_it.py::test_{case.name}", str(asking.root / case.record)
    reply = asking.agent.call("test_diff", nodeid=nodeid, against=record, **case.asked)
    text = reply["text"].replace(record, case.record)
    assert not [words for words in case.has if words not in text], text
    assert not [words for words in case.lacks if words in json.dumps(reply)], text
    assert reply["against"] == record
    assert reply["equal"] == (case.divergence is None), text
    if case.divergence is not None:
        found = reply["divergence"]
        assert {key: found[key] for key in case.divergence} == case.divergence, text


@pytest.mark.full
def test_the_command_prints_the_same(asking: Bench) -> None:
    _write(asking.root, (RATE,))
    done = run_command(asking.root, "diff", "test_it.py::test_fee", "calls")
    record = str(asking.root / "calls")
    reply = asking.agent.call("test_diff", nodeid="test_it.py::test_fee", against=record)
    assert (done.returncode, done.stderr) == (0, "")
    assert known(done.stdout) == known(reply["text"].replace(record, "calls") + "\n")


@pytest.mark.full
def test_what_is_not_there_is_refused(asking: Bench) -> None:
    record = str(asking.root / "calls")
    for nodeid, against, code, words in (
        ("test_it.py::test_fe", record, "test_not_found", "did you mean test_it.py::test_fee"),
        ("test_it.py::test_fee", str(asking.root), "file_not_found", "holds no recorded run"),
        ("test_it.py::test_fee", str(asking.root / "no"), "invalid_parameter", "a record"),
        ("test_it.py::test_fee", str(asking.root / "shop.py"), "file_not_found", "no file of a"),
        ("test_it.py::test_fee", "r99", "no_run", "no test run yet"),
    ):
        refusal = asking.agent.refused("test_diff", nodeid=nodeid, against=against)
        assert (refusal["error"], words in refusal["message"]) == (code, True), refusal
    done = run_command(asking.root, "diff", "test_it.py::test_fee", "r1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "give the folder of a record" in done.stderr


@pytest.mark.soak
def test_a_run_of_a_record_and_its_file_are_records(asking: Bench) -> None:
    _write(asking.root)
    (run,) = (asking.root / "calls").glob("run-*")
    for path in (run, run / "events.jsonl", asking.root / "calls" / "manifest.json"):
        reply = asking.agent.call("test_diff", nodeid="test_it.py::test_fee", against=str(path))
        assert reply["equal"], reply["text"]


@pytest.mark.soak
def test_the_newest_run_that_has_the_test_is_taken(asking: Bench) -> None:
    record = asking.root / "several"
    shutil.copytree(asking.root / "calls", record)
    _write(asking.root, (RATE,))
    assert recorded(asking.root, "test_it.py::test_fee", record="several").exit_code == 1
    runs = sorted(record.glob("run-*"))
    for test, equal, run in (("fee", True, runs[1]), ("twice", False, runs[0])):
        nodeid = f"test_it.py::test_{test}"
        reply = asking.agent.call("test_diff", nodeid=nodeid, against=str(record))
        assert (reply["equal"], reply["against"]) == (equal, str(run)), reply["text"]


@pytest.mark.soak
def test_lines_that_make_no_sense_are_passed_over(asking: Bench) -> None:
    record = asking.root / "damaged"
    shutil.copytree(asking.root / "calls", record)
    (run,) = record.glob("run-*")
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    odd = ['{"n":1,"ts":1.0,"type":"call","worker":"main"}\n', "nonsense\n", "[]\n", "{}\n"]
    odd += [line.replace('"pretty_args":', '"pretty":') for line in lines if '"call"' in line]
    odd += [line.replace('"location":', '"place":') for line in lines if '"hit"' in line]
    (run / "events.jsonl").write_text("".join([*odd, *lines, *odd, '{"n":9,"ts"']))
    _write(asking.root)
    reply = asking.agent.call("test_diff", nodeid="test_it.py::test_fee", against=str(record))
    assert reply["equal"], reply["text"]


@pytest.mark.full
def test_a_run_of_the_server_is_compared(make_project: MakeProject) -> None:
    root = make_project(shop=textwrap.dedent(SHOP), test_it=textwrap.dedent(TESTS))
    with connected(server(root, env={"PYTHONDONTWRITEBYTECODE": "1"})) as agent:
        agent.call("breakpoint_add", function_name="shop.Cart.add", behavior="go")
        agent.call("breakpoint_add", function_name="shop.fee", behavior="go")
        agent.call("test_run", nodeids=["test_it.py"], pause_on="never")
        _write(root, (("    cart.add(5)", "    cart.add(4)"), RATE))
        against = {"nodeid": "test_it.py::test_cart", "against": "r1"}
        reply = agent.call("test_diff", **against)
        assert "(in r1)" in reply["text"]
        assert "first difference: call 1 of shop.Cart.add from test_it.py:12" in reply["text"]
        assert "argument 2: 4 | 5" in reply["text"]
        assert "compared: outcome, failure, locals of 1 frame, 2 recorded calls" in reply["text"]
        refusal = agent.refused("test_diff", **against | {"against": "r7"})
        assert refusal["error"] == "run_not_found"
        refusal = agent.refused("test_diff", nodeid="test_it.py::test_n", against="r1")
        assert refusal["error"] == "test_not_found"
        assert "test_it.py::test_" in refusal["message"]


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="the record is of another process")
def test_options_of_the_user_have_no_effect_on_files(make_project: MakeProject) -> None:
    root = make_project(
        shop=textwrap.dedent(SHOP),
        test_it=textwrap.dedent(TESTS),
        **{"pytest.ini": "[pytest]\naddopts = -n 2 --junitxml=out.xml\n"},
    )
    record = recorded(root, "--cideldill-record-calls=shop.*")
    assert "gw" in (record.run / "events.jsonl").read_text()
    (root / "out.xml").unlink()
    done = run_command(root, "diff", "test_it.py::test_cart", "rec")
    assert (done.returncode, done.stderr) == (0, "")
    assert "worker main | gw" in done.stdout
    assert not (root / "out.xml").exists()
    assert {each.name for each in root.iterdir()} >= {"rec", "shop.py"}
