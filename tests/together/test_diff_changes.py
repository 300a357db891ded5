"""`test_diff` against an experiment: a test before and after a change, by client and command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.together.changed_cases import CHANGED, ChangedCase
from tests.together.driver import connected, server
from tests.together.test_diff import known, run_command
from tests.together.workbench import Bench


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server and one project for all cases."""
    root = tmp_path_factory.mktemp("changed") / "project"
    root.mkdir()
    (root / "pytest.ini").touch()
    for case in CHANGED:
        for file, text in case.files.items():
            (root / file).write_text(text, encoding="utf-8")
    with connected(server(root, env={"PYTHONDONTWRITEBYTECODE": "1"})) as agent:
        yield Bench(agent, root)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=getattr(pytest.mark, case.tier)) for case in CHANGED],
)
def test_the_answer_names_where_before_and_after_part(asking: Bench, case: ChangedCase) -> None:
    asked = {"nodeid": case.nodeid, "against": case.experiment}
    if sys.version_info < (3, 12) and case.name == "forced":
        refusal = asking.agent.refused("test_diff", **asked)
        assert "on Python 3.11 nothing is changed by force" in refusal["message"]
        return
    reply = asking.agent.call("test_diff", **asked)
    text = reply["text"]
    missing = [words for words in case.has if words not in text]
    if sys.version_info < (3, 12):  # lines are traced already: whether they ran is not known
        missing = [words for words in missing if "changed lines were" not in words]
    assert not missing, text
    assert f"right: {case.nodeid}  {case.outcome}" in text
    assert reply["equal"] == case.equal, text
    if case.divergence is None:
        assert "divergence" not in reply
    else:
        found = reply["divergence"]
        assert {key: found[key] for key in case.divergence} == case.divergence, text
    everything = json.dumps(reply)
    assert not [words for words in case.lacks if words in everything], text
    assert all("right" not in each for each in reply["next"])  # nothing else has the change
    for file, source in case.files.items():
        assert (asking.root / file).read_text(encoding="utf-8") == source


_OF_COMMAND = ("condition", "by_diff", "variable")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if at == 0 else pytest.mark.soak)
        for at, name in enumerate(_OF_COMMAND)
    ],
)
def test_the_command_prints_the_same(asking: Bench, name: str) -> None:
    case = next(each for each in CHANGED if each.name == name)
    words = ["diff", case.nodeid]
    for each in case.experiment.get("patch", ()):
        words += ["--patch", each["file"], each["old"], each["new"]]
    for variable, value in case.experiment.get("env", {}).items():
        words += ["--env", f"{variable}={value}"]
    if "diff" in case.experiment:
        file = asking.root.parent / "change.diff"
        file.write_text(case.experiment["diff"], encoding="utf-8")
        words += ["--diff", str(file)]
    done = run_command(asking.root, *words)
    reply = asking.agent.call("test_diff", nodeid=case.nodeid, against=case.experiment)
    assert (done.returncode, done.stderr) == (0, "")
    assert known(done.stdout) == known(reply["text"] + "\n")


@pytest.mark.soak
def test_a_spec_has_one_experiment(asking: Bench) -> None:
    case = next(each for each in CHANGED if each.name == "condition")
    file = asking.root.parent / "spec.json"
    file.write_text(json.dumps({**case.experiment, "name": "twenty"}), encoding="utf-8")
    done = run_command(asking.root, "diff", case.nodeid, "--spec", str(file), "--json")
    assert "(with twenty)" in json.loads(done.stdout)["text"]
    two = [*case.experiment["patch"][0].values()]
    for words in (
        ["--spec", str(file), "--patch", *two],
        [case.nodeid, "--patch", *two],
        ["--spec", "/dev/null"],
    ):
        done = run_command(asking.root, "diff", case.nodeid, *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("against", "code", "words"),
    [
        ({"patch": [{"file": "FILE", "old": "no such", "new": ""}]}, "invalid_parameter", "is not"),
        ({"patch": [{"file": "FILE", "old": "LIMIT = 31", "new": "="}]}, "invalid_source", "line"),
        ({"patch": [{"file": "no.py", "old": "a", "new": "b"}]}, "file_not_found", "no.py"),
        ({"patch": [{"file": "FILE", "old": "a"}]}, "missing_parameter", "a patch needs new"),
        ({"name": "nothing"}, "invalid_parameter", "at least one of patch"),
        ({"patsh": []}, "invalid_parameter", "against.patsh"),
        (17, "invalid_parameter", "against"),
        ("{}", "invalid_parameter", "at least one of patch"),
        ({"order": ["test_constant.py::test_fee"]}, "test_not_found", "order does not have"),
    ],
)
def test_a_change_that_is_none_is_refused(
    asking: Bench, against: Any, code: str, words: str
) -> None:
    case = next(each for each in CHANGED if each.name == "condition")
    given = json.loads(json.dumps(against).replace("FILE", f"{case.module}.py"))
    refusal = asking.agent.refused("test_diff", nodeid=case.nodeid, against=given)
    assert refusal["error"] == code
    assert words in refusal["message"]


@pytest.mark.full
def test_a_change_that_breaks_the_import_is_named(asking: Bench) -> None:
    case = next(each for each in CHANGED if each.name == "condition")
    patch = {"file": f"{case.module}.py", "old": "import math", "new": "import no_such_module"}
    refusal = asking.agent.refused("test_diff", nodeid=case.nodeid, against={"patch": [patch]})
    assert refusal["error"] == "not_live"
    assert "with p_condition.py: import no_such_module: " in refusal["message"]
    assert "No module named 'no_such_module'" in refusal["message"]


@pytest.mark.soak
def test_a_text_of_an_object_is_one(asking: Bench) -> None:
    case = next(each for each in CHANGED if each.name == "condition")
    text = json.dumps(case.experiment)
    reply = asking.agent.call("test_diff", nodeid=case.nodeid, against=text)
    assert not reply["equal"]


@pytest.mark.soak
def test_a_file_means_its_first_test_that_failed(asking: Bench) -> None:
    patch = {"file": "p_many.py", "old": "VALUE = 1", "new": "VALUE = 2"}
    (asking.root / "p_many.py").write_text("VALUE = 1\ndef value(n):\n    return n * VALUE\n")
    (asking.root / "test_many.py").write_text(
        "from p_many import value\n"
        "def test_one():\n    assert value(0) == 0\n"
        "def test_two():\n    assert value(1) == 2\n"
        "def test_three():\n    assert value(1) == 1\n"
    )
    reply = asking.agent.call("test_diff", nodeid="test_many.py", against={"patch": [patch]})
    assert "left:  test_many.py::test_two  failed" in reply["text"]
    assert "right: test_many.py::test_two  passed" in reply["text"]
    orders = ["test_many.py::test_three", "test_many.py::test_two"]
    reply = asking.agent.call(
        "test_diff", nodeid=orders[1], against={"patch": [patch], "order": orders}
    )
    assert f"right: {orders[1]}  passed" in reply["text"]
