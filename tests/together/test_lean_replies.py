"""Replies at a stop are lean: every fact once, no key without a value, and no fact is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.failing_tests import FILES, NODEIDS
from tests.together.driver import exception_of, locals_of, only_stop
from tests.together.workbench import Bench, workbench

full = pytest.mark.full

ORDER = "Order(number=7, customer='Ann', items=[Item(…), Item(…)], express=False)"
LETTER = (
    "'Dear Ann,\\n\\nlamp....................................   {price}\\n"
    "desk....................................  120.00\\n\\nYours, the store'"
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a reply says about one failing test.

    Attributes:
        exception: Type and message.
        place: File and source line at which the stop is.
        operands: Left side, operator and right side of the assertion that failed.
        values: Of the locals, by name.
        functions: Of the traceback, innermost first; not all of them.
        texts: What the texts and values of the reply have besides: output, fixtures, causes.
    """

    exception: tuple[str, str]
    place: tuple[str, str]
    operands: tuple[str | None, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    when: str = "call"


STORE, JOBS, TESTS = "store/orders.py", "store/jobs.py", "tests/test_store.py"

FACTS = {
    "test_big_dicts": Facts(
        (
            "AssertionError",
            "assert {'lines': {'o...rency': 'EUR'} == {'lines': {'o...rency': 'EUR'}",
        ),
        (TESTS, "assert orders.report(many) == expected"),
        values={"order": ORDER},
        texts=(
            "{'lines': {'order 0': {3 items}, 'order 1': {3 items}",
            "{'order 0': {'customer': 'customer 0', 'count': 2, 'express': False}",
            "Differing items:",
            "Omitting 2 identical items",
            "Order(number=5, customer='customer 5', items=[Item(…), Item(…)], express=True)",
            "Item(name='desk', price=120.0, tags=[2 items])",
            "'EUR'",
        ),
    ),
    "test_deep": Facts(
        ("store.orders.PriceError", "refund costs -5.0, which is below 0 (limit 1000)"),
        (STORE, 'raise PriceError(f"{item.name} costs {price}, which is below 0 (limit {limit})")'),
        values={
            "item": "Item(name='refund', price=-5.0, tags=[])",
            "price": "-5.0",
            "limit": "1000",
        },
        functions=(
            "checked",
            "priced",
            "Order.total.<locals>.<genexpr>",
            "Order.total",
            "test_deep",
        ),
        texts=(
            "Order(number=7, customer='Ann', items=[Item(…), Item(…), Item(…)], express=False)",
            "return sum(priced(item) for item in self.items)",
            "session",
        ),
    ),
    "test_fixture_error": Facts(
        ("LookupError", "no warehouse has order 7"),
        ("tests/conftest.py", 'raise LookupError(f"no warehouse has order {order.number}")'),
        values={"order": ORDER},
        functions=("warehouse",),
        texts=("'EUR'", "currency", "[Item(name='lamp', price=19.5, tags=[1 item])"),
        when="setup",
    ),
    "test_parametrized": Facts(
        ("AssertionError", "in EUR"),
        (TESTS, 'assert orders.shipping(weight) == price, f"in {currency}"'),
        ("9", "==", "7"),
        {"weight": "21", "price": "7", "currency": "'EUR'"},
        texts=("where 9 = shipping(21)", "test_parametrized[10-5]", "test_parametrized[21-7]"),
    ),
    "test_async": Facts(
        ("ConnectionError", "rates did not answer within 0.01 s"),
        (JOBS, 'raise ConnectionError(f"{name} did not answer within {delay} s")'),
        values={"name": "'rates'", "delay": "0.01"},
        functions=("fetched", "all_fetched", "BaseEventLoop.run_until_complete", "test_async"),
        texts=("…/asyncio/base_events.py", "results[name] = await fetched(name, 0.01)"),
    ),
    "test_subprocess": Facts(
        ("AssertionError", "assert 1 == 0"),
        (TESTS, "assert jobs.exported(3) == 0"),
        ("1", "==", "0"),
        texts=(
            "before the export\nexporting 3 orders\n",
            "export of 3 orders ended with 1",
            "where 1 = exported(3)",
            "monkeypatch",
        ),
    ),
    "test_printed_and_logged": Facts(
        ("AssertionError", "assert False"),
        (TESTS, "assert order.express"),
        ("False", "is true", None),
        {"order": ORDER, "item": "Item(name='desk', price=120.0, tags=['used', 'heavy'])"},
        texts=("checking lamp\nchecking desk\n", "no stock for order 7"),
    ),
    "test_long_strings": Facts(
        (
            "AssertionError",
            "assert 'Dear Ann,\\n\\...rs, the store' == 'Dear Ann,\\n\\...rs, the store'",
        ),
        (TESTS, "assert orders.letter(order) == want"),
        (LETTER.format(price="19.50"), "==", LETTER.format(price="19.05")),
        {"order": ORDER, "want": LETTER.format(price="19.05")},
        texts=("Skipping 47 identical leading characters in diff", "?            -"),
    ),
    "test_dataclasses": Facts(
        (
            "AssertionError",
            "assert Order(number=...express=False) == Order(number=...express=False)",
        ),
        (TESTS, "assert again == order"),
        (ORDER, "==", ORDER),
        {"order": ORDER, "again": ORDER},
        texts=("Differing attributes:\n  ['items']", "price=102.0", "price=120.0"),
    ),
    "test_chained": Facts(
        ("store.orders.PriceError", "order a is incomplete"),
        (STORE, "raise failed from error"),
        values={"path": "'a'", "texts": "{'a': '{\"number\": 1, \"items\": []}'}"},
        functions=("loaded", "test_chained"),
        texts=("'customer'", "cause", "parsed", "orders are exported at night"),
    ),
    "test_library": Facts(
        ("json.decoder.JSONDecodeError", "Expecting value: line 1 column 27 (char 26)"),
        (STORE, "data = json.loads(text)"),
        values={"text": '\'{"number": 1, "customer": Ann}\''},
        functions=("JSONDecoder.raw_decode", "JSONDecoder.decode", "loads", "parsed"),
        texts=("…/json/decoder.py", "StopIteration", "suppressed"),
    ),
    "test_group": Facts(
        ("ExceptionGroup", "not cleaned (2 sub-exceptions)"),
        (JOBS, 'raise ExceptionGroup("not cleaned", errors)'),
        values={"names": "['1', 'two', '3', 'four']", "name": "'four'"},
        texts=(
            "invalid literal for int() with base 10: 'two'",
            "invalid literal for int() with base 10: 'four'",
            "member",
            "int(name)",
        ),
    ),
    "test_close": Facts(
        ("AssertionError", "assert 46.5 == 46.4 ± 4.6e-05"),
        (TESTS, "assert share == pytest.approx(46.4)"),
        ("46.5", "==", "ApproxScalar(expected=46.4, rel=None, abs=None, nan_ok=False)"),
        {"share": "46.5", "order": ORDER},
        texts=("Expected: 46.4 ± 4.6e-05",),
    ),
    "test_not_raised": Facts(
        ("Failed", "DID NOT RAISE PriceError"),
        (TESTS, "with pytest.raises(orders.PriceError):"),
        values={"order": ORDER},
    ),
    "test_said": Facts(
        ("Failed", "unexpected numbers: [1, 2, 3]"),
        (TESTS, 'pytest.fail(f"unexpected numbers: {known}")'),
        values={"known": "[1, 2, 3]"},
    ),
    "test_teardown": Facts(
        ("AssertionError", "the ledger must end with a newline"),
        (
            "tests/conftest.py",
            'assert path.read_text() == "7\\n", "the ledger must end with a newline"',
        ),
        ("'7'", "==", "'7\\n'"),
        {"order": ORDER},
        texts=("ledger.txt", "test_teardown0"),
        when="teardown",
    ),
    "test_error_of_a_name": Facts(
        ("KeyError", "'orders'"),
        (TESTS, 'assert copy["orders"].number == 7'),
        values={
            "order": ORDER,
            "copy": "{'order': Order(number=7, customer='Ann', items=[2 items], express=False), "
            "'folder': 'test_error_of_a_name0'}",
        },
        texts=("test_error_of_a_name0')", "'EUR'"),
    ),
    "test_unittest": Facts(
        ("AssertionError", "Lists differ: ['lamp', 'desk'] != ['lamp', 'chair']"),
        (TESTS, 'self.assertEqual(names, ["lamp", "chair"])'),
        ("['lamp', 'desk']", "==", "['lamp', 'chair']"),
        {"names": "['lamp', 'desk']"},
        texts=(
            "First differing element 1:\n'desk'\n'chair'",
            "[Item(name='lamp', price=19.5, tags=[]), Item(name='desk', price=120.0, tags=[])]",
        ),
    ),
}
"""The facts about each test of the benchmark."""

ONLY_LISTED = {
    "id", "call_data", "paused_at", "repl_sessions", "pause_reason", "run_id", "lease_expires_at",
}  # fmt: skip
"""Keys of a pause that `breakpoint_list_paused` has, and a stop at a failure has not."""


@pytest.fixture
def store(bench: Bench) -> Bench:
    """The shared bench with the project of the benchmark."""
    bench.write(**FILES)
    return bench


def texts_in(value: Any) -> Iterator[str]:
    """All texts that a piece of JSON holds."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)
    elif isinstance(value, str):
        yield value


def without_value(value: Any, place: str) -> Iterator[str]:
    """Where a piece of JSON has null, an empty text, list or object."""
    if value in (None, "", [], {}):
        yield place
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from without_value(each, f"{place}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from without_value(each, f"{place}[{number}]")


def test_each_test_of_the_benchmark_has_facts() -> None:
    assert list(FACTS) == [nodeid.rpartition("::")[2] for nodeid in NODEIDS]


@full
@pytest.mark.parametrize(
    "nodeid",
    [
        pytest.param(nodeid, id=name, marks=[] if name == "test_parametrized" else full)
        for nodeid, name in ((each, each.rpartition("::")[2]) for each in NODEIDS)
    ],
)
def test_the_first_reply_has_all_facts_and_each_once(store: Bench, nodeid: str) -> None:
    has_all_facts(store, nodeid)


@full
def test_it_has_them_too_where_pytest_explains_in_full(tmp_path: Path) -> None:
    with workbench(tmp_path, env={"CI": "true"}) as bench:
        bench.write(**FILES)
        for name in ("test_big_dicts", "test_long_strings", "test_dataclasses"):
            has_all_facts(bench, f"tests/test_store.py::{name}")


def has_all_facts(store: Bench, nodeid: str) -> None:
    """Also which test it is, and by which id it is continued."""
    facts = FACTS[nodeid.rpartition("::")[2]]
    patient = ["-o", "cideldill_capture_ms=10000"]  # values are shown in full on a busy machine too
    reply = store.run([nodeid], replace=True, args=patient)
    stop = only_stop(reply)
    autopsy, location = stop["autopsy"], stop["location"]
    assert stop["pause_id"] == f"{reply['run_id']}.main.1"
    assert stop["nodeid"].startswith(nodeid)
    assert (stop["reason"], stop["phase"]) == ("test_failure", "post_mortem")
    assert stop["when"] == facts.when
    assert tuple(exception_of(stop).values()) == facts.exception
    file, source = facts.place
    lines = (store.root / file).read_text(encoding="utf-8").splitlines()
    assert (location["file"], lines[location["line"] - 1].strip()) == (file, source)
    assert source in [frame["source"] for frame in autopsy["frames"]]
    assertion = autopsy.get("assertion", {})
    if facts.operands:
        assert tuple(map(assertion.get, ("left", "op", "right"))) == facts.operands
    shown = locals_of(stop)
    assert {name: shown.get(name) for name in facts.values} == facts.values
    functions = [frame["function"] for frame in autopsy["frames"]]
    assert [name for name in functions if name in facts.functions] == list(facts.functions)
    texts = list(texts_in(stop))
    assert [text for text in facts.texts if not any(text in each for each in texts)] == []

    assert stop.keys().isdisjoint(ONLY_LISTED | {"locals", "exception"})
    assert list(without_value(stop, "stop")) == []
    assert reply["failures"] == [], "the stop says it"
    (paused,) = store.agent.call("breakpoint_list_paused")["paused"]
    assert paused.keys() >= ONLY_LISTED


@pytest.mark.full
def test_fixtures_of_plugins_are_shown_if_somebody_named_them(bench: Bench) -> None:
    """The test, a fixture or mark of the user's, or code that asked for it as it ran."""
    bench.write(
        conftest="""
            import pytest
            @pytest.fixture
            def folder(tmp_path): return tmp_path.name
            @pytest.fixture
            def asked(request): return request.getfixturevalue("doctest_namespace") or {"a": 1}
        """
    )
    stop = bench.stop_of(
        """
        import pytest
        @pytest.mark.usefixtures("capsys")
        def test_it(folder, asked, request):
            assert 0
        """
    )
    context = bench.agent.call("exception_get_context", pause_id=stop["pause_id"])
    names = {each["name"] for each in context["fixtures"]}
    assert names >= {"folder", "asked", "tmp_path", "capsys", "doctest_namespace"}
    assert "tmp_path_factory" not in names


@full
def test_a_stop_at_a_call_has_the_call_and_its_locals(bench: Bench) -> None:
    """In every reply; what has no value is absent, and so is the main thread."""
    bench.breakpoint("test_it.price")
    text = "def price(n): return n\ndef test_it():\n    price(1)\n    price(n=2)\n    price(3)\n"
    stop = bench.stop_of(text)
    assert stop["call_data"]["pretty_args"] == ["1"]
    assert "pretty_kwargs" not in stop["call_data"]
    assert (stop["locals"], stop["location"]["source"]) == ({"n": "1"}, "def price(n): return n")
    assert stop.keys().isdisjoint(ONLY_LISTED - {"call_data"} | {"thread", "worker", "autopsy"})
    reply = bench.go_on(stop)
    (second,) = reply["stops"]
    assert list(without_value(second, "stop")) == []
    waited = bench.agent.call("breakpoint_wait", after=0)
    assert (waited["pause_id"], waited["locals"]) == (second["pause_id"], {"n": "2"})
    assert "autopsy" not in waited
    stepped = bench.agent.call("debug_step", pause_id=second["pause_id"])
    assert stepped["reason"] == "step"
    assert list(without_value(stepped, "stepped")) == []
    bench.agent.call("debug_continue")
