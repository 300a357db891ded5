"""Whatever comes in is answered or refused, by a server that goes on serving everybody else.

Random and hostile messages, as bytes through every transport, beside a client that keeps calling;
a test of the user stays paused. Facts (MCP SDK): what ends a connection, and which errors leak.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.reply_table import checked
from tests.together.driver import Agent
from tests.together.frontend import DEADLINE_S, FrontEnd
from tests.together.hostile import PAUSE, Monster, answers_owed, bursts
from tests.together.test_intruders import write_failing
from tests.together.web import Answer, Place, check_reply, next_event, over_http, stateless, web_end

LATEST_S = 5.0
"""No call of the other client takes longer, on a machine under load."""


class Onlooker:
    """A client that keeps calling; what it saw."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self.calls = 0
        self.slowest_s = 0.0
        self.failure: Exception | None = None

    def _call(self) -> None:
        while not self._is_over.is_set():
            began = time.monotonic()
            try:
                paused = self._agent.call("debug_state")["paused"]
                assert paused == [PAUSE]
            except Exception as error:  # noqa: BLE001 - told when it is over
                self.failure = error
                return
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.calls += 1
            self._is_over.wait(0.02)

    @contextmanager
    def looking_on(self) -> Iterator[None]:
        """Call all the while; afterwards nothing may have gone wrong."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join(DEADLINE_S)
        print(f"{self.calls} calls of the other client, the slowest {self.slowest_s:.2f} s")
        assert self.failure is None, self.failure
        assert self.slowest_s < LATEST_S
        assert self.calls > 20


class Scene:
    """A front end on stdio and HTTP with a paused test, and the ways to send it bytes."""

    def __init__(self, end: FrontEnd, place: Place, stack: ExitStack) -> None:
        self.end = end
        self.place = place
        end.initialize()
        assert end.call("test_run")["stops"][0]["pause_id"] == PAUSE
        self._session = place.session()
        self._events, self._sse_path = stack.enter_context(place.sse())
        self._pings = 0
        self.ways: dict[str, Callable[[list[bytes]], None]] = {
            "stdio": self.over_stdio,
            "sse": self.over_sse,
            "session": self.over_session,
            "stateless": self.over_stateless,
            "socket": self.over_socket,
        }

    def over_stdio(self, burst: list[bytes]) -> None:
        """One line each."""
        lines = [data.replace(b"\n", b" ") for data in burst]
        self.end.send_line(b"\n".join([*lines, self._ping()]))
        self._settle(self.end.receive, lines)
        self.end.written = b""

    def over_sse(self, burst: list[bytes]) -> None:
        """The body of a POST each; the answers come over the one stream."""
        taken = []
        for data in burst:
            status = self.place.post(data, self._sse_path).status
            assert status in (202, 400, 413)
            taken += [data] if status == 202 else []
        self.place.post(self._ping(), self._sse_path)
        self._settle(lambda: next_event(self._events), taken)

    def _ping(self) -> bytes:
        self._pings += 1
        return json.dumps(
            {"jsonrpc": "2.0", "id": f"ping {self._pings}", "method": "ping"}
        ).encode()

    def _settle(self, receive: Callable[[], dict[str, Any]], burst: list[bytes]) -> None:
        """Read until the newest ping and as many others as there must be are answered."""
        is_alive, answers = False, 0
        while not is_alive or answers < answers_owed(burst):
            message = receive()
            if "method" in message:
                continue
            if message.get("id") == f"ping {self._pings}":
                is_alive = True
            else:
                answers += 1
                check(json.dumps(message).encode(), message)
                check_call(burst, message)

    def over_session(self, burst: list[bytes]) -> None:
        """The body of a POST each, in a session of Streamable HTTP; the last one is awaited."""
        with ExitStack() as stack:
            for data in burst[:-1]:
                stack.enter_context(self.place.under_way(data, headers=self._session))
            answer = self.place.post(burst[-1], headers=self._session)
        # The library takes two with one id for one, and the stream of one may end without a word.
        assert len(burst) > 1 or answer.status != 200 or answer.message
        check_answer(answer, burst)

    def over_stateless(self, burst: list[bytes]) -> None:
        """The same as 2026-07-28 has it, headers and envelope as good as they can be."""
        with ExitStack() as stack:
            for data in burst[:-1]:
                body, headers = wrapped(data)
                stack.enter_context(self.place.under_way(body, headers=headers))
            body, headers = wrapped(burst[-1])
            check_answer(self.place.post(body, headers=headers), burst)

    def over_socket(self, burst: list[bytes]) -> None:
        """Instead of a request, of the name of a header, of its value, of chunks of a body."""
        token = f"Authorization: Bearer {self.place.token}\r\n".encode()
        start = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + token
        heads = (b"", start, start + b"X: ", start + b"Transfer-Encoding: chunked\r\n\r\n")
        for data in burst:
            head = heads[len(data) % len(heads)]
            reported = self._spoken(head + data + b"\r\n\r\n")
            assert not reported or reported.startswith(b"HTTP/1.1 "), reported
            assert not reported.startswith(b"HTTP/1.1 5"), reported
            check(reported, {})

    def _spoken(self, data: bytes) -> bytes:
        """What comes back until the server hangs up."""
        with socket.create_connection(("127.0.0.1", self.place.port), DEADLINE_S) as client:
            reported = b""
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while more := client.recv(65536):
                    reported += more
            except OSError:  # it has heard enough
                pass
            return reported


def wrapped(data: bytes) -> tuple[bytes, dict[str, str]]:
    """Bytes as a request of 2026-07-28, as far as they are one, and its headers."""
    try:
        message, headers = stateless(json.loads(data))
        for value in headers.values():
            assert value.isascii()
            assert value.isprintable()
        return json.dumps(message).encode(), headers
    except (ValueError, TypeError, AttributeError, KeyError, AssertionError, RecursionError):
        return data, {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}


def check_answer(answer: Answer, burst: list[bytes]) -> None:
    """Of a POST: answered, or refused with a status that blames the sender."""
    assert 200 <= answer.status < 500, answer
    reported = answer.message if answer.status == 200 else {}
    check(answer.body, reported)
    check_call(burst, reported)


def check_call(burst: list[bytes], answer: dict[str, Any]) -> None:
    """A tool that ran or refused replies as `tests/reply_table.py` has it."""
    if len(burst) != 1 or "result" not in answer:
        return  # it is not sure which one it answers
    try:
        message = json.loads(burst[0])
    except (ValueError, RecursionError):
        return  # it answers an earlier one
    match message:
        case {"id": id, "method": "tools/call", "params": {"arguments": dict()}} as call:
            if id == answer["id"]:
                check_reply(call, answer)


def check(body: bytes, message: dict[str, Any]) -> None:
    """It tells nothing of our insides and is no bug by its own word."""
    assert b"Traceback (most recent call last)" not in body
    assert b"is a bug of pytest-cideldill" not in body, body
    assert message.get("error", {}).get("code") not in (0, -32603), message
    if (result := message.get("result", {})).get("isError"):
        checked("a tool", "of those", result["content"][0]["text"], is_error=True)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    project = write_failing(tmp_path_factory.mktemp("scene"))
    with ExitStack() as stack:
        end, place = stack.enter_context(web_end(project, "--cideldill-mcp"))
        yield Scene(end, place, stack)
        with over_http(place, "legacy") as agent:  # on stdio an answer may still be on its way
            assert agent.call("debug_state")["paused"] == [PAUSE]


def bombard(scene: Scene, rounds: int) -> None:
    """So many times send some, each time some way in."""

    @settings(
        max_examples=rounds,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # to shrink one that is never answered takes an hour
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(sorted(scene.ways)), bursts)
    def send(way: str, burst: list[bytes | Monster]) -> None:
        scene.ways[way]([bytes(each) for each in burst])

    with over_http(scene.place, "legacy") as agent, Onlooker(agent).looking_on():
        send()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_every_message_is_answered_or_refused_and_disturbs_nobody(scene: Scene) -> None:
    bombard(scene, 1_000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_messages_disturb_nobody(scene: Scene) -> None:
    bombard(scene, 10_000)
