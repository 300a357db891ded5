"""`breakpoint_wait` and `pending`: every stop told once, waits bounded, reasons told.

The processes of the tests are fakes.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cideldill_mcp.breakpoints.places import Place
from cideldill_mcp.tools import stops
from pytest_cideldill.protocol import (
    Departed,
    Finished,
    NodeStarted,
    Recorded,
    Resume,
    Resumed,
    Stopped,
)
from tests.server.processes import (
    DEADLINE_S,
    Front,
    Process,
    autopsy_of,
    in_loop,
    pause_of,
    serving,
)

SOON = 20
"""Milliseconds of a wait that is to time out."""


async def running(front: Front, *workers: str, others: bool = True) -> list[Process]:
    """Processes of a run in which, beside what pauses, another test goes on."""
    await front.start()
    processes = await front.live(*workers)
    if others:
        await processes[0].send(NodeStarted("test_other.py::test_busy", 1.0))
        run = front.runs.get("r1")
        await front.until(lambda: bool(run.results.running()))
    return processes


async def stopped(front: Front, process: Process, number: int = 1, **changes: Any) -> str:
    """A pause that the front end knows of."""
    pause = pause_of(process.worker, number, **changes)
    await process.send(Stopped(pause))
    id: str = pause["id"]
    await front.until(lambda: id in front.runs.get("r1").pauses)
    return id


async def turns(count: int = 20) -> None:
    """Let other tasks go on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def as_client(front: Front, client: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """A reply to a client that is not the one on stdio."""

    async def progress(_done: float, _total: float | None, _text: str) -> None:
        return None

    result = await front.toolbox.call(tool, arguments, progress, client)
    body: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    return body


@in_loop
async def test_a_stop_that_came_before_is_reported_at_once_and_only_once() -> None:
    """A stop that is still paused is returned; none is returned twice."""
    async with serving() as front:
        (process,) = await running(front, "main")
        id = await stopped(front, process)
        reported = await front.call("breakpoint_wait")
        pause = front.runs.get("r1").pauses[id]
        assert reported["hit"] is True
        assert (reported["pause_id"], reported["breakpoint_id"], reported["seq"]) == (
            id,
            "fn-1",
            pause["seq"],
        )
        assert (reported["thread_id"], reported["reason"]) == (1, "breakpoint")
        place = {"file": "shop.py", "line": 3, "function": "total", "source": "x"}
        assert reported["location"] == place
        again = await front.call("breakpoint_wait", timeout_ms=SOON)
        assert (again["hit"], again["reason"], again["timeout"]) == (False, "timeout", True)


@in_loop
async def test_stops_are_reported_oldest_first() -> None:
    """An append-only log."""
    async with serving() as front:
        one, two = await running(front, "gw0", "gw1")
        ids = [await stopped(front, two), await stopped(front, one)]
        assert [(await front.call("breakpoint_wait"))["pause_id"] for _ in ids] == ids


@in_loop
async def test_two_waiters_of_one_client_share_the_stops() -> None:
    """Each is told once, to one of them."""
    async with serving() as front:
        (process,) = await running(front, "main")
        waiting = [front.call("breakpoint_wait") for _ in range(2)]
        await turns()
        first = await stopped(front, process)
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result()["pause_id"] for each in done] == [first]
        await turns()
        assert len(left) == 1
        assert not any(each.done() for each in left)
        second = await stopped(front, process, 2)
        assert [(await each)["pause_id"] for each in left] == [second]


@in_loop
async def test_every_client_is_notified_of_every_stop() -> None:
    """A client is a connection; what one was told is news to the other."""
    async with serving() as front:
        (process,) = await running(front, "main")
        id = await stopped(front, process)
        for client in ("stdio", "http-1", "http-2"):
            reported = await as_client(front, client, "breakpoint_wait")
            assert reported["pause_id"] == id
            reported = await as_client(front, client, "breakpoint_wait", timeout_ms=1)
            assert reported["hit"] is False


@in_loop
async def test_the_filter_passes_over_other_breakpoints_without_reporting_them() -> None:
    """`breakpoint_id`."""
    async with serving() as front:
        front.desired.add_function("total", "stop", None)
        front.desired.add_function("tax", "stop", None)
        one, two = await running(front, "gw0", "gw1")
        other = await stopped(front, one)
        waiting = front.call("breakpoint_wait", breakpoint_id="fn-2")
        await turns()
        assert not waiting.done()
        wanted = await stopped(front, two, breakpoint_id="fn-2")
        assert (await waiting)["pause_id"] == wanted
        assert (await front.call("breakpoint_wait"))["pause_id"] == other
        refused = await front.call("breakpoint_wait", breakpoint_id="fn-99")
        assert (refused["error"], refused["breakpoint_id"]) == ("breakpoint_not_found", "fn-99")


@in_loop
async def test_after_asks_for_stops_that_were_reported_already() -> None:
    """Behind that number; the oldest first."""
    async with serving() as front:
        one, two = await running(front, "gw0", "gw1")
        ids = [await stopped(front, one), await stopped(front, two)]
        seqs = [(await front.call("breakpoint_wait"))["seq"] for _ in ids]
        for _ in range(2):
            again = await front.call("breakpoint_wait", after=0)
            assert again["pause_id"] == ids[0]
        assert (await front.call("breakpoint_wait", after=seqs[0]))["pause_id"] == ids[1]
        none = await front.call("breakpoint_wait", after=seqs[1], timeout_ms=SOON)
        assert none["reason"] == "timeout"


@in_loop
async def test_without_a_run_nothing_can_stop() -> None:
    """`not_running`, at once."""
    async with serving() as front:
        reported = await front.call("breakpoint_wait")
        assert (reported["hit"], reported["reason"], reported["timeout"]) == (
            False,
            "not_running",
            False,
        )
        assert (reported["state"], bool(reported["next"]), bool(reported["message"])) == (
            "idle",
            True,
            True,
        )


@in_loop
async def test_with_everything_paused_and_reported_the_answer_comes_at_once() -> None:
    """`paused`: a wait would last for ever."""
    async with serving() as front:
        (process,) = await running(front, "main", others=False)
        await stopped(front, process)
        assert (await front.call("breakpoint_wait"))["hit"] is True
        reported = await front.call("breakpoint_wait")
        assert (reported["reason"], reported["state"], reported["timeout"]) == (
            "paused",
            "paused",
            False,
        )


@pytest.mark.parametrize(("finishes", "reason"), [(True, "finished"), (False, "exited")])
@in_loop
async def test_a_wait_ends_with_the_run(finishes: bool, reason: str) -> None:
    """`finished` in order, `exited` when the process is gone; later waits say the same."""
    async with serving() as front:
        (process,) = await running(front, "main")
        waiting = front.call("breakpoint_wait")
        await turns()
        if finishes:
            await process.send(Finished(0), Departed())
        await process.close()
        run = front.runs.get("r1")
        assert run.child is not None
        run.child.kill()
        reported = await waiting
        assert (reported["hit"], reported["reason"]) == (False, reason)
        assert reported["state"] == ("finished" if finishes else "crashed")
        assert (await front.call("breakpoint_wait"))["reason"] == reason


@in_loop
async def test_a_cancelled_wait_leaves_no_trace() -> None:
    """The stop that came is told to the next one who asks."""
    async with serving() as front:
        (process,) = await running(front, "main")
        waiting = front.call("breakpoint_wait")
        await turns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        id = await stopped(front, process)
        assert (await front.call("breakpoint_wait"))["pause_id"] == id


@in_loop
async def test_a_long_wait_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds waited of seconds allowed, rising, and a word."""
    monkeypatch.setattr(stops, "PROGRESS_S", 0.005)
    reported: list[tuple[float, float | None, str]] = []
    is_enough = asyncio.Event()

    async def progress(done: float, total: float | None, text: str) -> None:
        reported.append((done, total, text))
        if len(reported) >= 2:
            is_enough.set()

    async with serving() as front:
        (process,) = await running(front, "main")
        arguments = {"timeout_ms": 9_000}
        wait = front.toolbox.call("breakpoint_wait", arguments, progress, "client")
        waiting = asyncio.create_task(wait)
        await asyncio.wait_for(is_enough.wait(), DEADLINE_S)
        await stopped(front, process)
        await waiting
    assert [each[0] for each in reported] == sorted(each[0] for each in reported)
    assert {each[1:] for each in reported} == {(9.0, "no stop yet")}


@in_loop
async def test_the_autopsy_comes_unless_it_is_not_wanted() -> None:
    """`include_autopsy`, bounded by the reply's own size."""
    async with serving() as front:
        (process,) = await running(front, "main")
        await stopped(front, process, autopsy=autopsy_of(notes=["x" * 9_000]))
        reported = await front.call("breakpoint_wait", after=0)
        assert 2_000 < len(json.dumps(reported["autopsy"], separators=(",", ":"))) <= 6_010
        assert "autopsy" not in await front.call("breakpoint_wait", after=0, include_autopsy=False)


# --- tracepoints --------------------------------------------------------------------------------


def hits(id: str, count: int) -> Recorded:
    """Messages of a tracepoint."""
    place = {"file": "shop.py", "line": 3, "function": "total"}
    row = {"type": "hit", "ts": 1.0, "nodeid": "t", "thread": 1, "breakpoint_id": id}
    reported = row | {"location": place, "hit_count": 1, "message": id}
    return Recorded([dict(reported) for _ in range(count)])


def tracepoint(front: Front) -> str:
    """One on a line that nothing is known of."""
    place = Place("/shop.py", "shop.py", 3, "total", [], "x")
    return front.desired.add_line(place, replace(place.spec, message="x")).id


@pytest.mark.full
@pytest.mark.parametrize("count", [3_000, 30_000])
def test_a_hit_among_thousands_of_another_tracepoint_is_found(count: int) -> None:
    """In memory, and when it left that; whether it came before the wait or during it."""

    @in_loop
    async def run() -> None:
        async with serving() as front:
            (process,) = await running(front, "main")
            rare, hot = tracepoint(front), tracepoint(front)
            waiting = front.call("breakpoint_wait", breakpoint_id=rare)
            await turns()
            await process.send(hits(hot, 10), hits(rare, 1), hits(hot, count))
            await front.until(lambda: front.runs.log.last_seq > count)
            for reported in (
                await waiting,
                await front.call("breakpoint_wait", breakpoint_id=rare, after=0),
            ):
                assert (reported["reason"], reported["message"]) == ("tracepoint", rare)

    run()


def test_progress_is_reported_although_other_tracepoints_are_hit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """News that do not decide a wait must not put it off."""
    monkeypatch.setattr(stops, "PROGRESS_S", 0.02)
    reported = asyncio.Event()

    async def progress(_done: float, _total: float | None, _text: str) -> None:
        reported.set()

    @in_loop
    async def run() -> None:
        async with serving() as front:
            (process,) = await running(front, "main")
            wanted, hot = tracepoint(front), tracepoint(front)
            arguments = {"timeout_ms": 60_000, "breakpoint_id": wanted}
            waiting = asyncio.ensure_future(
                front.toolbox.call("breakpoint_wait", arguments, progress, "client")
            )
            while not reported.is_set():
                await process.send(hits(hot, 1))
                await turns(1)
            waiting.cancel()

    run()


# --- pending ------------------------------------------------------------------------------------


@in_loop
async def test_news_rides_along_with_any_reply_and_goes_once_it_was_reported() -> None:
    """`pending`, whose `after` leads to the stops it counts."""
    async with serving() as front:
        one, two = await running(front, "gw0", "gw1")
        ids = [await stopped(front, one), await stopped(front, two)]
        first = front.runs.get("r1").pauses[ids[0]]["seq"]
        pending = {"stops": 2, "hits": 0, "after": first - 1}
        for tool in ("debug_state", "timeline_get", "breakpoint_list_breakpoints"):
            assert (await front.call(tool))["pending"] == pending
        reported = await front.call("breakpoint_wait", after=first - 1)
        assert reported["pause_id"] == ids[0]
        assert reported["pending"]["stops"] == 1
        listed = await front.call("breakpoint_list_paused")
        assert len(listed["paused"]) == 2
        assert "pending" not in listed
        assert "pending" not in await front.call("debug_state")


@in_loop
async def test_a_stop_that_was_resumed_is_no_news() -> None:
    """Only present pauses are pending."""
    async with serving() as front:
        (process,) = await running(front, "main")
        id = await stopped(front, process)
        resuming = front.call("breakpoint_continue", pause_id=id)
        await process.answer(Resume, action="continue")
        await resuming
        await process.send(Resumed(id, "continue", "client"))
        await front.until(lambda: not front.runs.get("r1").pauses)
        assert "pending" not in await front.call("debug_state")


@in_loop
async def test_a_stop_that_was_cut_off_a_reply_is_still_news() -> None:
    """It counts as delivered by a reply that contains it, and by no other."""
    async with serving() as front:
        (process,) = await running(front, "main")
        ids = [await stopped(front, process, number) for number in range(1, 13)]
        reply = await front.call("breakpoint_list_paused", max_chars=3_000)
        shown = [pause["id"] for pause in reply["paused"]]
        assert 0 < len(shown) < len(ids)
        assert reply["pending"]["stops"] == len(ids) - len(shown)
        reported = [await front.call("breakpoint_wait") for _ in range(len(ids) - len(shown))]
        assert [each["pause_id"] for each in reported] == [id for id in ids if id not in shown]
        assert "pending" not in reported[-1]
