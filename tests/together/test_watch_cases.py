"""`test_watch` asked about small programs, through a client and through the command.

Both have to say the same, and each test has to come out as it does in a plain run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import DEADLINE_S, ToolError
from tests.together.frontend import clean_environment
from tests.together.watch_cases import CASES, Watched
from tests.together.workbench import Bench

COMMAND = "import sys; from cideldill_mcp.commands.main import main; sys.exit(main())"

OPTIONS = {
    "function": "--in",
    "module": "--module",
    "call": "--call",
    "when": "--when",
    "until": "--until",
    "max_changes": "--max-changes",
}

_TAG = re.compile(r"#[0-9a-f]{6}>")
_VERDICT = re.compile(r"^test_(\w+)\.py::test_it (\w+)", re.MULTILINE)


@pytest.fixture
def watching(bench: Bench) -> Bench:
    """The shared bench with all cases."""
    bench.write(**{case.file: case.text for case in CASES})
    return bench


def command(root: Path, case: Watched) -> subprocess.CompletedProcess[str]:
    words = ["watch", case.nodeid, case.expression]
    for name, value in case.asked.items():
        words += [OPTIONS[name], str(value)]
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words, "--json", "--", "-p", "no:cacheprovider"],
        cwd=root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )


OFTEN = frozenset(
    {
        *("default", "class_attribute", "thread", "unwinding", "inside"),
        *("freed_object", "hostile_object", "fork", "secret", "until", "local_of_test"),
    }
)
"""Programs of the full tier; those that are in neither are in the soak tier."""


def tier(case: Watched) -> list[pytest.MarkDecorator]:
    if case.is_quick:
        return [pytest.mark.full, pytest.mark.quick]
    return [pytest.mark.full if case.name in OFTEN else pytest.mark.soak]


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, id=each.name, marks=tier(each)) for each in CASES],
)
def test_a_watch_is_answered_alike_by_client_and_command(watching: Bench, case: Watched) -> None:
    asked = {"nodeid": case.nodeid, "expression": case.expression, **case.asked}
    asked_at_once = watching.agent.start("test_watch", **asked)
    done = command(watching.root, case)
    shown = json.loads(done.stdout)
    if case.refused:
        with pytest.raises(ToolError) as refusal:
            asked_at_once.result(DEADLINE_S)
        body = refusal.value.body
        assert (body["error"], done.returncode) == (case.refused, 1), done.stderr
        assert shown["message"] == body["message"]
        assert all(words in body["message"] for words in case.has), body["message"]
        return
    reply = asked_at_once.result(DEADLINE_S)
    assert done.returncode == 0, done.stderr
    for each in (reply, shown):
        check(case, each)
    if case.settles:
        assert _TAG.sub("#…>", shown["text"]) == _TAG.sub("#…>", reply["text"])
        for name in ("changes", "writers", "aliases", "became_true"):
            assert shown.get(name) == reply.get(name)


def check(case: Watched, reply: dict[str, Any]) -> None:
    text = reply["text"]
    assert reply["outcome"] == case.outcome, text
    for words in case.has:
        assert case.placed(words) in text, f"{case.placed(words)!r} is missing in\n{text}"
    for words in case.lacks:
        assert words not in json.dumps(reply, ensure_ascii=False), text
    assert reply["changes"] == sum(each["count"] for each in reply["writers"])
    if case.writers is not None:
        writers = [(f"{each['file']}:{each['line']}", each["count"]) for each in reply["writers"]]
        assert writers == [(case.placed(mark), count) for mark, count in case.writers], text


@pytest.mark.full
def test_each_program_comes_out_as_it_does_when_nothing_is_watched(watching: Bench) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-vp", "no:cacheprovider", "--deselect=test_exits.py"],
        cwd=watching.root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    verdicts = {name: verdict.lower() for name, verdict in _VERDICT.findall(done.stdout)}
    expected = {case.name: case.outcome for case in CASES if case.name != "exits"}
    assert {name: {"xfail": "xfailed"}.get(each, each) for name, each in verdicts.items()} == (
        expected
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("asked", "parameter", "words"),
    [
        ({"expression": "len(("}, "expression", "line 1"),
        ({"expression": "x", "until": "1 +"}, "until", "line 1"),
        ({"expression": "x", "call": 2}, "call", "no function"),
        ({"expression": "x", "function": "f", "module": "m"}, "module", "beside function"),
        ({"expression": "x", "function": "f", "call": 1, "when": "y"}, "when", "beside call"),
    ],
)
def test_what_can_not_be_watched_is_refused_at_once(
    watching: Bench, asked: dict[str, Any], parameter: str, words: str
) -> None:
    refused = watching.agent.refused("test_watch", nodeid="test_alias.py::test_it", **asked)
    assert (refused["error"], refused["parameter"]) == ("invalid_parameter", parameter)
    assert words in refused["message"]


@pytest.mark.full
def test_a_shorter_answer_keeps_the_first_and_the_last_changes(watching: Bench) -> None:
    asked = {"nodeid": "test_many.py::test_it", "expression": "items", "function": "fill"}
    reply = watching.agent.call("test_watch", **asked, max_chars=500)
    assert len(reply["text"]) <= 500
    assert "+ 0" in reply["text"]
    assert "1,001 changes" in reply["text"]
