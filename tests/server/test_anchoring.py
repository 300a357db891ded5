"""What the start of a run costs that no edit came before: no process, and no file is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.breakpoints import inspection, places
from cideldill_mcp.breakpoints.collection import Desired
from cideldill_mcp.breakpoints.inspection import find_places
from cideldill_mcp.breakpoints.places import Stamp
from cideldill_mcp.breakpoints.reanchor import reanchor
from cideldill_mcp.processes.helpers import Helper
from cideldill_mcp.processes.launch import Recipe
from pytest_cideldill.errors import ErrorCode, Refusal
from tests.server.processes import answered_here, in_loop

SHOP = "import math\nprice = 1\n"


@pytest.fixture
def here() -> Iterator[None]:
    """No process is started for the questions to this interpreter."""
    with answered_here(sys.executable):
        yield


@in_loop
async def test_only_files_that_were_edited_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By time and size; a file that was only touched is read, and that is all."""
    asked: list[str] = []
    ask = Helper.ask

    async def spy(helper: Helper, request: dict[str, Any], within_s: float) -> Any:
        asked.append(request["file"])
        return await ask(helper, request, within_s)

    monkeypatch.setattr(Helper, "ask", spy)
    recipe, desired = Recipe([sys.executable], [], str(tmp_path)), Desired()
    for name in ("a.py", "b.py"):
        path = tmp_path / name
        path.write_text(SHOP, encoding="utf-8")
        (place,) = await find_places(recipe, path, line=2)
        desired.add_line(place, place.spec)
    first, second = desired.lines
    asked.clear()
    monkeypatch.setattr(places, "source_bytes", lambda _path: pytest.fail("a file was read"))
    assert await reanchor(recipe, desired.lines) == []
    monkeypatch.undo()
    monkeypatch.setattr(Helper, "ask", spy)
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert await reanchor(recipe, desired.lines) == []
    assert first.place.stamp == Stamp.of(str(tmp_path / "a.py"))
    assert asked == []
    # Of the same size, and even with the same time as before.
    (tmp_path / "a.py").write_text("\nprice = 1\n#" + "x" * 9, encoding="utf-8")
    assert await reanchor(recipe, desired.lines) == []
    (tmp_path / "b.py").write_text("\n" + SHOP, encoding="utf-8")
    assert await reanchor(recipe, desired.lines) == [second]
    assert (second.place.line, second.note) == (3, "moved from 2 to 3")
    assert asked == [str(tmp_path / "a.py"), str(tmp_path / "b.py")]


@pytest.mark.usefixtures("here")
@in_loop
async def test_while_nobody_can_be_asked_it_stays_and_the_next_run_asks_again(
    tmp_path: Path,
) -> None:
    """The run is not refused: its interpreter may be broken for a moment only."""
    recipe, desired = Recipe([sys.executable], [], str(tmp_path)), Desired()
    path = tmp_path / "a.py"
    path.write_text(SHOP, encoding="utf-8")
    (place,) = await find_places(recipe, path, line=2)
    added = desired.add_line(place, place.spec)
    path.write_text("\n" + SHOP, encoding="utf-8")
    assert await reanchor(Recipe(["no-such-python"], [], str(tmp_path)), [added]) == [added]
    assert added.place == place
    assert "no-such-python could not be asked about a.py" in str(added.note)
    await reanchor(recipe, [added])
    assert (added.place.line, added.message) == (3, f"moved from 2 to 3; {added.pending}")


@pytest.mark.usefixtures("here")
@in_loop
async def test_mistakes_are_distinguished_from_places(tmp_path: Path) -> None:
    """Of many questions each has its own answer."""
    path = tmp_path / "a.py"
    path.write_text(SHOP, encoding="utf-8")
    recipe = Recipe([sys.executable], [], str(tmp_path))
    good, bad = await inspection.find_each(recipe, [(path, {"line": 1}), (path, {"line": 9})])
    assert isinstance(good, list)
    assert isinstance(bad, Refusal)
    assert (good[0].source, bad.code) == ("import math", ErrorCode.INVALID_LINE)
    assert await inspection.find_each(recipe, []) == []


def test_a_file_that_is_no_source_is_not_read(tmp_path: Path) -> None:
    """A huge one, and a pipe, for which nobody waits."""
    huge = tmp_path / "huge.py"
    huge.touch()
    os.truncate(huge, 2_000_000_000)
    assert Stamp.of(str(huge)) is None
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.py")
        assert Stamp.of(str(tmp_path / "pipe.py")) is None
