"""A process whose program closed the connection connects again; nothing is lost or said twice."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from cideldill_mcp.processes import listener as hub_module
from pytest_cideldill.protocol import (
    Begin,
    Departed,
    Hello,
    Refused,
    Rejoined,
    ReleaseAll,
    Warned,
    to_plain,
)
from pytest_cideldill.protocol.framing import encode_frame
from tests.server.processes import Front, Process, hello_of, in_loop, serving

ALIVE = replace(hello_of("r1", "main"), pid=os.getpid())


def frames(*messages: Warned) -> bytes:
    return b"".join(encode_frame(to_plain(each)) for each in messages)


async def joined(front: Front) -> tuple[Process, int]:
    """A process that has begun, and how many bytes it has sent."""
    process = await front.connect()
    await process.send(ALIVE)
    await process.until_begin()
    return process, len(encode_frame(to_plain(ALIVE)))


async def again(front: Front, hello: Hello, sent: int, received: int) -> Process:
    process = await front.connect()
    await process.send(Rejoined(hello.run_id, hello.worker, hello.pid, sent, received))
    return process


@pytest.mark.parametrize("cut", [0, 1, 3, 20, 60])
@pytest.mark.parametrize("is_read", [False, True])
@in_loop
async def test_it_goes_on_in_the_middle_of_a_message(cut: int, is_read: bool) -> None:
    async with serving() as front:
        run = await front.start()
        process, sent = await joined(front)
        stream = frames(*(Warned(f"{number}") for number in range(5)))
        await process.raw(stream[: len(stream) // 2 + cut])
        sent += len(stream) // 2 + cut
        target = run.targets["main"]
        target.send(ReleaseAll("first"))
        if is_read:
            assert await process.next(ReleaseAll) == ReleaseAll("first")
        received = process._decoder.received
        await process.close()
        target.send(ReleaseAll("second"))
        other = await again(front, ALIVE, sent, received)
        answer = await other.next(Begin)
        assert answer.received is not None
        at = len(stream) // 2 + cut - (sent - answer.received)
        await other.raw(stream[at:])
        await front.until(lambda: run.warnings == ["0", "1", "2", "3", "4"])
        for reported in ["second"] if is_read else ["first", "second"]:
            assert await other.next(ReleaseAll) == ReleaseAll(reported)
        assert run.targets["main"] is target
        target.send(ReleaseAll("third"))
        assert await other.next(ReleaseAll) == ReleaseAll("third")
        await other.send(Departed())
        await front.until(lambda: run.has_departed)


@in_loop
async def test_it_goes_on_although_somebody_holds_the_old_connection() -> None:
    async with serving() as front:
        run = await front.start()
        process, sent = await joined(front)
        for _ in range(3):
            process = await again(front, ALIVE, sent, process._decoder.received)
            process._decoder.received = 0
            assert (await process.next(Begin)).received == sent
            process._decoder.received = run.targets["main"].send.__self__._sent  # type: ignore[attr-defined]
            await process.raw(more := frames(Warned("still here")))
            sent += len(more)
            await front.until(lambda: bool(run.warnings))
            run.warnings.clear()
        assert list(run.targets) == ["main"]


@pytest.mark.parametrize(("sent", "received"), [(0, 0), (10**6, 10**6), (10**6, -1)])
@in_loop
async def test_one_that_can_not_go_on_is_cut_off(sent: int, received: int) -> None:
    """And the run says so."""
    async with serving() as front:
        run = await front.start()
        process, _ = await joined(front)
        target = run.targets["main"]
        await process.close()
        other = await again(front, ALIVE, sent, received)
        assert isinstance(await other.receive(), Refused)
        await front.until(lambda: not run.targets)
        assert target.is_cut_off
        await front.call("test_stop", mode="kill")


@in_loop
async def test_nobody_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "REJOIN_S", 0.1)
    async with serving() as front:
        run = await front.start()
        process, sent = await joined(front)
        for hello in (replace(ALIVE, worker="gw0"), replace(ALIVE, pid=1), hello_of("r2", "main")):
            other = await again(front, hello, sent, process._decoder.received)
            assert isinstance(await other.receive(), Refused)
        assert list(run.targets) == ["main"]
        await process.close()
        await front.until(lambda: not run.targets)
