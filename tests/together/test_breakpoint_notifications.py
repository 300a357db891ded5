"""Breakpoint notifications: one test for each scenario of their use.

Through a client on raw pipes, against a real pytest child. US: user story. Edge
cases (EC) and success criteria (SC) are in `test_breakpoint_notification_edges.py`; SC-005 is that
all other tests pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.together.frontend import FrontEnd, front_end
from tests.together.tracing import line_of, messages, tracepoint, until_pushed

pytestmark = pytest.mark.full

STORY = """
class Till:
    def __init__(self, items):
        self.items = items

    def count(self):
        return len(self.items)


def test_it():
    myVar, x, y, nothing, till = 42, 2, 3, None, Till([3, 4])
    total = 0  # once
    for i in range(10):
        total += i  # loop
    assert total == 45  # stop


def test_other():
    assert True  # other
"""

PARTS = """
def passes(count):
    for number in range(count):
        number += 1  # loop


def test_parts():
    passes(3)
    passes(4)  # first
    passes(5)  # second
    passes(6)  # third


def test_many():
    passes(500)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spec")
    (root / "pytest.ini").touch()
    return root


# --- one run with all kinds ---------------------------------------------------------------------

TEMPLATES = {
    "value": "Value is {myVar}",
    "several": "x={x}, y={y}, result={x+y}",
    "failing": "Value is {nothing.name}",
    "calls": "List count: {len(till.items)}, {till.count()}",
}


@dataclass(slots=True)
class Story:
    """What a client saw of one run.

    Attributes:
        set: Replies of `breakpoint_set` and the `tracepoint` of `tracepoint_set`, by name.
        told: What was pushed, in the order of the wire.
        waited: The reply of `breakpoint_wait` that ran when the breakpoint was hit.
        listed: `breakpoint_list` by id, at the end.
        end: The reply of the `breakpoint_continue` that let the run end.
    """

    set: dict[str, dict[str, Any]]
    waited: dict[str, Any]
    end: dict[str, Any]
    reported: list[dict[str, Any]]
    listed: dict[str, dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """What was pushed of one breakpoint."""
        return [each for each in self.reported if each["breakpointId"] == self.set[name]["id"]]


@pytest.fixture(scope="module")
def story(project: Path) -> Iterator[Story]:
    """Set everything, run, wait, go on."""
    (project / "test_it.py").write_text(STORY, encoding="utf-8")
    lines = {mark: line_of(STORY, mark) for mark in ("once", "loop", "stop", "other")}
    with front_end(project, "-p", "no:cacheprovider") as end:
        end.initialize()
        known = {
            name: tracepoint(end, lines["once"], message) for name, message in TEMPLATES.items()
        }
        known["loop"] = tracepoint(end, lines["loop"], "Counter is {i}, sum is {total}")
        for name in ("stop", "other"):
            known[name] = end.call("breakpoint_set", file="test_it.py", line=lines[name])
        end.call("test_run", nodeids=["test_it.py::test_it"], wait=False)
        waited = end.call("breakpoint_wait", breakpoint_id=known["stop"]["id"])
        over = end.call("breakpoint_continue", pause_id=waited["pause_id"], wait=True)
        reported = until_pushed(end)
        listed = {each["id"]: each for each in end.call("breakpoint_list")["breakpoints"]}
        yield Story(known, waited, over, reported, listed)


def test_a_hit_is_reported_with_its_breakpoint_place_thread_and_time(story: Story) -> None:
    """US1, scenario 1."""
    (reported,) = story.of("stop")
    assert reported["type"] == "blocking"
    place = {"file": "test_it.py", "line": line_of(STORY, "stop"), "functionName": "test_it"}
    assert place.items() <= reported["location"].items()
    assert "column" in reported["location"]
    assert reported["threadId"] == story.waited["thread_id"]
    since = datetime.now(UTC) - datetime.fromisoformat(reported["timestamp"])
    assert 0 <= since.total_seconds() < 60


def test_only_the_breakpoint_that_is_hit_is_reported(story: Story) -> None:
    """US1, scenario 2."""
    assert story.of("other") == []
    assert len(story.of("stop")) == 1
    assert sum(each["type"] == "blocking" for each in story.reported) == 1


def test_a_hit_is_reported_and_ends_a_wait_as_well(story: Story) -> None:
    """US1, scenario 3."""
    (reported,) = story.of("stop")
    assert (story.waited["hit"], story.waited["reason"]) == (True, "breakpoint")
    assert story.waited["breakpoint_id"] == reported["breakpointId"]
    assert (story.waited["pause_id"], story.waited["hit_count"]) == (reported["pauseId"], 1)


def test_a_tracepoint_is_registered_under_an_id_of_its_own(story: Story) -> None:
    """US2, scenario 1."""
    ids = [each["id"] for each in story.set.values()]
    assert len(set(ids)) == len(ids)
    assert all(story.set[name]["type"] == "tracepoint" for name in (*TEMPLATES, "loop"))


def test_a_tracepoint_is_reported_and_the_test_goes_on(story: Story) -> None:
    """US2, scenario 2: the one pause of the run is that of the breakpoint behind it."""
    (reported,) = story.of("value")
    assert (reported["type"], reported["pauseId"]) == ("tracepoint", None)
    assert story.waited["location"]["line"] == line_of(STORY, "stop")
    assert (story.end["state"], story.end["outcomes"]["passed"]) == ("finished", 1)


def test_a_loop_of_ten_rounds_is_reported_ten_times(story: Story) -> None:
    """US2, scenario 3; and before the stop behind it."""
    sums = [sum(range(i)) for i in range(10)]
    reported = story.of("loop")
    assert [each["logMessage"] for each in reported] == [
        f"Counter is {i}, sum is {total}" for i, total in enumerate(sums)
    ]
    assert [each["hitCount"] for each in reported] == list(range(1, 11))
    seqs = [each["seq"] for each in story.reported]
    assert seqs == sorted(set(seqs))
    assert story.reported[-1]["type"] == "blocking"


def test_a_message_reports_the_value_of_an_expression(story: Story) -> None:
    """US3, scenario 1."""
    assert [each["logMessage"] for each in story.of("value")] == ["Value is 42"]


def test_a_message_reports_all_its_expressions(story: Story) -> None:
    """US3, scenario 2."""
    assert [each["logMessage"] for each in story.of("several")] == ["x=2, y=3, result=5"]


def test_an_expression_that_raises_is_shown_as_its_error(story: Story) -> None:
    """US3, scenario 3."""
    reported = [each["logMessage"] for each in story.of("failing")]
    assert reported == ["Value is <error: AttributeError>"]


def test_an_expression_may_call_methods(story: Story) -> None:
    """US3, scenario 4."""
    assert [each["logMessage"] for each in story.of("calls")] == ["List count: 2, 2"]


def test_tracepoints_are_listed_beside_breakpoints_and_distinguished(story: Story) -> None:
    """US4, scenario 1."""
    types = {name: story.listed[each["id"]]["type"] for name, each in story.set.items()}
    traced = dict.fromkeys((*TEMPLATES, "loop"), "tracepoint")
    assert types == {**traced, "stop": "blocking", "other": "blocking"}
    assert story.listed[story.set["loop"]["id"]]["logMessage"] == story.set["loop"]["logMessage"]


# --- lifecycle and frequency --------------------------------------------------------------------


@dataclass(slots=True)
class Lifecycle:
    """Messages that were pushed in the three parts of one run, and the lists at their ends.

    The tracepoint is switched off before the first, on before the second, gone before the third.
    """

    id: str
    reported: list[list[str]]
    listed: list[list[dict[str, Any]]]
    switched: list[dict[str, Any]]


@pytest.fixture(scope="module")
def lifecycle(project: Path) -> Iterator[Lifecycle]:
    """One tracepoint while a test goes from stop to stop."""
    (project / "test_it.py").write_text(PARTS, encoding="utf-8")
    with front_end(project, "-p", "no:cacheprovider") as end:
        end.initialize()
        id = tracepoint(end, line_of(PARTS, "loop"), "{number}")["id"]
        for mark in ("first", "second", "third"):
            end.call("breakpoint_set", file="test_it.py", line=line_of(PARTS, mark))
        seen = Lifecycle(id, [], [], [])

        def look() -> None:
            until_pushed(end)
            seen.reported.append(messages(end, id)[sum(map(len, seen.reported)) :])
            known = end.call("breakpoint_list")["breakpoints"]
            seen.listed.append([each for each in known if each["type"] == "tracepoint"])

        reply = end.call("test_run", nodeids=["test_it.py::test_parts"])
        look()
        for change in (
            ("breakpoint_enable", {"id": id, "enabled": False}),
            ("breakpoint_enable", {"id": id}),
            ("breakpoint_remove", {"id": id}),
        ):
            seen.switched.append(end.call(change[0], **change[1]))
            (stop,) = reply["stops"]
            reply = end.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
            look()
        assert reply["outcomes"]["passed"] == 1
        yield seen


def test_a_tracepoint_that_is_switched_off_reports_nothing(lifecycle: Lifecycle) -> None:
    """US4, scenario 2."""
    assert lifecycle.reported[0] == ["0", "1", "2"]
    assert lifecycle.switched[0]["breakpoint"]["enabled"] is False
    assert lifecycle.reported[1] == []
    assert lifecycle.listed[1][0]["state"] == "disabled"


def test_a_tracepoint_that_is_switched_on_reports_again(lifecycle: Lifecycle) -> None:
    """US4, scenario 3."""
    assert lifecycle.switched[1]["breakpoint"]["enabled"] is True
    assert lifecycle.reported[2] == ["0", "1", "2", "3", "4"]
    assert lifecycle.listed[2][0]["state"] == "bound"


def test_a_tracepoint_that_is_removed_is_gone(lifecycle: Lifecycle) -> None:
    """US4, scenario 4."""
    assert [each["id"] for each in lifecycle.listed[2]] == [lifecycle.id]
    assert lifecycle.listed[3] == []
    assert lifecycle.reported[3] == []


@pytest.fixture(scope="module")
def frequent(project: Path) -> Iterator[tuple[FrontEnd, str, str]]:
    """A run of 500 passes; the ids of a tracepoint with a multiple and of one with a limit."""
    (project / "test_it.py").write_text(PARTS, encoding="utf-8")
    with front_end(project, "-p", "no:cacheprovider") as end:
        end.initialize()
        line = line_of(PARTS, "loop")
        multiple = tracepoint(end, line, "{number}", hit_count_multiple=100)["id"]
        limited = tracepoint(end, line, "{number}", max_notifications=10)["id"]
        assert end.call("test_run", nodeids=["test_it.py::test_many"])["outcomes"]["passed"] == 1
        until_pushed(end)
        yield end, multiple, limited


def test_a_multiple_of_passes_is_reported(frequent: tuple[FrontEnd, str, str]) -> None:
    """US5, scenario 1."""
    end, id, _ = frequent
    reported = [each["hitCount"] for each, _ in end.pushed if each["breakpointId"] == id]
    assert reported == [100, 200, 300, 400, 500]


def test_a_limited_tracepoint_reports_so_many_and_switches_itself_off(
    frequent: tuple[FrontEnd, str, str],
) -> None:
    """US5, scenario 2."""
    end, _, id = frequent
    assert messages(end, id) == list(map(str, range(10)))
    (listed,) = (each for each in end.call("breakpoint_list")["breakpoints"] if each["id"] == id)
    assert listed["notificationsSent"] == 10
    assert (listed["enabled"], listed["state"]) == (False, "disabled")
