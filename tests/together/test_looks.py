"""No code of the program runs because a client looks: pauses, variables, results and records.

A run that is looked at counts what a plain one counts. What clients ask for by its content id is
told as it was, and copied then.
"""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.together import counted
from tests.together.driver import DEADLINE_S, only_stop
from tests.together.records import command, recorded
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.long(20)

COUNTED = Path(counted.__file__).read_text(encoding="utf-8")

SIZE = 80
"""Objects that are looked at together: each is a parameter of its own."""

NAMES = [f"a{number}" for number in range(SIZE)]
_ALL = ", ".join(NAMES)
_PARAMETERS = ", ".join(f"{name}=None" for name in NAMES)

WATCHED = f"""
    def before({_PARAMETERS}): pass

    def after({_PARAMETERS}): return [{_ALL}]

    def raising({_PARAMETERS}): raise LookupError({_ALL})

    def going({_PARAMETERS}): return ({_ALL})

    def at_line({_PARAMETERS}):
        first = 1
        return first

    def around({_PARAMETERS}):
        def closure():
            held = [{_ALL}]
            return held
        return closure()

    def evaluated({_PARAMETERS}):
        here = None
        if PLAIN:
            for each in ({_ALL}):
                repr(each), repr([each])

    def failing({_PARAMETERS}):
        raise ValueError({_ALL})

    PLAIN, SIZE = False, {SIZE}
"""
LINES = {
    text.strip(): number
    for number, text in enumerate(WATCHED.splitlines(), 1)
    if text.strip() in ("first = 1", "return first", f"held = [{_ALL}]", "here = None")
}

CONFTEST = """
    import json, os, pathlib
    import pytest
    import counted, watched

    told = {}
    kept = counted.things(*pathlib.Path("kinds").read_text().split())
    watched.PLAIN = os.path.exists("plain")
    vars(watched).update((f"g{number}", each) for number, each in enumerate(kept))
    batches = [kept[at : at + watched.SIZE] for at in range(0, len(kept), watched.SIZE)]

    def pytest_generate_tests(metafunc):
        metafunc.parametrize("n", range(len(batches)))

    @pytest.fixture(autouse=True)
    def counts(request):
        counted.COUNTS.clear()
        yield
        told[request.node.name] = dict(counted.COUNTS)

    @pytest.fixture
    def batch(n): return batches[n]

    def pytest_sessionfinish():
        pathlib.Path("counts").write_text(json.dumps(told))
"""

TESTS = """
    import pytest
    import watched

    @pytest.mark.parametrize("name", ["before", "after", "going", "at_line", "around", "evaluated"])
    def test_passes(name, batch): getattr(watched, name)(*batch)

    def test_raises(batch):
        with pytest.raises(LookupError): watched.raising(*batch)
        for each in batch:
            if issubclass(type(each), Exception):
                try: raise each
                except Exception: pass

    def test_fails(batch): watched.failing(*batch)
"""

INI = """
    [pytest]
    addopts = --tb=short -p no:cacheprovider -p no:randomly -p no:asyncio -p no:rerunfailures
    cideldill_max_locals = 100
    cideldill_capture_ms = 2000
"""

MANY = pytest.param(
    "object list dict Exception meta lazy registered",
    marks=[pytest.mark.full, pytest.mark.timeout(600)],
    id="many",
)
KINDS = pytest.mark.parametrize("kinds", ["lazy", MANY])
LAZY = pytest.mark.parametrize(
    "kinds", ["lazy", pytest.param(*MANY.values, marks=[pytest.mark.soak], id=MANY.id)]
)
"""As `KINDS`; many pauses take long."""


def project(root: Path, kinds: str) -> Path:
    """The project, and what a run without us counts there."""
    root.mkdir(exist_ok=True)
    texts = {"watched.py": WATCHED, "conftest.py": CONFTEST, "test_it.py": TESTS, "pytest.ini": INI}
    for name, text in {**texts, "counted.py": COUNTED, "kinds": kinds, "plain": ""}.items():
        (root / name).write_text(textwrap.dedent(text), encoding="utf-8")
    done = subprocess.run(
        command("-p", "no:cideldill"),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 4,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (root / "counts").rename(root / "counts-plain")
    return root


def assert_counts_are_as_without_us(root: Path) -> None:
    plain, looked_at = (
        json.loads((root / name).read_text("utf-8")) for name in ("counts-plain", "counts")
    )
    assert set(plain) == set(looked_at)
    assert any(counts for test, counts in plain.items() if "evaluated" in test)
    more = {
        test: {label: (ran, plain[test].get(label, 0)) for label, ran in counts.items()}
        for test, counts in looked_at.items()
        if counts != plain[test]
    }
    assert more == {}


@pytest.mark.full
@KINDS
def test_nothing_runs_while_a_run_is_recorded(tmp_path: Path, kinds: str) -> None:
    """Calls with arguments and results, messages that name the objects, failures."""
    root = project(tmp_path / "project", kinds)
    message = " ".join(f"{{{name}}}" for name in NAMES)
    done = recorded(
        root,
        "--cideldill-record-calls=watched.*",
        f"--cideldill-trace=watched.py:{LINES['return first']}={message}",
    )
    assert done.exit_code == 1, done.out + done.err
    assert {call["method_name"] for call in done.of("call")} >= {"before", "after", "going"}
    assert len(done.of("hit")) == len({hit["nodeid"] for hit in done.of("hit")}) > 0
    assert_counts_are_as_without_us(root)


@pytest.mark.full
@LAZY
def test_nothing_runs_at_a_pause_but_the_repr_that_is_asked_for(tmp_path: Path, kinds: str) -> None:
    """Before a call, after a return, after a raise, at a line, a raise, a step and a failure."""
    root = project(tmp_path / "project", kinds)
    (root / "plain").unlink()
    with workbench(root) as bench:
        bench.breakpoint("watched.before", behavior="stop")
        for name, after in (("after", "stop"), ("raising", "exception")):
            bench.breakpoint(f"watched.{name}", behavior="go")
            bench.agent.call(
                "breakpoint_set_after_behavior", function_name=f"watched.{name}", behavior=after
            )
        bench.breakpoint("watched.going", behavior="go")
        for text in ("first = 1", f"held = [{_ALL}]", "here = None"):
            bench.agent.call("breakpoint_set", file="watched.py", line=LINES[text])
        message = " ".join(f"{{{name}}}" for name in NAMES)
        bench.agent.call(
            "tracepoint_set", file="watched.py", line=LINES["return first"], log_message=message
        )
        bench.agent.call("breakpoint_set_exception", exception_type="Exception")
        seen = set()
        reply = bench.run()
        while reply["state"] == "paused":
            stop = only_stop(reply)
            seen.add((stop["phase"], stop["location"]["function"]))
            look_around(bench, stop)
            reply = bench.go_on(stop)
        assert reply["state"] == "finished", reply
        assert {
            *(("before", "before"), ("after", "after"), ("exception", "raising")),
            *(("raise", "raising"), ("raise", "failing"), ("post_mortem", "failing")),
            *(("line", "at_line"), ("line", "around.<locals>.closure"), ("line", "evaluated")),
        } <= seen
        calls = bench.agent.call("breakpoint_get_call_records", function_name="watched.going")
        assert len(calls["calls"][0]["cids"]["args"]) > 0
    assert_counts_are_as_without_us(root)


def look_around(bench: Bench, stop: dict[str, Any]) -> None:
    """What clients do to look; an evaluation where the plain run has the `repr`."""
    agent, pause_id = bench.agent, stop["pause_id"]
    function = stop["location"]["function"]

    def variables(scope: str, names: list[str], **options: Any) -> None:
        reported = agent.call(
            "variables_get", pause_id=pause_id, scope=scope, names=names, max_chars=200_000
        )
        assert {each["name"] for each in reported["variables"]} == set(names)

    if function in ("before", "at_line", "failing", "raising"):
        variables("locals", NAMES)
    if function == "around.<locals>.closure":
        variables("closure", NAMES)
    if function == "before":
        known = agent.call("variables_get", pause_id=pause_id, scope="globals", max_chars=200_000)
        names = [each["name"] for each in known["names"] if each["name"][1:].isdigit()]
        for at in range(0, len(names), SIZE):
            variables("globals", names[at : at + SIZE])
    if function == "at_line":
        agent.call("debug_step", pause_id=pause_id)
    if stop["phase"] in ("raise", "post_mortem") and function != "test_raises":
        agent.call("exception_get_context", pause_id=pause_id)
    if function == "evaluated":
        given = agent.call("variables_get", pause_id=pause_id)["names"]
        for name in NAMES[: len(given)]:
            for expression in (name, f"[{name}]"):
                reply = agent.call("breakpoint_repl_eval", pause_id=pause_id, expression=expression)
                assert len(reply["result_cid"]) == 128
        statement = "; ".join(f"x{number} = {name}" for number, name in enumerate(NAMES))
        reply = agent.call("breakpoint_repl_eval", pause_id=pause_id, expression=statement)
        assert reply["result_cid"] is None
