"""What is read from the file that a question's process leaves."""

from __future__ import annotations

import json
from pathlib import Path

from cideldill_mcp.questions.recordings.row_reader import read_recorded
from cideldill_mcp.questions.trace.call_shapes import Shapes
from tests.server.recordings import NODEID, Rows, recorded_run

SHOP = """
def double(n):
    return n * 2

def test_total():
    total = 0
    for n in range(3):
        total += double(n)
    assert total == 7
"""


def test_calls_lines_and_outcome_of_a_test_are_read(tmp_path: Path) -> None:
    recorded = recorded_run(tmp_path, SHOP, "test_total", focus="test_total")
    test = recorded.tests[NODEID]
    (root,) = test.phases[0].roots
    assert [call.result for call in root.children] == ["0", "2", "4"]
    assert [call.ordinal for call in root.children] == [1, 2, 3]
    assert root.error == "AssertionError: "
    assert test.outcome == "failed"
    assert test.matches == 1
    assert recorded.has_ended
    focus = test.focus
    assert focus is not None
    assert [line.number for line in focus.lines] == [6, 7, 8, 7, 8, 7, 8, 7, 9]
    assert focus.lines[4].events is not None
    kinds = [event[0] for event in focus.lines[4].events]
    assert kinds == ["call", "change"]


def test_a_file_that_ends_anywhere_is_read_up_to_there(tmp_path: Path) -> None:
    """A process may be killed while it writes."""
    rows = Rows()
    rows.test()
    for number in range(20):
        rows.call(f"shop{number}", inside=lambda call: rows.call("inner", call))
    rows.end()
    data = rows.write(tmp_path / "rows", 7).read_bytes()
    for size in range(0, len(data), 97):
        (tmp_path / "cut").write_bytes(data[:size])
        recorded = read_recorded(tmp_path / "cut")
        assert not recorded.has_ended
        assert all(test.outcome == "unfinished" for test in recorded.tests.values())


def test_rows_of_unknown_kinds_numbers_and_columns_are_skipped(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    known = rows.call("shop")
    for row in (["new", 1], ["return", 77, "None"], ["call", 9], [], "text", 3, [["list"]]):
        rows.rows.append(row)  # type: ignore[arg-type]
    rows.add("unwind", known, None)
    rows.end()
    path = rows.write(tmp_path / "rows")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"no": "rows"}) + "\n\n[1")
    assert read_recorded(path).tests[NODEID].outcome == "passed"


def test_limits_a_refusal_and_counts_are_read(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    code = rows.code("total")
    call = rows.begin(code)
    rows.add("focus", call, 4)
    rows.add("line", 3)
    rows.add("reached", "lines", "after 300,000 lines only the last ones are kept")
    rows.add("line", 9)
    rows.add("lines", code, [[3, 12], [9, 1]])
    rows.add("library", call, "json.loads", 3)
    rows.add("refused", "cannot_intercept", "len is made in C")
    recorded = rows.read(tmp_path)
    test = recorded.tests[NODEID]
    assert recorded.reached[0][0] == "lines"
    assert recorded.refusal == ("cannot_intercept", "len is made in C")
    assert test.lines[0][1] == {3: 12, 9: 1}
    assert test.calls[call].library == [("json.loads", 3)]
    assert test.focus is not None
    assert test.focus.lines[0].events == [("gap", recorded.reached[0][1])]


def test_the_outcome_of_a_test_is_that_of_its_phases(tmp_path: Path) -> None:
    outcomes = {
        "passed": ["passed", "passed", "passed"],
        "error": ["failed", "passed"],
        "failed": ["passed", "failed", "failed"],
        "skipped": ["skipped", "passed"],
        "unfinished": [],
    }
    rows = Rows()
    for nodeid, of_phases in outcomes.items():
        rows.add("test", nodeid)
        names = ["setup", "call", "teardown"] if len(of_phases) == 3 else ["setup", "teardown"]
        for phase, outcome in zip(names, of_phases, strict=False):
            rows.add("phase", phase)
            rows.add("outcome", phase, outcome, None, None, None)
    recorded = rows.read(tmp_path)
    assert {nodeid: test.outcome for nodeid, test in recorded.tests.items()} == {
        nodeid: nodeid for nodeid in outcomes
    }


def test_calls_without_rows_count_in_the_numbers_of_later_ones(tmp_path: Path) -> None:
    rows = Rows()
    rows.test()
    root = rows.begin("test_total")
    rows.call("shop", root)
    rows.add("reached", "calls", "after 2 calls only some of those near the test were recorded")
    rows.add("skipped", rows.code("shop"), 3)
    rows.call("shop", root)
    rows.end()
    test = read_recorded(rows.write(tmp_path / "rows")).tests[NODEID]
    shops = [call for call in test.calls.values() if call.code.qualname == "shop"]
    assert [(call.ordinal, call.is_beyond) for call in shops] == [(1, False), (5, True)]
    shapes = Shapes(test.calls)
    assert shapes.of(shops[0]) != shapes.of(shops[1]), "what was inside is not known"
