"""Exceptions that tests swallow: real pytest processes that record them, and what is said then."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cideldill_mcp.questions.recorded import Recorded as Read
from cideldill_mcp.questions.swallowed import swallowed
from tests.server.recordings import Rows
from tests.together.question_rows import Recorded, record
from tests.together.swallowed_cases import CASES, Swallowed

_IS_OLDER = sys.version_info < (3, 12)


def _made(root: Path, *cases: Swallowed) -> Path:
    project = root / "project"
    project.mkdir()
    (project / "pytest.ini").touch()
    for case in cases:
        for name, text in case.files().items():
            (project / name).write_text(text, encoding="utf-8")
    return project


def read(recorded: Recorded, folder: Path) -> Read:
    """What the front end reads of rows."""
    rows = Rows()
    rows.rows = recorded.rows
    return rows.read(folder)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """All cases, in one process."""
    root = tmp_path_factory.mktemp("swallowed")
    project = _made(root, *CASES)
    recorded = record(project, *(case.nodeid for case in CASES), tree=True, caught=True)
    assert not recorded.of("warning", "reached"), recorded.of("warning", "reached")
    return read(recorded, root)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_test_swallows_is_told_and_nothing_else(case: Swallowed, seen: Read) -> None:
    test = seen.tests[case.nodeid]
    assert test.outcome == "failed"
    lines = swallowed(test, case.most)
    if case.lines[:1] and case.lines[0].startswith("*"):
        text = "\n".join(lines)
        assert case.lines[0][1:] in text
        assert case.lines[1][1:] not in text
        return
    expected = case.older if case.older and _IS_OLDER else case.lines
    assert lines == [line.replace("M:", f"m_{case.name}.py:") for line in expected]
