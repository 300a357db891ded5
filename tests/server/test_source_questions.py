"""Questions about sources: one process for many, each answered as if it were asked alone."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.breakpoints.inspection import find_each, find_places
from cideldill_mcp.breakpoints.places import Place
from cideldill_mcp.processes.launch import Recipe
from cideldill_mcp.sources import source_questions
from cideldill_mcp.sources.source_questions import Questions
from pytest_cideldill.errors import ErrorCode, Refusal
from tests.server.processes import DEADLINE_S, in_loop

Ask = Callable[..., Coroutine[Any, Any, list[Any]]]

STUB = """
import json, os, sys, threading
from pytest_cideldill.interpreter import one_shot

def replies():
    for line in sys.stdin.buffer:
        request = json.loads(line)
        file = request.get("file")
        if file == "crash":
            sys.exit("it fell\\n")
        if file == "hang" or request.get("condition") == "hang":
            threading.Event().wait()
        yield {"file": file}

one_shot.reply_each(replies())
"""
"""A helper that answers, and fails where it is told to."""


class Started:
    """Notes the processes that are started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pids: list[int] = []
        self._start = asyncio.create_subprocess_exec
        monkeypatch.setattr(asyncio, "create_subprocess_exec", self._note)

    async def _note(self, *arguments: Any, **options: Any) -> Any:
        process = await self._start(*arguments, **options)
        self.pids.append(process.pid)
        return process

    @property
    def alive(self) -> list[int]:
        return [each for each in self.pids if os.path.exists(f"/proc/{each}")]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks the stub, all at once: what each file brought."""
    (tmp_path / "stub.py").write_text(STUB, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(source_questions, "HELPER", "stub")
    asked = Questions([sys.executable])

    async def ask(*files: str, **more: Any) -> list[Any]:
        requests = [[{"file": each, "shown": each, **more}] for each in files]
        return [one for (one,) in await asyncio.gather(*map(asked.ask, requests))]

    return ask


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what no event tells."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.01)


@in_loop
async def test_one_process_answers_what_is_asked_at_once_and_after(
    tmp_path: Path, started: Started
) -> None:
    recipe = Recipe([sys.executable], [], str(tmp_path))
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\ny = 2\n", encoding="utf-8")
    asked = [(tmp_path / name, {"line": line}) for line in (1, 9, 2) for name in ("a.py", "b.py")]
    found = await asyncio.gather(*(find_each(recipe, [each]) for each in asked))
    for (path, wanted), (places,) in zip(asked, found, strict=True):
        if wanted["line"] == 9:
            assert isinstance(places, Refusal)
            assert places.code is ErrorCode.INVALID_LINE
        else:
            assert isinstance(places, list)
            assert (places[0].file, places[0].line) == (str(path), wanted["line"])
    (tmp_path / "a.py").write_text("\n\nz = 1\n", encoding="utf-8")
    (place,) = await find_places(recipe, tmp_path / "a.py", line=3)
    assert isinstance(place, Place)
    assert place.source == "z = 1"
    assert len(started.pids) == 1


@pytest.mark.full
@in_loop
async def test_a_process_that_fails_at_a_question_is_followed_by_another(
    ask: Ask, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are answered; what hangs is `invalid_source`, and delays them only once."""
    monkeypatch.setattr(source_questions, "TIMEOUT_S", 5.0)
    answers = await ask("a", "crash", "crash", "hang", "hang", "i", "z")
    assert [each["file"] for each in (answers[0], *answers[5:])] == ["a", "i", "z"]
    for crashed in answers[1:3]:
        assert crashed.code is ErrorCode.INTERNAL_ERROR
        assert crashed.message.endswith("could not be asked about crash: it fell")
    for hung in answers[3:5]:
        assert hung["error"] == "invalid_source"
        assert "takes longer than 5 s" in hung["message"]
    assert len(started.pids) == 3


@pytest.mark.full
@in_loop
async def test_a_condition_that_hangs_does_not_touch_others_of_its_file(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_questions, "TIMEOUT_S", 5.0)
    (hung,), (fine,) = await asyncio.gather(ask("a", condition="hang"), ask("a"))
    assert (hung["error"], fine) == ("invalid_source", {"file": "a"})


@in_loop
async def test_who_gives_up_leaves_the_others_waiting(ask: Ask, started: Started) -> None:
    """Also who asked first, for whom the process was started."""
    first, second = asyncio.ensure_future(ask("a")), asyncio.ensure_future(ask("b"))
    await until(lambda: bool(started.pids))
    first.cancel()
    assert await second == [{"file": "b"}]
    assert len(started.pids) == 1
    assert first.cancelled()


@pytest.mark.full
@in_loop
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes")
async def test_a_process_that_nobody_asks_ends_and_the_next_question_has_another(
    ask: Ask, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_questions, "IDLE_S", 0.05)
    assert await ask("a") == [{"file": "a"}]
    await until(lambda: not started.alive)
    assert await ask("b") == [{"file": "b"}]
    assert len(started.pids) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes")
def test_a_process_ends_with_the_loop(ask: Ask, started: Started) -> None:
    """As with the server; and another loop has another process."""
    for file in ("a", "b"):
        assert asyncio.run(ask(file)) == [{"file": file}]
        assert started.alive == []
    assert len(started.pids) == 2


@in_loop
async def test_an_interpreter_that_is_none_is_tried_once_for_all_that_wait(
    started: Started,
) -> None:
    asked = Questions(["false"])
    requests = [{"file": str(number), "shown": f"{number}.py"} for number in range(50)]
    answers = await asked.ask(requests)
    assert len(started.pids) == 1
    for number, each in enumerate(answers):
        assert isinstance(each, Refusal)
        assert each.code is ErrorCode.INTERNAL_ERROR
        assert f"false could not be asked about {number}.py" in each.message
