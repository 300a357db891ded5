"""`test_suspects` of programs with a seeded bug, asked through a client and through the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, Agent, connected, server
from tests.together.frontend import clean_environment
from tests.together.question_rows import record
from tests.together.suspect_cases import BUGS, Seeded
from tests.together.workbench import Bench

COMMAND = "import sys; from cideldill_mcp.commands.main import main; sys.exit(main())"

FIRST = 3
"""The faulty function is among so many."""


def command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "suspects", *words],
        cwd=root,
        env=clean_environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )


def commanded(root: Path, *words: str) -> dict[str, Any]:
    """The reply object of the command, or its error."""
    done = command(root, "--json", *words)
    body: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if "error" in body else 0)
    return body


# --- seeded bugs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Agent, Path]]:
    """One server and one project with all programs; no test writes into it."""
    root = tmp_path_factory.mktemp("seeded") / "project"
    for case in BUGS:
        for path, text in case.files().items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
    (root / "pytest.ini").touch()
    with connected(server(root, env={"PYTHONDONTWRITEBYTECODE": "1"})) as agent:
        yield agent, root


OFTEN = frozenset({"branch", "generators", "threads"})
"""Programs of the full tier; all others are in the soak tier."""


def tier(case: Seeded) -> pytest.MarkDecorator:
    return pytest.mark.full if case.name in OFTEN else pytest.mark.soak


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, id=each.name, marks=tier(each)) for each in BUGS],
)
def test_the_function_with_the_bug_is_among_the_first(
    seeded: tuple[Agent, Path], case: Seeded
) -> None:
    agent, root = seeded
    asked = agent.start("test_suspects", nodeids=[case.name])
    shown = commanded(root, case.name)
    reply = asked.result(DEADLINE_S)
    text = reply["text"]
    assert shown["text"] == text
    assert shown["functions"] == reply["functions"]
    assert f" tests: {case.failed} failed, {case.passed} passed" in text.splitlines()[0], text
    file, _, name = case.faulty.rpartition("::")
    places = [(each["file"], each["function"].rpartition("::")[2]) for each in reply["functions"]]
    wanted = file or f"{case.name}/code.py"
    first = places[: 1 if case.is_first else FIRST]
    assert any(path == wanted and found.endswith(name) for path, found in first), text
    for words in case.has:
        assert words in text, text
    for lacking in case.lacks:
        assert not any(found.endswith(lacking) for _, found in places), text
    scores = [each["score"] for each in reply["functions"] if each["file"].endswith("code.py")]
    assert scores == sorted(scores, reverse=True)
    assert all(line["failing"] > 0 for line in reply["functions"])


@pytest.mark.full
def test_a_limit_leaves_out_functions_and_says_what_else_only_failing_tests_ran(
    seeded: tuple[Agent, Path],
) -> None:
    agent, _ = seeded
    reply = agent.call("test_suspects", nodeids=["in_traceback"], limit=2)
    assert [each["function"] for each in reply["functions"]] == [
        "in_traceback.code.delta",
        "in_traceback.code.omega",
    ]
    assert "only failing tests ran 3 more functions: " in reply["text"]
    assert agent.refused("test_suspects", nodeids=["values"], limit=0)["parameter"] == "limit"


@pytest.mark.full
def test_a_short_answer_keeps_the_first_functions(seeded: tuple[Agent, Path]) -> None:
    agent, _ = seeded
    reply = agent.call("test_suspects", nodeids=["."], limit=50, max_chars=600)
    assert len(reply["text"]) <= 600
    assert reply["truncated"]
    lines = reply["text"].splitlines()
    assert lines[-1].startswith("left out: ")
    assert sum(line[:1].isdigit() and " failing, " in line for line in lines) >= 2
    whole = agent.call("test_suspects", nodeids=["."], limit=50, max_chars=20_000)
    assert "truncated" not in whole


@pytest.mark.soak
def test_tests_are_chosen_as_pytest_chooses_them(seeded: tuple[Agent, Path]) -> None:
    agent, root = seeded
    by_keyword = agent.call("test_suspects", keyword="test_days")
    assert by_keyword["text"].startswith("5 tests: 2 failed, 3 passed\n")
    narrowed = agent.call("test_suspects", nodeids=["parametrized"], keyword="1-31 or 4-30")
    assert narrowed["text"].startswith("2 tests: 1 failed, 1 passed\n")
    assert commanded(root, "-k", "test_days")["text"] == by_keyword["text"]
    marked = agent.call("test_suspects", nodeids=["outcomes", "values"], markers="not xfail")
    assert marked["text"].startswith("5 tests: 2 failed, 2 passed, 1 neither\n")
    some = agent.call("test_suspects", nodeids=["values", "values/test_values.py::test_none"])
    assert "not found: values/test_values.py::test_none\n" in some["text"]


# --- refusals -----------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], list[str], str, str]] = {
    "all_pass": (
        {"nodeids": ["values/test_values.py::test_light"]},
        ["values/test_values.py::test_light"],
        "no_contrast",
        "none of 1 test failed: select failing ones",
    ),
    "all_fail": (
        {"nodeids": ["values/test_values.py::test_heavy"]},
        ["values/test_values.py::test_heavy"],
        "no_contrast",
        "select passing ones too, such as all of values/test_values.py",
    ),
    "all_skipped": (
        {"nodeids": ["outcomes/test_outcomes.py::test_skipped"]},
        ["outcomes/test_outcomes.py::test_skipped"],
        "no_contrast",
        "none of 1 test failed or passed",
    ),
    "not_found": (
        {"nodeids": ["values/test_values.py::test_hevy"]},
        ["values/test_values.py::test_hevy"],
        "test_not_found",
        "did you mean values/test_values.py::test_heavy",
    ),
    "none_selected": (
        {"nodeids": ["values"], "keyword": "absent"},
        ["values", "-k", "absent"],
        "test_not_found",
        "no test is selected by keyword 'absent' in values",
    ),
    "no_keyword": (
        {"keyword": "a b"},
        ["-k", "a b"],
        "invalid_parameter",
        "parameter 'keyword' is 'a b', expected expression of pytest -k",
    ),
    "no_marker": (
        {"markers": "(slow"},
        ["-m", "(slow"],
        "invalid_parameter",
        "parameter 'markers' is '(slow', expected expression of pytest -m",
    ),
    "nothing_known": ({}, [], "missing_parameter", "no test is known to have failed before"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", REFUSED)
def test_a_question_without_an_answer_is_refused(seeded: tuple[Agent, Path], name: str) -> None:
    agent, root = seeded
    arguments, words, code, message = REFUSED[name]
    refused = agent.refused("test_suspects", **arguments)
    assert refused["error"] == code
    assert message in refused["message"]
    assert commanded(root, *words, "--", "-p", "no:cacheprovider")["message"] == refused["message"]


# --- which tests failed last, and flaky ones ----------------------------------------------------

TWO_FILES = {
    "shop.py": "def double(n): return n * 3\ndef half(n): return n // 2\n",
    "test_double.py": """
        import shop
        def test_none(): assert shop.half(2) == 1
        def test_one(): assert shop.double(1) == 2
    """,
    "test_half.py": """
        import shop
        def test_half(): assert shop.half(4) == 2
    """,
}


@pytest.mark.full
def test_by_default_the_files_of_the_last_failures_are_compared(bench: Bench) -> None:
    bench.write(**TWO_FILES)
    bench.run(pause_on="never")
    reply = bench.agent.call("test_suspects")
    assert reply["text"].startswith("2 tests: 1 failed, 1 passed\n")
    assert reply["functions"][0]["function"] == "shop.double"
    assert reply["next"][0].startswith(
        'test_trace {"nodeid": "test_double.py::test_one", "function": "shop.double"}'
    )


@pytest.mark.full
def test_the_command_knows_the_last_failures_by_the_cache_of_pytest(
    make_project: MakeProject,
) -> None:
    """Which it leaves as it is."""
    root = make_project(**TWO_FILES)
    command_line = [sys.executable, "-m", "pytest", "-q"]
    subprocess.run(command_line, cwd=root, env=clean_environment(), check=False)
    files = {path: path.read_bytes() for path in root.rglob(".pytest_cache/**/*") if path.is_file()}
    assert files
    shown = commanded(root)
    assert shown["text"].startswith("2 tests: 1 failed, 1 passed\n")
    assert {path: path.read_bytes() for path in files} == files
    (root / ".pytest_cache/v/cache/lastfailed").write_text('["no table"')
    assert commanded(root)["error"] == "missing_parameter"


@pytest.mark.full
def test_failures_that_come_and_go_are_called_flaky(bench: Bench) -> None:
    bench.write(
        test_flaky="""
            import pathlib

            def count():
                file = pathlib.Path(__file__).with_suffix(".txt")
                seen = len(file.read_text()) if file.exists() else 0
                file.write_text("x" * (seen + 1))
                return seen

            def test_it():
                assert count() % 2

            def test_good():
                pass

            def test_bad():
                assert not pathlib
        """
    )
    text = bench.agent.call("test_suspects", nodeids=["test_flaky.py"])["text"]
    assert text.startswith(
        "flaky? 1 of 2 failing tests passed when only the failing ones were run again: "
        "test_flaky.py::test_it\n3 tests: 2 failed, 1 passed\n"
    )
    run = bench.run(["test_flaky.py"], pause_on="never")  # the third time
    assert bench.results()["test_it"]["outcome"] == "failed"
    text = bench.agent.call("test_suspects", nodeids=["test_flaky.py"])["text"]
    assert text.startswith(
        f"flaky? test_flaky.py::test_it: passed here, failed in {run['run_id']}\n"
        "3 tests: 1 failed, 2 passed\n"
    )


@pytest.mark.full
def test_after_its_time_a_question_says_what_is_known(bench: Bench) -> None:
    bench.write(
        test_stuck="""
            import threading

            def early(): return 1
            def late(): return 2

            def test_good(): assert early()
            def test_bad(): assert late() == 3
            def test_hangs(): threading.Event().wait()
            def test_never(): pass
        """
    )
    reply = bench.agent.call("test_suspects", nodeids=["test_stuck.py"], timeout_s=4)
    assert reply["text"].startswith("partial: the tests were ended by Ctrl-C after ")
    assert "3 tests: 1 failed, 1 passed, 1 neither\n" in reply["text"]
    assert [each["function"] for each in reply["functions"]] == ["test_stuck.late"]
    asked = {"nodeids": ["test_stuck.py"], "keyword": "good or hangs", "timeout_s": 4}
    refused = bench.agent.refused("test_suspects", **asked)
    assert refused["error"] == "no_contrast"
    assert refused["message"].startswith("partial: the tests were ended by Ctrl-C")


# --- the process --------------------------------------------------------------------------------


@pytest.mark.full
def test_outcomes_are_those_of_a_process_that_notes_nothing(seeded: tuple[Agent, Path]) -> None:
    _, root = seeded
    noted, plain = record(root, starts=True), record(root)
    assert noted.of("outcome", "test") == plain.of("outcome", "test")
    assert noted.of("starts")
    assert not plain.of("starts")


@pytest.mark.full
@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no tool ids")
def test_a_program_gets_the_tool_ids_that_it_wants(make_project: MakeProject) -> None:
    root = make_project(
        conftest="""
            import atexit, pathlib, sys

            def write():
                there = [sys.monitoring.get_tool(tool) for tool in range(6)]
                pathlib.Path(__file__).with_name("left.txt").write_text(repr(there))

            atexit.register(write)
        """,
        test_tools="""
            import pytest, sys

            def work(n): return n

            @pytest.mark.parametrize("ids", [(), (4,), (5,), (4, 5), (4, 5, 2), (), range(6), ()])
            def test_it(ids):
                monitoring, seen = sys.monitoring, []
                start = monitoring.events.PY_START
                for tool in ids:
                    monitoring.use_tool_id(tool, "mine")
                    monitoring.register_callback(tool, start, lambda code, _: seen.append(code))
                    monitoring.set_local_events(tool, work.__code__, start)
                work(1)
                for tool in ids:
                    monitoring.set_local_events(tool, work.__code__, 0)
                    monitoring.register_callback(tool, start, None)
                    monitoring.free_tool_id(tool)
                assert seen == [work.__code__] * len(ids)
        """,
    )
    rows = record(root, starts=True)
    assert [row[2] for row in rows.of("outcome")] == ["passed"] * 24, rows.output
    (work,) = (row[1] for row in rows.of("code") if row[3] == "work")
    assert sum(work in row[1] for row in rows.of("starts")) == 6
    assert [row[1] for row in rows.of("reached")] == ["events"]
    assert (root / "left.txt").read_text() == repr([None] * 6)


@pytest.mark.full
def test_a_child_process_by_fork_notes_nothing(make_project: MakeProject) -> None:
    root = make_project(
        test_forks="""
            import os

            def work(n): return n

            def test_it():
                pid = os.fork()
                if not pid:
                    work(1)
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0

            def test_other():
                work(2)
        """
    )
    rows = record(root, starts=True)
    names = {row[1]: row[3] for row in rows.of("code")}
    assert [[names[each] for each in row[1]] for row in rows.of("starts")] == [
        ["test_it"],
        ["test_other", "work"],
    ]
