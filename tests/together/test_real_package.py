"""The main job on a released package with its own tests: transparent, and the cause is named."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.together import driver
from tests.together.driver import Agent, connected, locals_of, only_stop, server
from tests.together.inside.second_opinion import INTACT
from tests.together.real_package import (
    CLICK,
    MORE_ITERTOOLS,
    SUITE_S,
    Breakage,
    Record,
    Release,
    all_results,
    differences,
    environment,
    plain_run,
    recording,
    unpacked,
)

pytestmark = [pytest.mark.full, pytest.mark.long(40), pytest.mark.timeout(900)]

ONE_TOO_FEW = Breakage(
    "more_itertools.recipes.take",
    "more_itertools/recipes.py",
    "    return list(islice(iterable, n))\n",
    "    return list(islice(iterable, n - 1))\n",
)

ONE_TOO_EARLY = Breakage(
    "more_itertools.more.last",
    "more_itertools/more.py",
    "        return deque(iterable, maxlen=1)[-1]\n",
    "        return deque(iterable, maxlen=2)[0]\n",
)

TWO_AT_A_TIME = Breakage(
    "more_itertools.more._islice_helper",
    "more_itertools/more.py",
    "    step = s.step or 1\n",
    "    step = s.step or 2\n",
)
"""Fails in dozens of subtests of a test."""

SLOW = "--deselect=tests/test_recipes.py::PrimeFunctionTests::test_primes"
"""Left out of the broken suites: nine of twelve seconds in one test that meets no breakage."""

MOST_CALLS = 200
"""Pauses after which a test is left to itself."""


@dataclass(frozen=True, slots=True)
class Suite:
    """An unpacked copy and what its suite does without the debugger."""

    root: Path
    arguments: list[str]
    plain: Record


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole suite may take longer than a call of another test."""
    monkeypatch.setattr(driver, "DEADLINE_S", SUITE_S + driver.DEADLINE_S)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The release."""
    folder = tmp_path_factory.mktemp("intact")
    root = unpacked(MORE_ITERTOOLS, folder)
    return Suite(root, [], plain_run(root, folder / "plain.json"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """A copy with two broken functions."""
    folder = tmp_path_factory.mktemp("broken")
    root = unpacked(MORE_ITERTOOLS, folder)
    ONE_TOO_EARLY.apply(root)
    TWO_AT_A_TIME.apply(root)
    return Suite(root, [SLOW], plain_run(root, folder / "plain.json", SLOW))


def driven(agent: Agent, suite: Suite, record: Path, **options: Any) -> dict[str, Any]:
    """The reply of `test_run` for a whole suite."""
    arguments = [*recording(record), *suite.arguments]
    return agent.call("test_run", args=arguments, timeout_s=SUITE_S, **options)


def assert_same(suite: Suite, record: Path, results: Sequence[dict[str, Any]]) -> None:
    """The recorder saw the same in both runs, and the server tells the same verdicts."""
    seen = Record.read(record)
    assert differences(suite.plain.reports, seen.reports) == {}
    assert differences(suite.plain.passed, seen.passed) == {}
    if not {test["worker"] for test in results} - {"main"}:
        assert list(suite.plain.reports) == list(seen.reports)
    assert suite.plain.exit_code == seen.exit_code
    reported = {test["nodeid"]: (test["outcome"], test["phase"]) for test in results}
    assert differences(suite.plain.verdicts(), reported) == {}


@pytest.mark.sample("broken")
@pytest.mark.parametrize("kind", ["broken", "intact"])
def test_a_suite_ends_as_without_the_debugger(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    """Most tests of the broken one pass, too."""
    suite: Suite = request.getfixturevalue(kind)
    fails = kind == "broken"
    assert suite.plain.exit_code == int(fails)
    assert len(suite.plain.reports) > 600
    assert len(suite.plain.failed()) > 5 or not fails
    with connected(server(suite.root, env=environment())) as agent:
        options = {"pause_on": "never"} if fails else {}
        reply = driven(agent, suite, tmp_path / "driven.json", **options)
        assert (reply["state"], reply["exit_code"]) == ("finished", int(fails))
        assert reply["outcomes"] == {"failed": 0, **suite.plain.counts}
        assert_same(suite, tmp_path / "driven.json", all_results(agent))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("release", "workers"),
    [(MORE_ITERTOOLS, 2), (CLICK, 4)],
    ids=["more-itertools", "click"],
)
def test_a_suite_in_workers_ends_as_without_the_debugger(
    release: Release, workers: int, tmp_path: Path
) -> None:
    """Outcomes under `-n` with and without the server are equal."""
    root = unpacked(release, tmp_path)
    paths = [root / "src"] if release is CLICK else []
    if release is MORE_ITERTOOLS:
        ONE_TOO_FEW.apply(root)
    spread = ["-n", str(workers)]
    suite = Suite(root, [], plain_run(root, tmp_path / "plain.json", *spread, paths=paths))
    assert len(suite.plain.reports) > 600
    with connected(server(root, env=environment(*paths))) as agent:
        reply = driven(agent, suite, tmp_path / "driven.json", pause_on="never", workers=workers)
        assert reply["outcomes"] == {"failed": 0, **suite.plain.counts}
        assert_same(suite, tmp_path / "driven.json", all_results(agent))


@pytest.mark.soak
def test_a_pause_at_every_failure_changes_none(broken: Suite, tmp_path: Path) -> None:
    with connected(server(broken.root, env=environment())) as agent:
        reply = driven(agent, broken, tmp_path / "driven.json")
        stops = list(rest_of(agent, reply))
        assert {stop["phase"] for stop in stops} == {"post_mortem"}
        assert len(stops) == broken.plain.counts["failed"]
        assert list(dict.fromkeys(stop["nodeid"] for stop in stops)) == broken.plain.failed()
        assert_same(broken, tmp_path / "driven.json", all_results(agent))


def rest_of(agent: Agent, reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The stop of a reply and, as each is continued in turn, all that follow up to the end."""
    while reply["state"] == "paused":
        stop = only_stop(reply)
        yield stop
        reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
    assert reply["state"] == "finished", reply


@pytest.mark.soak
@pytest.mark.parametrize(
    "breakage",
    [ONE_TOO_FEW, ONE_TOO_EARLY],
    ids=["take", "last"],
)
def test_triage_names_the_broken_function(breakage: Breakage, tmp_path: Path) -> None:
    """As an agent would go about it that knows the package's name and has an older release."""
    root = unpacked(MORE_ITERTOOLS, tmp_path)
    older = tmp_path / "older"
    shutil.copytree(root / MORE_ITERTOOLS.package, older / (INTACT + MORE_ITERTOOLS.package))
    breakage.apply(root)
    with connected(server(root, env=environment(older))) as agent:
        triage = Triage(agent, MORE_ITERTOOLS.package)
        failures = triage.first_failures(4)
        suspects = triage.suspects(failures)
        findings = [triage.tried(suspect, failures[0]["nodeid"]) for suspect in suspects]
        proven = [finding for finding in findings if finding.flipped]
        assert [finding.function for finding in proven] == [breakage.function], findings
        (finding,) = proven
        assert breakage.function in finding.hint
        assert finding.compared
        assert all(each["actual"] != each["expected"] for each in finding.compared)


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of replacing every result of one function by that of its older code.

    Attributes:
        flipped: Whether the test passed then.
        hint: What the server said next.
        compared: What the function gave and what it should have given, where the two differ.
    """

    function: str
    flipped: bool
    hint: str
    compared: list[dict[str, str]]


class Triage:
    """The steps of an agent; nothing in here knows what is broken."""

    def __init__(self, agent: Agent, package: str) -> None:
        self.agent = agent
        self.package = package

    def first_failures(self, count: int) -> list[dict[str, Any]]:
        """The pauses of the first failing tests, one after the other."""
        reply = self.agent.call("test_run", args=[SLOW], timeout_s=SUITE_S)
        stops: dict[str, dict[str, Any]] = {}
        while reply["state"] == "paused" and len(stops) < count:
            stop = only_stop(reply)
            stops.setdefault(stop["nodeid"], stop)
            reply = self._go_on(stop)
        if reply["state"] == "paused":
            self.agent.call("test_stop")
        return list(stops.values())

    def suspects(self, failures: Sequence[dict[str, Any]]) -> list[str]:
        """Functions that most failing tests call or fail in, the most frequent first."""
        seen = Counter[str]()
        for stop in failures:
            seen.update(self._functions_called(stop["nodeid"]))
            seen.update(self._functions_failed_in(stop["nodeid"]))
        return [name for name, count in seen.most_common() if count > 1]

    def tried(self, function: str, nodeid: str) -> Finding:
        """Run a failing test with one function's older code in the place of the present one."""
        self.agent.call("breakpoint_add", function_name=function)
        reply = self._run(nodeid, "never")
        compared = []
        while reply["state"] == "paused":
            stop = only_stop(reply)
            compared += self._compared(stop)
            older = f"__import__('second_opinion').result({function!r}, locals())"
            reply = self._go_on(stop, action="skip", fake_result={"$eval": older})
        self._take_out(function)
        hint = next(iter(reply["next"]), "")
        return Finding(function, reply["exit_code"] == 0, hint, compared)

    def _functions_called(self, nodeid: str) -> set[str]:
        """Ask a breakpoint on every function of the package."""
        everything = f"{self.package}.*"
        self.agent.call("breakpoint_add", function_name=everything)
        reply = self._run(nodeid, "never")
        names: set[str] = set()
        for _ in range(MOST_CALLS):
            if reply["state"] != "paused":
                break
            stop = only_stop(reply)
            names.add(stop["call_data"]["qualified_name"])
            reply = self._go_on(stop)
        self._take_out(everything)
        return names

    def _take_out(self, function_name: str) -> None:
        """Remove a breakpoint; the run that it was for must not have met a failure of ours."""
        self.agent.call("breakpoint_remove", function_name=function_name)
        assert "warnings" not in (state := self.agent.call("debug_state")), state

    def _functions_failed_in(self, nodeid: str) -> set[str]:
        """The innermost frame of the user's code, when it is one of the package."""
        autopsy = self.agent.call("exception_get_context", nodeid=nodeid)
        frame = autopsy["frames"][autopsy["userFrameIndex"]]
        is_inside = f"{frame['module']}.".startswith(f"{self.package}.")
        return {f"{frame['module']}.{frame['function']}"} if is_inside else set()

    def _compared(self, stop: dict[str, Any]) -> list[dict[str, str]]:
        """What the call will give and what it gave in the older release, where they differ."""
        arguments = ", ".join(f"{name!r}: {name}" for name in locals_of(stop))
        path = stop["call_data"]["qualified_name"]
        shown = self.agent.call(
            "breakpoint_repl_eval",
            pause_id=stop["pause_id"],
            expression=f"__import__('second_opinion').comparison({path!r}, {{{arguments}}})",
        )
        if shown["is_error"]:  # an argument that can be read only once
            return []
        compared: dict[str, str] = ast.literal_eval(shown["output"])
        return [compared] if compared["actual"] != compared["expected"] else []

    def _run(self, nodeid: str, pause_on: str) -> dict[str, Any]:
        return self.agent.call("test_run", nodeids=[nodeid], pause_on=pause_on, replace=True)

    def _go_on(self, stop: dict[str, Any], **options: Any) -> dict[str, Any]:
        return self.agent.call(
            "breakpoint_continue", pause_id=stop["pause_id"], wait=True, **options
        )
