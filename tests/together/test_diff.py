"""`test_diff`: a client and the command find where a good and a bad run of small programs part."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together import driver
from tests.together.conftest import MakeProject
from tests.together.diff_cases import CASES, DiffCase
from tests.together.driver import DEADLINE_S, ToolError
from tests.together.frontend import clean_environment
from tests.together.workbench import SECRET, Bench

COMMAND = "import sys; from cideldill_mcp.commands.main import main; sys.exit(main())"
UNSTABLE = ("flaky", "clock", "noise")
"""Cases that count their runs, or show ids of objects in the calls that lead to the difference."""

_TAG = re.compile(r"#[0-9a-f]{6}>|0x[0-9a-f]+")


@pytest.fixture
def asking(bench: Bench) -> Bench:
    """The shared bench with all cases."""
    bench.write(**{f"test_{case.name}": case.source for case in CASES})
    return bench


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question may take as long as it may, before the client gives up."""
    monkeypatch.setattr(driver, "DEADLINE_S", 60 + driver.DEADLINE_S)


def _ask(asking: Bench, case: DiffCase, **more: Any) -> dict[str, Any]:
    against = {} if case.against is None else {"against": case.against}
    return asking.agent.call("test_diff", nodeid=case.nodeid, **against, **case.asked, **more)


def command(case: DiffCase) -> list[str]:
    """The command line of a case."""
    words = ["diff", case.nodeid, *([case.against] if case.against else [])]
    if "function" in case.asked:
        words += ["--in", case.asked["function"]]
    for glob in case.asked.get("ignore", ()):
        words += ["--ignore", glob]
    return words


def run_command(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a command prints."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=project,
        env=clean_environment(PYTHONDONTWRITEBYTECODE="1", **SECRET),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def known(text: str) -> str:
    """A text without the tags of secrets and addresses, which differ between two servers."""
    return _TAG.sub("#", text)


OFTEN = frozenset({"neighbour", "noise", "secrets", "flaky", "passes"})
"""Programs of the full tier, beside the quick ones; all others are in the soak tier."""


def _marks(case: DiffCase) -> list[pytest.MarkDecorator]:
    if case.is_quick:
        return []
    return [pytest.mark.full if case.name in OFTEN else pytest.mark.soak]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=_marks(case)) for case in CASES],
)
def test_the_answer_names_where_they_part(asking: Bench, case: DiffCase) -> None:
    if case.refused:
        refusal = asking.agent.refused("test_diff", nodeid=case.nodeid, **case.asked)
        assert refusal["error"] == case.refused
        text = refusal["message"]
    else:
        reply = _ask(asking, case)
        text = reply["text"]
        assert reply["equal"] == case.equal, text
        assert bool(reply["noise"]) == case.noise, text
        if case.divergence is None:
            assert "divergence" not in reply
        else:
            found = reply["divergence"]
            assert {key: found[key] for key in case.divergence} == case.divergence, text
            assert set(found) == {"function", "file", "line", "path", "left", "right"}
        everything = json.dumps(reply)
        assert not [words for words in case.lacks if words in everything], text
    missing = [words for words in case.has if words not in text]
    assert not missing, text


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.full if case.name in ("exception", "passes") else pytest.mark.soak,
        )
        for case in CASES
        if case.name not in UNSTABLE and not case.is_long
    ],
)
def test_the_command_prints_the_same(asking: Bench, case: DiffCase) -> None:
    done = run_command(asking.root, *command(case))
    if case.refused:
        assert (done.returncode, done.stdout) == (1, "")
        assert case.has[0] in done.stderr
        return
    assert (done.returncode, done.stderr) == (0, "")
    assert known(done.stdout) == known(_ask(asking, case)["text"] + "\n")


@pytest.mark.full
def test_a_small_answer_keeps_the_difference(asking: Bench) -> None:
    case = next(each for each in CASES if each.name == "deep")
    reply = _ask(asking, case, max_chars=500)
    assert len(reply["text"]) <= 500
    assert "order.lines['a'][1].price: 9.05 | 9.5" in reply["text"]


@pytest.mark.full
def test_wrong_usage(make_project: MakeProject) -> None:
    project = make_project(test_a="def test_one(): assert 0")
    for arguments, words in (
        (("test_a.py::test_one", "no"), "node id of a test (FILE::TEST), auto, a run (r3), or"),
        (("test_a.py::test_one", "--in", "a b"), "is no function name"),
        (("test_a.py::test_one", "--ignore", ""), "globs over value paths"),
    ):
        done = run_command(project, "diff", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert words in done.stderr


@pytest.mark.full
def test_a_missing_test_is_named(asking: Bench) -> None:
    with pytest.raises(ToolError, match="test_not_found"):
        asking.agent.call("test_diff", nodeid="test_deep.py::test_bad", against="test_deep.py::no")
