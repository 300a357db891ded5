"""Who is let in by the hub, and what it does with what it does not understand.

Raw clients speak the wire to a real hub.
"""

from __future__ import annotations

import pytest

from cideldill_mcp.processes import listener as hub_module
from cideldill_mcp.tools import functions
from pytest_cideldill.protocol import PROTOCOL, Begin, Refused, Resume, Warned
from pytest_cideldill.protocol.framing import encode_frame
from tests.server.processes import Process, hello_of, in_loop, serving

# --- who is let in ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token", [b"\0" * 32, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"x" * 500]
)
@in_loop
async def test_a_wrong_token_is_hung_up_on_without_a_word(token: bytes) -> None:
    """Checked before anything is parsed; a hello behind it changes nothing."""
    async with serving() as front:
        run = await front.start()
        stranger = await Process.connect(front.invitation())
        await stranger.raw(token + encode_frame({"kind": "hello"}))
        assert await stranger.is_dropped()
        await stranger.close()
        assert not run.is_connected


@pytest.mark.parametrize("said", ["nothing", "half a token", "the token", "half a hello"])
@in_loop
async def test_a_silent_connection_is_dropped(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`GREETING_S` bounds token and hello together."""
    monkeypatch.setattr(hub_module, "GREETING_S", 0.05)
    async with serving() as front:
        await front.start()
        invitation = front.invitation()
        process = await Process.connect(invitation)
        token = bytes.fromhex(invitation["token"])
        hello = b"\0\0\0\x40{"
        sent = {"nothing": b"", "half a token": token[:16], "the token": token}
        await process.raw(sent.get(said, token + hello))
        assert await process.is_dropped()
        await process.close()


@pytest.mark.parametrize("protocol", [PROTOCOL + 1, 0])
@in_loop
async def test_another_protocol_version_is_refused_with_the_way_out(protocol: int) -> None:
    """Handshake with protocol version."""
    async with serving() as front:
        run = await front.start()
        process = await front.connect()
        await process.send(hello_of("r1", "main", protocol))
        refused = await process.next(Refused)
        assert refused.refused_kind == "hello"
        for part in (str(protocol), str(PROTOCOL), "same version in both environments"):
            assert part in refused.reason
        assert await process.is_dropped()
        assert not run.is_connected


@in_loop
async def test_the_first_message_must_be_hello() -> None:
    """Events before it would belong to nobody."""
    async with serving() as front:
        await front.start()
        process = await front.connect()
        await process.send(Warned("early"))
        assert await process.next(Refused) == Refused("hello", "the first message must be hello")
        assert await process.is_dropped()


@in_loop
async def test_a_process_of_a_run_that_is_not_active_is_refused() -> None:
    """A straggler of an ended run, or of another server with the same socket name."""
    async with serving() as front:
        await front.start()
        process = await front.greeted(run_id="r99")
        refused = await process.next(Refused)
        assert "r99" in refused.reason
        assert await process.is_dropped()


# --- what is not understood ---------------------------------------------------------------------


@in_loop
async def test_an_unknown_kind_is_refused_by_name_and_the_process_goes_on() -> None:
    """A command that comes up is as unknown as an invented one."""
    async with serving() as front:
        run = await front.start()
        (process,) = await front.live("main")
        await process.raw(encode_frame({"kind": "teleport"}))
        assert (await process.next(Refused)).refused_kind == "teleport"
        await process.raw(encode_frame({"kind": "warned"}))
        refused = await process.next(Refused)
        assert (refused.refused_kind, "message" in refused.reason) == ("warned", True)
        await process.send(Begin())
        assert (await process.next(Refused)).refused_kind == "begin"
        await process.send(Warned("still here"))
        await front.until(lambda: run.warnings == ["still here"])


@pytest.mark.full
@in_loop
async def test_a_refusal_by_the_process_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older plugin does not know a command: that request times out, named, the rest works."""
    monkeypatch.setattr(functions, "RESUME_S", 0.05)
    async with serving() as front:
        run = await front.start()
        (process,) = await front.live("main")
        id = await process.stop()
        await front.until(lambda: len(run.pauses) == 1)
        resuming = front.call("breakpoint_continue", pause_id=id)
        await process.next(Resume)
        await process.send(Refused("resume", "unknown kind"))
        assert (await resuming)["error"] == "process_busy"
        assert list(run.pauses) == [id]


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\0\0\0\x03abc", b"\0\0\0\x02[]"],
    ids=["oversize", "no JSON", "no object"],
)  # fmt: skip
@in_loop
async def test_a_process_that_sends_garbage_is_hung_up_on(garbage: bytes) -> None:
    """Its pauses are over; the server lives on."""
    async with serving() as front:
        run = await front.start()
        gw0, gw1 = await front.live("gw0", "gw1")
        await gw0.stop()
        await front.until(lambda: len(run.pauses) == 1)
        await gw0.raw(garbage)
        assert await gw0.is_dropped()
        await front.until(lambda: not run.pauses)
        await gw1.stop()
        await front.until(lambda: list(run.pauses) == ["r1.gw1.1"])
