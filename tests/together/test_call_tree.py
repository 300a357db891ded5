"""The rows of a test's calls, compared with what the program itself notes of its calls."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.question_rows import Recorded, record
from tests.together.workbench import Bench

pytestmark = pytest.mark.full

NOTES = """
    import json, pathlib

    LOG = []

    def write():
        pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(LOG))
"""


def _program(seed: int) -> str:
    """Functions that call each other, and note each beginning and each end of themselves."""
    chance = random.Random(seed)
    lines = ["from notes import LOG, write", "import asyncio", ""]
    kinds = ["plain", "raising", "generator", "coroutine", "recursive", "catching", "nested"]
    names: list[tuple[str, str]] = []
    for number in range(12):
        kind = chance.choice(kinds)
        name = f"f{number}"
        calls = [_call(*chance.choice(names)) for _ in range(chance.randint(0, 2)) if names]
        body = "\n".join(f"        {each}" for each in calls) or "        pass"
        prefix = "async " if kind == "coroutine" else ""
        lines.append(f"{prefix}def {name}(n=2):")
        lines.append(f"    LOG.append(['in', '{name}', n])")
        lines.append("    try:")
        lines.append(body)
        if kind == "generator":
            lines.append("        yield n")
            lines.append("        yield n + 1")
        if kind == "coroutine":
            lines.append("        await asyncio.sleep(0)")
        if kind == "recursive":
            lines.append(f"        n and {name}(n - 1)")
        if kind == "nested":
            lines.append("        [(lambda x: x + n)(each) for each in range(2)]")
        if kind == "raising":
            lines.append("        raise ValueError(n)")
        lines.append("    finally:")
        lines.append(f"        LOG.append(['out', '{name}', n])")
        if kind != "generator":
            lines.append("    return n * 2")
        lines.append("")
        names.append((name, kind))
    lines.append("def test_all():")
    lines += [f"    {_call(*each)}" for each in names]
    lines.append("    write()")
    return "\n".join(lines)


def _call(name: str, kind: str) -> str:
    made = {"generator": f"list({name}())", "coroutine": f"run({name}())"}.get(kind, f"{name}()")
    if kind == "coroutine":
        made = f"__import__('threads').run({name}())"
    return f"__import__('pytest').raises(ValueError, {name}) if {kind == 'raising'} else {made}"


THREADS = """
    import asyncio, threading

    def run(coroutine):
        # A loop inside of a loop: each in a thread of its own.
        thread = threading.Thread(target=asyncio.run, args=(coroutine,))
        thread.start()
        thread.join()
"""


@pytest.mark.sample("0")
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_are_the_calls_that_the_program_makes(
    make_project: MakeProject, seed: int
) -> None:
    project = make_project(notes=NOTES, threads=THREADS, test_p=_program(seed))
    recorded = record(project, "test_p.py::test_all", tree=True)
    assert recorded.status == 0, recorded.output
    assert _begun_and_ended(recorded) == json.loads((project / "notes.json").read_text())
    _assert_well_formed(recorded)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 60))
def test_the_rows_of_many_programs_are_their_calls(make_project: MakeProject, seed: int) -> None:
    test_the_rows_are_the_calls_that_the_program_makes(make_project, seed)


def _begun_and_ended(recorded: Recorded) -> list[list[Any]]:
    """As the program notes them."""
    names, found = recorded.names, []
    numbers: dict[int, int] = {}
    for row in recorded.of("call", "return", "unwind"):
        name = names[row[1]]
        if not name.startswith("f") or not name[1:].isdigit():
            continue
        if row[0] == "call":
            numbers[row[1]] = int(dict(row[6])["n"])
        found.append(["in" if row[0] == "call" else "out", name, numbers[row[1]]])
    return found


def _assert_well_formed(recorded: Recorded) -> None:
    """Each call ends once, inside of the one that it came from unless that is a generator."""
    open_calls: set[int] = {0}
    for row in recorded.of("call", "return", "unwind"):
        if row[0] == "call":
            assert row[2] in open_calls
            open_calls.add(row[1])
        else:
            open_calls.remove(row[1])
    assert open_calls == {0}
    assert recorded.rows[-1] == ["end"]


MIXED = """
    import functools
    import threading

    import pytest

    def logged(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs)
        return wrapper

    class Cart:
        def __init__(self, *items, tax=0):
            self.items = list(items)

        @property
        def size(self):
            return len(self.items)

        @logged
        def total(self):
            return sum(each * 2 for each in self.items)

    def work():
        return Cart(1).size

    def broken(depth):
        if depth:
            return broken(depth - 1)
        raise KeyError("gone")

    @pytest.fixture
    def cart():
        yield Cart(1, 2, tax=3)
        work()

    def test_mixed(cart):
        assert cart.total() == 6
        thread = threading.Thread(target=work, name="helper")
        thread.start()
        thread.join()
        sorted([3, 1], key=lambda x: work() and x)
        with pytest.raises(KeyError):
            broken(2)
        assert False, "at the end"
"""


def test_what_the_tree_says_of_each_call(make_project: MakeProject) -> None:
    recorded = record(make_project(test_m=MIXED), "test_m.py::test_mixed", tree=True)
    names = recorded.names
    calls = {row[1]: row for row in recorded.of("call")}
    first = {name: number for number, name in reversed(names.items())}
    assert calls[first["Cart.__init__"]][6][1:] == [["items", "(1, 2)"], ["tax", "3"]]
    wrapper, total = first["logged.<locals>.wrapper"], first["Cart.total"]
    assert calls[total][2] == wrapper
    assert calls[wrapper][2] == first["test_mixed"]
    in_thread = [row for row in calls.values() if row[5]]
    assert {names[row[1]] for row in in_thread} == {"work", "Cart.size", "Cart.__init__"}
    assert {row[5] for row in in_thread} == {"helper"}
    ends = {row[1]: row for row in recorded.of("return", "unwind")}
    assert ends[total][:3] == ["return", total, "6"]
    broken = [number for number, name in names.items() if name == "broken"]
    assert [ends[number][2] for number in broken] == ["KeyError: 'gone'"] * 3
    phases = [row[1] for row in recorded.of("phase")]
    assert phases == ["setup", "call", "teardown"]
    outcomes = [row[1:3] for row in recorded.of("outcome")]
    assert outcomes == [["setup", "passed"], ["call", "failed"], ["teardown", "passed"]]
    failure = recorded.of("outcome")[1]
    assert failure[3].startswith("AssertionError: at the end")
    assert failure[4:] == ["test_m.py", 46]


def test_only_the_wanted_tests_run_and_nothing_is_left(make_project: MakeProject) -> None:
    project = make_project(
        test_a="def test_one(): pass\ndef test_two(): assert 0",
        **{"pytest.ini": "[pytest]\naddopts = -n2 --junitxml=out.xml --cov=. -x --lf"},
    )
    before = sorted(each.name for each in project.iterdir())
    wanted = ("test_a.py::test_two", "test_a.py::test_nine")
    recorded = record(project, *wanted, args=(), guests={}, tree=True)
    assert [row[1] for row in recorded.of("test")] == ["test_a.py::test_two"]
    assert recorded.of("missing")[0][1] == ["test_a.py::test_nine"]
    after = sorted(each.name for each in project.iterdir() if each.name != "__pycache__")
    assert after == [each for each in before if each != "__pycache__"]


def test_beyond_a_limit_of_calls_those_near_the_test_are_recorded(
    make_project: MakeProject,
) -> None:
    """A function has its share, which is less with each level; the others are counted."""
    source = """
        def inner(n): return n
        def middle(n): return inner(n)
        def last(n): return n
        def test_many():
            for n in range(2000): middle(n)
            assert last(7) == 7
            middle(9)
            inner(5)
    """
    recorded = record(make_project(test_l=source), "test_l.py::test_many", tree=True, calls=1600)
    counts = Counter(recorded.names.values())
    assert counts == {"test_many": 1, "middle": 800 + 25, "inner": 799 + 12 + 1, "last": 1}
    assert [row[1] for row in recorded.of("reached")] == ["calls"]
    assert recorded.of("outcome")[1][2] == "passed"
    codes = {row[1]: row[3] for row in recorded.of("code")}
    skipped = {codes[code]: count for _, code, count in recorded.of("skipped")}
    assert skipped == {"inner": 2001 - (799 + 12)}


def test_a_killed_process_leaves_what_it_saw(make_project: MakeProject) -> None:
    source = """
        import os, signal
        def f(n): return n
        def test_killed():
            for n in range(20): f(n)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    recorded = record(make_project(test_k=source), "test_k.py::test_killed", tree=True)
    assert len(recorded.of("call")) > 15
    assert not recorded.of("end")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_nothing(make_project: MakeProject) -> None:
    source = """
        import os
        def f(n): return n
        def test_forks():
            f(1)
            pid = os.fork()
            if not pid:
                for n in range(2000): f(2)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            f(3)
    """
    recorded = record(make_project(test_f=source), "test_f.py::test_forks", tree=True)
    values = [dict(row[6]).get("n") for row in recorded.of("call")]
    assert values == [None, "1", "3"]


def test_secrets_and_hostile_objects(make_project: MakeProject) -> None:
    source = """
        class Hostile:
            def __repr__(self): raise SystemExit("repr")
            def __eq__(self, other): raise SystemExit("eq")
            def __hash__(self): raise SystemExit("hash")
            def __getattribute__(self, name): raise SystemExit(name)
        def login(user, password, thing): return {"api_key": "zq81-attribute-7751"}
        def note(text): pass
        def test_login():
            login("jo", "correct-h0rse-battery", Hostile())
            note("late-r-secret-5512")  # not known to be one
            login("jo", "late-r-secret-5512", None)
            note("late-r-secret-5512")
    """
    project = make_project(test_s=source)
    recorded = record(project, "test_s.py::test_login", tree=True)
    text = json.dumps(recorded.rows)
    assert recorded.of("outcome")[1][2] == "passed"
    assert "h0rse" not in text
    assert "zq81" not in text
    assert "<redacted:password#" in text
    notes = [
        dict(row[6])["text"] for row in recorded.of("call") if recorded.names[row[1]] == "note"
    ]
    assert notes[0] == "'late-r-secret-5512'"
    assert "<redacted:password#" in notes[1]


DEEP = """
    def down(n):
        try:
            return down(n + 1)
        except RecursionError:
            return n

    def endless(n):
        return endless(n + 1)

    def later():
        return 1

    def test_deep():
        import sys
        assert sys.getrecursionlimit() == 1000
        assert down(0) > 900
        assert down(0) > 900
        later()

    def test_own():
        try:
            endless(0)
        except RecursionError as error:
            assert error.__context__ is None
            place = error.__traceback__
            while place is not None:
                assert place.tb_frame.f_code.co_filename == __file__
                place = place.tb_next
"""


def test_the_exception_of_a_recursion_without_end_is_the_program_s(
    make_project: MakeProject,
) -> None:
    recorded = record(make_project(test_d=DEEP), "test_d.py::test_own", tree=True)
    assert recorded.of("outcome")[1][2] == "passed", recorded.output


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tracing goes on there")
def test_what_runs_behind_the_end_of_tracing_is_not_said_to_be_absent(bench: Bench) -> None:
    bench.write(test_d=DEEP)
    asked = {"nodeid": "test_d.py::test_deep", "function": "test_d.later"}
    refused = bench.agent.refused("test_trace", **asked)
    assert refused["message"].startswith("no call of a function 'test_d.later' was seen in ")
    assert "ends tracing on 3.11" in refused["message"]


def test_a_recursion_without_end_ends_as_ever(make_project: MakeProject) -> None:
    recorded = record(make_project(test_d=DEEP), "test_d.py::test_deep", tree=True)
    assert recorded.of("outcome")[1][2] == "passed", recorded.output
    if sys.version_info >= (3, 12):
        assert len(recorded.of("call")) > 1_800
        assert not recorded.of("reached")
    else:
        assert "recursion limit" in recorded.of("reached")[0][2]


def test_the_worker_that_runs_a_test_records_it(make_project: MakeProject) -> None:
    source = """
        def f(n): return n
        def test_one(): f(1)
        def test_two(): f(2)
    """
    recorded = record(
        make_project(test_w=source), "test_w.py::test_two", args=("-n2",), tree=True, workers=True
    )
    assert [dict(row[6]).get("n") for row in recorded.of("call")] == [None, "2"]
    assert len(recorded.of("outcome")) == 3
