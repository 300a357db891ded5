"""The sessions beside the example projects happen as they are shown there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import connected, server
from tests.together.transcript import differences, exchanges, replay

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SESSIONS = sorted(EXAMPLES.glob("*/session.md"))


@pytest.mark.full
@pytest.mark.sample("bank", "receipts", "shipping", "parcels")
@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.parent.name)
def test_a_session_on_a_copy_of_its_project_goes_as_shown(session: Path, tmp_path: Path) -> None:
    """Each ends with the cause proven: a verdict that flips, or what a pause shows."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*")
    project = shutil.copytree(session.parent, tmp_path / "project", ignore=leftovers)
    unhurried = server(project, "-o", "cideldill_capture_ms=10000")  # however busy the machine
    with connected(unhurried) as agent:
        replay(agent, session.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("shown", "real", "found"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1, "c": 3}, {"a": 1}, ["reply has no c"]),
        ({"a": [{"b": "x…z"}]}, {"a": [{"b": "x\nyz", "c": 1}]}, []),
        ({"a": [{"b": "x…z"}]}, {"a": [{"b": "xy"}]}, ["reply.a[0].b: 'x…z' is shown, 'xy' came"]),
        ([1], [1, 2], ["reply: [1] is shown, [1, 2] came"]),
        ("1", 1, ["reply: '1' is shown, 1 came"]),
    ],
)
def test_a_reply_is_compared_with_what_is_shown_of_it(
    shown: Any, real: Any, found: list[str]
) -> None:
    assert list(differences(shown, real)) == found


def test_a_transcript_is_read_from_all_blocks_of_a_page() -> None:
    page = '```text\n> a {}\n< {"x": "1\n   2"}\n```\nand\n\n```text\n> b {"y": 1}\n< {}\n```\n'
    assert list(exchanges(page)) == [("a", {}, {"x": "1 2"}), ("b", {"y": 1}, {})]


def test_lines_of_a_text_stand_below_a_reply() -> None:
    page = '```text\n> a {}\n< {"x":\n   1}\n|   y\n|\n| …\n```\n'
    assert list(exchanges(page)) == [("a", {}, {"x": 1, "text": "  y\n…"})]
