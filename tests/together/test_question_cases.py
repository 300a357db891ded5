"""Questions about small programs of many kinds, asked through a client and through the command.

Both have to say the same, within each size. The programs are in `question_cases.py` and
`question_tests.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, ToolError, only_stop
from tests.together.frontend import clean_environment
from tests.together.question_cases import PROGRAMS, Case
from tests.together.question_tests import TESTS
from tests.together.workbench import SECRET, Bench

CASES = (*PROGRAMS, *TESTS)

SIZES = (500, 1_500)
"""Characters, beside the default."""

COMMAND = "import sys; from cideldill_mcp.commands.main import main; sys.exit(main())"
_TAG = re.compile(r"#[0-9a-f]{6}>")
_SECONDS = re.compile(r"after [0-9]+ s|×[0-9]+")

OPTIONS = {"call": "--call", "when": "--when", "timeout_s": "--timeout", "max_chars": "--max-chars"}


@pytest.fixture
def asking(bench: Bench) -> Bench:
    """The shared bench with all cases."""
    bench.write(**{"pytest.ini": "[pytest]\naddopts = --doctest-modules\n"})
    bench.write(**{f"test_{case.name}": case.source for case in CASES})
    return bench


def arguments(case: Case) -> list[str]:
    """The command line of a question."""
    if case.of_source:
        words = ["source", case.asked["function"], "--test", case.nodeid]
    else:
        words = ["trace", case.nodeid, *([case.asked["function"]] if case.function else [])]
    for name, option in OPTIONS.items():
        if name in case.asked:
            words += [option, str(case.asked[name])]
    return words


def command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words, "--json", "--", "-p", "no:cacheprovider"],
        cwd=root,
        env=clean_environment(**SECRET),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )


def plain(text: str) -> str:
    """Without what differs from process to process."""
    return _SECONDS.sub("…", _TAG.sub("#…>", text))


OFTEN = frozenset({"exceptions", "loop", "secret_lines", "uncollected"})


def tier(case: Case, number: int) -> pytest.MarkDecorator:
    """Every fourth case is tried in the full tier, as are some, the others in the soak tier."""
    if case.is_quick:
        return pytest.mark.quick
    return pytest.mark.full if number % 4 == 0 or case.name in OFTEN else pytest.mark.soak


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, id=each.name, marks=tier(each, number))
        for number, each in enumerate(CASES)
    ],
)
def test_a_question_is_answered_alike_by_client_and_command(
    asking: Bench, case: Case, request: pytest.FixtureRequest
) -> None:
    asked = {"nodeid": case.nodeid, **case.asked}
    asked_at_once = asking.agent.start(case.tool, **asked)
    done = command(asking.root, *arguments(case))
    shown = json.loads(done.stdout)
    if case.refused:
        with pytest.raises(ToolError) as refusal:
            asked_at_once.result(DEADLINE_S)
        body = refusal.value.body
        assert (body["error"], done.returncode) == (case.refused, 1), done.stderr
        check(case, body["message"], body)
        assert shown["message"] == body["message"]
        return
    reply = asked_at_once.result(DEADLINE_S)
    assert done.returncode == 0, done.stderr
    check(case, reply["text"], reply)
    check(case, shown["text"], shown)
    assert (reply["outcome"], shown["outcome"]) == (case.outcome, case.outcome), reply["text"]
    if case.settles:
        assert plain(shown["text"]) == plain(reply["text"])
        assert without_text(shown) == without_text(reply)
    if not case.is_quick or request.config.getoption("full"):
        check_sizes(asking, case, asked, reply)


def without_text(reply: dict[str, Any]) -> dict[str, Any]:
    """The keys that have to be alike."""
    unlike = ("text", "id", "seconds", "next", "redacted")
    return {name: value for name, value in reply.items() if name not in unlike}


def check(case: Case, text: str, reply: dict[str, Any]) -> None:
    for words in case.has:
        assert words in text, f"{words!r} is missing in\n{text}"
    whole = json.dumps(reply, ensure_ascii=False)
    for words in case.lacks:
        assert words not in whole, f"{words!r} is in\n{whole}"


def check_sizes(asking: Bench, case: Case, asked: dict[str, Any], whole: dict[str, Any]) -> None:
    """A shorter answer has the size that is asked for, begins alike, and says that it is cut."""
    assert len(whole["text"]) <= 4_000
    for size in SIZES:
        if len(whole["text"]) <= size or "partial: " in whole["text"]:
            continue
        short = asking.agent.call(case.tool, **asked, max_chars=size)
        text = short["text"]
        assert len(text) <= size
        assert len(text) > size // 3, f"a third of the room would do:\n{text}"
        assert short.get("truncated"), text
        assert "left out: " in text.splitlines()[-1], text
        assert text.split()[0] == whole["text"].split()[0]
        assert all(words in text for words in case.has_short), text


# --- beside a paused run ------------------------------------------------------------------------

COUNTING = """
    import pathlib

    FILE = pathlib.Path(__file__).parent.parent / "counted.txt"
    NUMBERS = []

    def count(n):
        NUMBERS.append(n)
        with FILE.open("a") as file:
            file.write(f"{n}\\n")
        return len(NUMBERS)

    def test_it():
        last = 0
        for n in range(3):
            last = count(n)
        assert last == 4
"""


@pytest.mark.full
def test_a_paused_test_is_left_as_it_is(bench: Bench) -> None:
    """Seen from outside: its process, what it wrote, its values, the run and its pause."""
    bench.write(**{"test_paused.py": COUNTING, "test_other.py": CASES[0].source})
    stop = only_stop(bench.run(["test_paused.py"]))
    before = bench.agent.call("debug_state")
    (paused,) = bench.agent.call("breakpoint_list_paused")["paused"]
    pid = int(bench.eval(stop, "__import__('os').getpid()"))
    started = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[21]
    counted = bench.root.parent / "counted.txt"
    assert counted.read_text().split() == ["0", "1", "2"]
    counted.write_text("paused\n")
    asked = [
        bench.agent.start("test_trace", nodeid="test_paused.py::test_it"),
        bench.agent.start("test_trace", nodeid="test_paused.py::test_it", function="count", call=3),
        bench.agent.start("test_source", function="count", nodeid="test_paused.py::test_it"),
        bench.agent.start("test_trace", nodeid="test_other.py::test_it"),
        bench.agent.start("test_source", function="count"),
    ]
    texts = [each.result(DEADLINE_S)["text"] for each in asked]
    for text, words in zip(
        texts,
        ("count(n=2) → 3", "call 3 of 3", "3×", "levels alike", "NUMBERS.append(n)"),
        strict=True,
    ):
        assert words in text, text
    # Three questions ran the test of their own processes, from its beginning to its end.
    assert sorted(counted.read_text().split()) == sorted(["paused", *"012" * 3])
    assert Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[21] == started
    assert bench.eval(stop, "(last, NUMBERS)") == "(3, [0, 1, 2])"
    assert int(bench.eval(stop, "__import__('os').getpid()")) == pid
    after = bench.agent.call("debug_state")
    same = ("state", "run_id", "paused", "breakpoints")
    assert [after.get(name) for name in same] == [before.get(name) for name in same]
    (still,) = bench.agent.call("breakpoint_list_paused")["paused"]
    assert (still["id"], still["paused_at"]) == (paused["id"], paused["paused_at"])
    bench.go_on(stop)
    ended = bench.agent.call("test_results")
    assert ended["run_id"] == before["run_id"]
    assert bench.results()["test_it"]["outcome"] == "failed"


# --- flaky tests --------------------------------------------------------------------------------


@pytest.mark.full
def test_a_test_that_comes_out_otherwise_is_called_flaky(bench: Bench) -> None:
    """Also where pytest itself calls it otherwise: an expected failure is none."""
    bench.write(
        test_flaky="""
            import os, pathlib, pytest

            def count():
                file = pathlib.Path(__file__).with_suffix(".txt")
                seen = len(file.read_text()) if file.exists() else 0
                file.write_text("x" * (seen + 1))
                return seen

            def test_it():
                assert count() % 2

            @pytest.mark.xfail(reason="known")
            def test_expected():
                assert False

            @pytest.mark.skip(reason="not today")
            def test_skipped():
                pass
        """
    )
    run = bench.run(["test_flaky.py"], pause_on="never")
    text = bench.agent.call("test_trace", nodeid="test_flaky.py::test_it")["text"]
    assert text.startswith(f"flaky? passed here, failed in {run['run_id']}\n")
    for name in ("expected", "skipped"):
        text = bench.agent.call("test_trace", nodeid=f"test_flaky.py::test_{name}")["text"]
        assert "flaky?" not in text
    assert bench.results()["test_expected"]["outcome"] == "xfailed"


# --- a project with many plugins ----------------------------------------------------------------

PLUGINS = """\
[pytest]
addopts =
    -n2 --cov=. --cov-report=xml --cov-report=html --junitxml=out/junit.xml --lf -x
    --timeout=30 --reruns=2 --basetemp=temporary --doctest-modules
cache_dir = .kept
log_file = out/tests.log
"""


@pytest.mark.soak
def test_a_project_of_many_plugins_is_answered_and_left_as_it_is(make_project: MakeProject) -> None:
    project = make_project(
        test_good="def test_good(): pass",
        test_bad="""
            RUNS = []

            def half(n):
                return n // 2

            def test_one():
                assert half(5) == 2

            def test_two():
                RUNS.append(1)
                assert half(5) + len(RUNS) > 99
        """,
        **{"pytest.ini": PLUGINS, ".coveragerc": "[run]\nparallel = true\n", "out/.keep": ""},
    )
    everything = {"PYTEST_ADDOPTS": "-p no:anyio -p no:asyncio"}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=project,
        env=clean_environment(**everything),
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    before = digest(project)
    assert any(name.startswith(".kept") for name in before)
    for nodeid, has in (
        ("test_bad.py::test_two", "failed: assert (2 + 1) > 99"),
        ("test_bad.py::test_one", "half(n=5) → 2"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "trace", nodeid],
            cwd=project,
            env=clean_environment(**everything),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert has in done.stdout, done.stdout + done.stderr
        assert "one of" not in done.stdout
        assert digest(project) == before


def digest(folder: Path) -> dict[str, bytes]:
    """Each file of a folder, but what Python compiled."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
