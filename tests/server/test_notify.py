"""What is pushed to clients: parameters, order, several clients, one that doesn't read."""

from __future__ import annotations

import asyncio
import json
import random
import re
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.clients import outbox
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT
from cideldill_mcp.clients.json_lines import HitLines, line_of
from cideldill_mcp.clients.outbox import (
    CALL_COMPLETED,
    EXECUTION_PAUSED,
    EXECUTION_RESUMED,
    Mailbox,
    Notifications,
    Notifier,
)
from cideldill_mcp.events.entries import LoggedRows
from cideldill_mcp.events.log import EventLog
from pytest_cideldill.protocol import Recorded, columns
from tests.server.processes import DEADLINE_S, in_loop, pause_of

ROOT = Path(__file__).resolve().parent.parent.parent

AT_A_LINE: dict[str, Any] = {
    "call_data": None,
    "phase": "line",
    "location": {"function": "Cart.total"},
}


def said(lines: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The method and the parameters of each line."""
    assert lines.endswith(b"\n")
    messages = [json.loads(line) for line in lines.split(b"\n")[:-1]]
    assert {(len(message), message["jsonrpc"]) for message in messages} == {(3, "2.0")}
    return [(message["method"], message["params"]) for message in messages]


class Client:
    """Takes what is pushed: `hits` are the hits of tracepoints, `received` all others."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.hits: list[tuple[str, dict[str, Any]]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.error: Exception | None = None
        self._news = asyncio.Condition()

    async def send(self, lines: bytes) -> None:
        if self.error is not None:
            raise self.error
        await self.reads.wait()
        async with self._news:
            for method, params in said(lines):
                (self.hits if method == BREAKPOINT_HIT else self.received).append((method, params))
            self._news.notify_all()

    async def until(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        """What came, once it is so much."""
        async with self._news:
            enough = self._news.wait_for(lambda: len(self.received) >= count)
            await asyncio.wait_for(enough, DEADLINE_S)
        return self.received


class Desk:
    """A log, the pauses of one run, and clients that are served."""

    def __init__(self) -> None:
        self.log = EventLog()
        self.pauses: dict[str, dict[str, Any]] = {}
        self.notifier = Notifier(self.log, self._pause_of)
        self.tasks: list[asyncio.Task[None]] = []

    async def client(self, name: str = "stdio") -> Client:
        client = Client()
        task = asyncio.create_task(self.notifier.serve(name, client.send))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return client

    def stop(self, number: int = 1, **changes: Any) -> str:
        pause = pause_of("gw0", number, **changes)
        id: str = pause["id"]
        self.pauses[id] = pause
        self._append("stop", pause_id=id, nodeid=pause["nodeid"], thread=1)
        return id

    def resume(self, id: str, **values: Any) -> None:
        self.pauses.pop(id)
        self._append("resumed", pause_id=id, **values)

    def call(self, **values: Any) -> None:
        self._append("call", **{"function": "shop.Cart.total", "status": "success"} | values)

    def _append(self, type: str, **values: Any) -> None:
        self.log.append(type, run_id="r1", worker="gw0", **values)

    def _pause_of(self, run_id: str, pause_id: str) -> dict[str, Any] | None:
        assert run_id == "r1"
        return self.pauses.get(pause_id)


@asynccontextmanager
async def serving() -> AsyncIterator[Desk]:
    desk = Desk()
    try:
        yield desk
    finally:
        for task in desk.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def seqs(received: list[tuple[str, dict[str, Any]]]) -> list[int]:
    return [params["seq"] for _, params in received]


# --- what is told -------------------------------------------------------------------------------


@in_loop
async def test_a_stop_is_shown_as_a_pause() -> None:
    """The parameters are taken from the pause."""
    async with serving() as desk:
        client = await desk.client()
        desk.stop()
        (reported,) = await client.until(1)
    params = {
        "pause_id": "r1.gw0.1",
        "method_name": "total",
        "pause_reason": "breakpoint",
        "paused_at": 1.0,
        "phase": "before",
        "nodeid": "test_gw0.py::test_x",
        "worker": "gw0",
        "seq": 1,
    }
    assert reported == (EXECUTION_PAUSED, params)


@in_loop
async def test_a_pause_outside_a_call_names_the_function_it_is_in() -> None:
    """All notifications include `method_name`."""
    async with serving() as desk:
        client = await desk.client()
        desk.resume(desk.stop(**AT_A_LINE), action="continue", by="client")
        reported = await client.until(2)
    assert [params["method_name"] for _, params in reported] == ["total", "total"]


@in_loop
async def test_a_resume_is_reported_with_its_action_and_who_did_it() -> None:
    """The pause itself is gone by then."""
    for by in ("client", "lease", "stop"):
        async with serving() as desk:
            client = await desk.client()
            desk.resume(desk.stop(), action="skip", by=by)
            _, reported = await client.until(2)
        params = {"pause_id": "r1.gw0.1", "method_name": "total", "action": "skip", "by": by}
        assert reported == (EXECUTION_RESUMED, params | {"seq": 2})


@in_loop
async def test_what_is_not_known_is_null() -> None:
    """A thread that went with its process took no action; a pause that nobody was told of."""
    async with serving() as desk:
        client = await desk.client()
        desk.resume(desk.stop(), by="disconnect")
        desk.log.append("stop", run_id="r1", pause_id="r1.main.7")
        (_, (_, gone), (_, unknown)) = await client.until(3)
    assert (gone["action"], gone["by"]) == (None, "disconnect")
    assert {name for name, value in unknown.items() if value is not None} == {"pause_id", "seq"}
    assert len(unknown) == 8


@in_loop
async def test_a_completed_call_is_reported_and_one_that_runs_is_not() -> None:
    async with serving() as desk:
        client = await desk.client()
        desk.call(call_id="c1", method_name="rate", qualified_name="shop.rate")
        desk.call(call_id="c2", method_name="rate", status="running")
        desk.call(status="exception")
        reported = await client.until(2)
    assert reported == [
        (
            CALL_COMPLETED,
            {"call_id": "c1", "method_name": "rate", "status": "success", "seq": 1},
        ),
        (
            CALL_COMPLETED,
            {"call_id": None, "method_name": "total", "status": "exception", "seq": 3},
        ),
    ]


@in_loop
async def test_other_events_are_not_pushed() -> None:
    async with serving() as desk:
        client = await desk.client()
        for type in ("run_started", "collected", "test_outcome", "failure", "worker_up"):
            desk.log.append(type, run_id="r1")
        desk.call()
        assert seqs(await client.until(1)) == [6]
        assert client.hits == []


@in_loop
async def test_what_no_client_can_read_is_made_readable() -> None:
    """A lone surrogate would end the connection."""
    async with serving() as desk:
        client = await desk.client()
        desk.call(method_name="name\udce9", call_id=float("nan"))
        ((_, params),) = await client.until(1)
    assert (params["method_name"], params["call_id"]) == ("name\\udce9", "NaN")


def test_the_page_names_what_is_reported() -> None:
    """`docs/resources.md`, against the messages themselves."""
    page = (ROOT / "docs" / "resources.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+/[\w/]+)` \| [^|]+ \| (.*) \|$", page, re.MULTILINE)
    shown = {
        name: re.findall(r"`(\w+)`", re.sub(r" \([^)]*\)", "", reported)) for name, reported in rows
    }

    @in_loop
    async def run() -> None:
        async with serving() as desk:
            client = await desk.client()
            desk.resume(desk.stop(), action="continue", by="client")
            desk.call()
            reported = [*await client.until(3), *client.hits]
        assert {method: list(params) for method, params in reported} == shown

    run()


# --- hits ---------------------------------------------------------------------------------------


def hit(desk: Desk, number: int) -> None:
    """A tracepoint told something."""
    desk.log.append(
        "hit",
        ts=1_700_000_000.25,
        run_id="r1",
        worker="gw0",
        nodeid="test_it.py::test",
        thread=7,
        breakpoint_id="tp-2",
        location={"file": "till.py", "line": 5, "function": "Cart.total"},
        hit_count=number,
        message=f"total={number}",
    )


@in_loop
async def test_a_hit_is_reported_with_its_message() -> None:
    async with serving() as desk:
        client = await desk.client()
        hit(desk, 3)
        desk.call()
        await client.until(1)
        assert client.hits == [
            (
                "debugger/breakpointHit",
                {
                    "breakpointId": "tp-2",
                    "type": "tracepoint",
                    "location": {
                        "file": "till.py",
                        "line": 5,
                        "column": None,
                        "functionName": "Cart.total",
                        "moduleName": None,
                    },
                    "threadId": 7,
                    "timestamp": "2023-11-14T22:13:20.250Z",
                    "hitCount": 3,
                    "logMessage": "total=3",
                    "exceptionInfo": None,
                    "pauseId": None,
                    "nodeid": "test_it.py::test",
                    "worker": "gw0",
                    "seq": 1,
                },
            )
        ]


@in_loop
async def test_a_stop_at_an_exception_is_reported_with_it() -> None:
    """`exceptionInfo`; the stack is text, innermost first."""
    frames = [{"location": {"file": "a.py", "line": 3}, "function": "f"}]
    async with serving() as desk:
        client = await desk.client()
        exception = {"type": "KeyError", "message": "'x'"}
        desk.stop(exception=exception, phase="post_mortem", autopsy={"frames": frames})
        await client.until(1)
        ((_, reported),) = client.hits
        assert (reported["type"], reported["pauseId"]) == ("blocking", "r1.gw0.1")
        assert reported["exceptionInfo"] == {
            **exception,
            "isFirstChance": False,
            "stackTrace": "a.py:3 in f",
        }


def test_hits_and_calls_in_turn_are_coalesced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are mixed, no more wait than is allowed, and none is left out uncounted."""
    monkeypatch.setattr(outbox, "MAX_WAITING", 4)

    @in_loop
    async def run() -> None:
        async with serving() as desk:
            client = await desk.client()
            for number in range(1, 51):
                hit(desk, number)
                desk.call()
            await client.until(2)
            reported = [params for _, params in client.hits]
            assert len(reported) == 2
            assert sum(1 + params.get("coalesced", 0) for params in reported) == 50
            assert reported[-1]["hitCount"] == 50

    run()


# --- clients ------------------------------------------------------------------------------------


@in_loop
async def test_every_client_is_sent_everything_in_the_order_of_the_log() -> None:
    """Order = `seq`."""
    async with serving() as desk:
        clients = [await desk.client(name) for name in ("stdio", "http-1", "http-2")]
        for number in range(1, 6):
            desk.call()
            desk.resume(desk.stop(number), action="continue", by="client")
        for client in clients:
            assert seqs(await client.until(15)) == list(range(1, 16))


@in_loop
async def test_without_clients_nothing_breaks_and_a_later_one_learns_the_rest() -> None:
    async with serving() as desk:
        id = desk.stop()
        desk.call()
        client = await desk.client()
        desk.resume(id, action="continue", by="lease")
        ((_, params),) = await client.until(1)
        assert (params["method_name"], params["seq"]) == ("total", 3)


@in_loop
async def test_nothing_is_made_of_rows_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are pushes only where a client is served, and encoded once for all of these."""
    made: list[int] = []
    of_rows = HitLines.of_rows

    def noted(lines: HitLines, rows: LoggedRows) -> list[bytes]:
        made.append(rows.first)
        return of_rows(lines, rows)

    monkeypatch.setattr(HitLines, "of_rows", noted)
    hits = [{"type": "hit", "ts": 1.0, "hit_count": n, "message": ""} for n in range(3)]
    async with serving() as desk:
        desk.log.extend(Recorded(hits), run_id="r1", worker="gw0")
        await asyncio.sleep(0)
        assert made == []
        clients = [await desk.client(name) for name in ("one", "two")]
        desk.log.extend(Recorded(hits), run_id="r1", worker="gw0")
        desk.stop()
        for each in clients:
            await each.until(1)
            assert seqs(each.hits)[:3] == [4, 5, 6]
        assert made == [4]


@in_loop
async def test_a_client_that_left_is_sent_nothing_more() -> None:
    async with serving() as desk:
        left, stayed = await desk.client("a"), await desk.client("b")
        desk.tasks[0].cancel()
        await asyncio.gather(desk.tasks[0], return_exceptions=True)
        desk.call()
        await stayed.until(1)
        assert left.received == []
        came_back = await desk.client("a")
        desk.call()
        assert seqs(await came_back.until(1)) == [2]


@in_loop
async def test_a_client_that_says_twice_that_it_is_there_is_notified_once() -> None:
    async with serving() as desk:
        first, again = await desk.client("a"), await desk.client("a")
        desk.call()
        desk.call()
        assert seqs(await first.until(2)) == [1, 2]
        assert again.received == []


def test_a_client_that_cannot_be_notified_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are told, and it is reported."""

    @in_loop
    async def run() -> None:
        async with serving() as desk:
            broken, whole = await desk.client("a"), await desk.client("b")
            broken.error = RuntimeError("no way out")
            for _ in range(3):
                desk.call()
            assert seqs(await whole.until(3)) == [1, 2, 3]

    run()
    assert capsys.readouterr().err.count("RuntimeError: no way out") == 1


# --- a client that doesn't read -----------------------------------------------------------------


@in_loop
async def test_a_client_that_does_not_read_holds_up_nobody() -> None:
    """Notifications never block the test; `append` returns, others are told."""
    async with serving() as desk:
        deaf, other = await desk.client("a"), await desk.client("b")
        deaf.reads.clear()
        for _ in range(100):
            desk.call()
        await other.until(100)
        assert deaf.received == []
        deaf.reads.set()
        assert seqs(await deaf.until(100)) == list(range(1, 101))


def test_calls_are_coalesced_only_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """`"coalesced": n` on the next one; every call is told or counted."""
    monkeypatch.setattr(outbox, "MAX_WAITING", 4)

    @in_loop
    async def run() -> None:
        async with serving() as desk:
            client = await desk.client()
            for _ in range(10):
                desk.call()
            reported = await client.until(4)
            desk.call()
            reported = await client.until(5)
        assert [(each["seq"], each.get("coalesced")) for _, each in reported] == [
            (1, None), (2, None), (3, None), (10, 6), (11, None),
        ]  # fmt: skip

    run()


def test_stops_are_never_dropped_however_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops are never dropped; order = `seq` all the same."""
    monkeypatch.setattr(outbox, "MAX_WAITING", 3)

    @in_loop
    async def run() -> None:
        async with serving() as desk:
            client = await desk.client()
            calls = 0
            for number in range(1, 21):
                for _ in range(5):
                    desk.call()
                    calls += 1
                desk.resume(desk.stop(number), action="continue", by="client")
            reported = await client.until(60)
        numbers = seqs(reported)
        assert numbers == sorted(numbers)
        methods = [method for method, _ in reported]
        assert (methods.count(EXECUTION_PAUSED), methods.count(EXECUTION_RESUMED)) == (20, 20)
        of_calls = [params for method, params in reported if method == CALL_COMPLETED]
        assert sum(1 + params.get("coalesced", 0) for params in of_calls) == calls

    run()


def test_what_is_coalesced_for_one_is_shown_in_full_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each client has a queue of its own."""
    monkeypatch.setattr(outbox, "MAX_WAITING", 4)

    @in_loop
    async def run() -> None:
        async with serving() as desk:
            deaf, other = await desk.client("a"), await desk.client("b")
            deaf.reads.clear()
            for number in range(1, 11):
                desk.call()
                await other.until(number)
            deaf.reads.set()
            reported = await deaf.until(5)
        assert [(each["seq"], each.get("coalesced")) for _, each in reported] == [
            (1, None), (2, None), (3, None), (4, None), (10, 5),
        ]  # fmt: skip
        assert all("coalesced" not in each for _, each in other.received)

    run()


# --- many at once -------------------------------------------------------------------------------

HIT, CALL, STOP = "hit", "call", None


def notifications(method: str | None, *numbers: int) -> Notifications:
    """One for each number; those of a stop may not be merged."""

    def encode() -> list[bytes]:
        return [line_of(method or "stop", {"seq": number}) for number in numbers]

    return Notifications(len(numbers), encode, method=method)


def waiting(mailbox: Mailbox) -> list[tuple[str, dict[str, Any]]]:
    """What waits; it is taken out."""
    found = []
    while mailbox._queue:
        found += said(mailbox._take())
    return found


@pytest.mark.full
@pytest.mark.quick("0-100")
@pytest.mark.parametrize(("first", "end"), [(0, 100), (100, 300)])
def test_many_at_once_are_merged_as_one_by_one(
    first: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each is sent or counted, in order, to clients that read now and then."""
    for seed in range(first, end):
        merge(seed, monkeypatch)


def merge(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(outbox, "MAX_WAITING", rng.randrange(1, 9))
    monkeypatch.setattr(outbox, "CHUNK_BYTES", rng.choice((1, 200, 10_000)))
    at_once, one_by_one, other = Mailbox(), Mailbox(), Mailbox()
    found: tuple[list[Any], ...] = ([], [], [])
    methods: dict[int, str | None] = {}
    for _ in range(rng.randrange(1, 30)):
        method, first = rng.choice((HIT, HIT, CALL, STOP)), len(methods) + 1
        numbers = range(first, first + (rng.randrange(1, 12) if method else 1))
        methods.update(dict.fromkeys(numbers, method))
        messages = notifications(method, *numbers)
        at_once.put(messages)
        other.put(messages)
        for number in numbers:
            one_by_one.put(notifications(method, number))
        if rng.random() < 0.2:
            found[0].extend(waiting(at_once))
            found[1].extend(waiting(one_by_one))
        if rng.random() < 0.3:
            found[2].extend(waiting(other))
    for received, mailbox in zip(found, (at_once, one_by_one, other), strict=True):
        received.extend(waiting(mailbox))
        assert mailbox._count == 0, seed
        assert seqs(received) == sorted(seqs(received)), seed
        for method in (HIT, CALL, STOP):
            sent = [params for name, params in received if name == (method or "stop")]
            stood_for = sum(1 + params.get("coalesced", 0) for params in sent)
            assert stood_for == list(methods.values()).count(method), seed
    assert found[0] == found[1], seed


TEXTS = ("plain", "é…😀", "lone \udce9", 'a "quoted" \\ \n', "running")


def recorded(chance: random.Random, number: int) -> tuple[Recorded, list[dict[str, Any]]]:
    """A message of a process, and its rows: of one tracepoint, of several, also beside calls."""
    kinds = chance.choice((["tp-1"], ["call"], ["tp-1", "tp-2"], ["tp-1", "call", "raise"]))
    rows: list[dict[str, Any]] = []
    for n in range(number, number + chance.choice((1, 3, 40))):
        kind = chance.choice(kinds)
        row = {"ts": 1.7e9 + n / 1_000, "nodeid": "t::é", "thread": 7}
        if kind in ("call", "raise"):
            status = chance.choice(("success", "exception", *(["running"] * (len(kinds) > 1))))
            row |= {"type": kind, "call_id": f"c{n}", "function": "shop.Cart.total"}
            rows.append(row | {"status": status})
        else:
            place = {"file": "till.py", "line": 5, "function": "Cart.total", "module": "till"}
            row |= {"type": "hit", "breakpoint_id": kind, "location": place, "hit_count": n}
            rows.append(row | {"message": chance.choice(TEXTS)})
    parts: dict[str, list[dict[str, Any]]] = {"": []}
    order = []
    for row in rows:
        key = str(row.get("breakpoint_id") or chance.choice(("", row["type"])))
        key = "" if key == "raise" else key
        parts.setdefault(key, []).append(row)
        order.append(list(parts).index(key))
    plain, *others = parts.values()
    series = [in_series(each) for each in others]
    packed = columns.order(order) if plain or len(series) > 1 else ""
    return Recorded(plain, series, packed), rows


def in_series(rows: list[dict[str, Any]]) -> columns.Series:
    """As a process packs them."""
    alike = [name for name in rows[0] if all(row[name] == rows[0][name] for row in rows)]
    alike = [name for name in alike if name not in ("ts", "hit_count", "message", "status")]
    varying = {name: [row[name] for row in rows] for name in rows[0] if name not in alike}
    packed: dict[str, columns.Column] = dict(varying)
    packed["ts"] = columns.floats([ts - 1.7e9 for ts in varying["ts"]], 1.7e9)
    for name, pack in (("message", columns.texts), ("hit_count", columns.integers)):
        if name in varying:
            packed[name] = pack(varying[name])
    common = {name: rows[0][name] for name in alike}
    return {"count": len(rows), "common": common, "columns": packed}


@pytest.mark.full
@pytest.mark.quick("0-3")
@pytest.mark.parametrize(("first", "end"), [(0, 3), (3, 40)])
def test_of_rows_the_same_is_pushed_as_of_events(first: int, end: int) -> None:
    """In the same order, whatever series they came in."""

    @in_loop
    async def run(seed: int) -> None:
        chance = random.Random(seed)
        async with serving() as rowwise, serving() as eventwise:
            found: tuple[list[Any], list[Any]] = ([], [])
            for desk, received in zip((rowwise, eventwise), found, strict=True):

                async def send(lines: bytes, received: list[Any] = received) -> None:
                    received.extend(said(lines))

                desk.tasks.append(asyncio.create_task(desk.notifier.serve("stdio", send)))
            await asyncio.sleep(0)
            pushed = 0
            for _ in range(20):
                message, rows = recorded(chance, eventwise.log.last_seq + 1)
                rowwise.log.extend(message, run_id="r1", worker="main")
                for row in rows:
                    eventwise.log.append(**row, run_id="r1", worker="main")
                    pushed += row["type"] == "hit" or row["type"] + row["status"] in (
                        "callsuccess",
                        "callexception",
                    )
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert len(found[1]) == pushed, seed
            assert found[0] == found[1], seed

    for seed in range(first, end):
        run(seed)


def test_rows_that_were_left_out_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never reads keeps what it is going to be sent, not all that there was."""
    monkeypatch.setattr(outbox, "MAX_WAITING", 4)

    class Rows:
        def lines(self) -> list[bytes]:
            return [b"{}\n"] * 10

    mailbox, alive = Mailbox(), []
    for _ in range(100):
        rows = Rows()
        alive.append(weakref.ref(rows))
        mailbox.put(Notifications(10, rows.lines, method=HIT))
        del rows
    assert sum(ref() is not None for ref in alive) == 2


@pytest.mark.full
@in_loop
async def test_replies_have_their_turn_between_notifications_that_are_sent_together() -> None:
    """And many are sent at once."""
    async with serving() as desk:
        chunks: list[bytes] = []

        async def send(lines: bytes) -> None:
            chunks.append(lines)
            await asyncio.sleep(0)

        desk.tasks.append(asyncio.create_task(desk.notifier.serve("stdio", send)))
        await asyncio.sleep(0)
        for number in range(5_000):
            hit(desk, number)
        while sum(chunk.count(b"\n") for chunk in chunks) < 5_000:
            await asyncio.sleep(0)
        assert 5 < len(chunks) < 50
        assert max(map(len, chunks)) < 2 * outbox.CHUNK_BYTES
        reported = [params["hitCount"] for chunk in chunks for _, params in said(chunk)]
        assert reported == list(range(5_000))
