"""Who dials in without the token, or talks nonsense on either side, disturbs nobody.

The rules for other machines are in `docs/remote.md`. A test of the user stays paused all the while.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.protocol import PROTOCOL
from pytest_cideldill.protocol.framing import MAX_FRAME, FrameDecoder, encode_frame
from tests.together.frontend import DEADLINE_S, FrontEnd, front_end
from tests.together.machines import HERE

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc"),
]

HELLO = {
    "kind": "hello",
    "protocol": PROTOCOL,
    "run_id": "r1",
    "pid": 1,
    "worker": "main",
    "python": "3",
    "executable": "python",
    "pytest": "8",
    "rootdir": "r",
    "cwd": "c",
    "argv": [],
    "engine": {"name": "monitoring"},
    "position_file": None,
}


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    """A front end with a paused run."""
    project = write_failing(tmp_path_factory.mktemp("project"))
    bind = f"--cideldill-bind={HERE}"
    with front_end(project, "-p", "no:cacheprovider", bind) as server:
        server.initialize()
        assert server.call("test_run")["state"] == "paused"
        yield server


@pytest.fixture(params=["address", "door"])
def way(request: pytest.FixtureRequest) -> str:
    """Where a process of this machine dials in, and one of another machine."""
    name: str = request.param
    return name


def write_failing(folder: Path) -> Path:
    (folder / "pytest.ini").touch()
    (folder / "test_it.py").write_text("def test_it():\n    n = 41\n    assert 0\n", "utf-8")
    return folder


def dial(server: FrontEnd, token: bytes | None = None, way: str = "address") -> socket.socket:
    """A connection that has sent a token, by default the right one."""
    invitation = server.invitation()
    is_path = isinstance(invitation[way], str)
    connected = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
    connected.settimeout(DEADLINE_S)
    connected.connect(invitation[way] if is_path else tuple(invitation[way]))
    connected.sendall(bytes.fromhex(invitation["token"]) if token is None else token)
    return connected


def is_hung_up_on(connected: socket.socket) -> bool:
    """Wait for the other side to close; nothing may come before."""
    with connected:
        try:
            return connected.recv(1) == b""
        except ConnectionResetError:  # closed with bytes of ours unread
            return True


def answer(connected: socket.socket) -> dict[str, Any]:
    decoder = FrameDecoder()
    while not (messages := decoder.feed(connected.recv(65536))):
        continue
    return messages[0]


def assert_undisturbed(server: FrontEnd) -> None:
    (stop,) = server.call("debug_state")["paused"]
    seen = server.call("breakpoint_repl_eval", pause_id=stop, expression="n + 1")
    assert seen["output"] == "42"


@pytest.mark.sample("address-GET*", "door-x*")
@pytest.mark.parametrize(
    "token", [b"x" * 32, b"\0" * 32, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"]
)
def test_without_the_token_a_connection_is_closed_before_anything_is_parsed(
    paused: FrontEnd, token: bytes, way: str
) -> None:
    """The token is the first 32 raw bytes."""
    assert is_hung_up_on(dial(paused, token, way))
    with dial(paused, b"only a part of it", way):
        assert_undisturbed(paused)


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">I", MAX_FRAME + 1),
        struct.pack(">I", 4) + b"oops",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 200_000) + b"[" * 200_000,
    ],
    ids=["too large", "no JSON", "no object", "too deep"],
)
def test_a_connection_that_sends_no_frames_of_ours_is_closed(
    paused: FrontEnd, sent: bytes, way: str
) -> None:
    """The size cap; and a peer that can't be trusted any more."""
    connected = dial(paused, way=way)
    connected.sendall(sent)
    assert is_hung_up_on(connected)
    assert_undisturbed(paused)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (HELLO | {"run_id": "r99"}, "run 'r99' is not active"),
        (HELLO | {"protocol": 99}, "speaks protocol 99"),
        ({"kind": "departed"}, "the first message must be hello"),
        ({"kind": "greeting"}, "greeting"),
        ({"kind": "hello", "protocol": 1}, "run_id"),
    ],
    ids=["unknown run", "other protocol", "no hello", "unknown kind", "malformed"],
)
def test_a_greeting_that_does_not_fit_is_refused_by_name(
    paused: FrontEnd, message: dict[str, Any], why: str, way: str
) -> None:
    """Unknown kinds are refused by name."""
    with dial(paused, way=way) as connected:
        connected.sendall(encode_frame(message))
        refused = answer(connected)
    assert refused["kind"] == "refused"
    assert why in refused["reason"] + refused["refused_kind"]
    assert_undisturbed(paused)


def test_no_other_machine_takes_the_place_of_the_main_process(
    paused: FrontEnd, tmp_path: Path
) -> None:
    """Nor does it say which files here tell of it."""
    bystander = tmp_path / "bystander"
    bystander.touch()
    lie = HELLO | {"position_file": str(bystander)}
    with dial(paused, way="door") as connected:
        connected.sendall(encode_frame(lie))
        assert "on this machine" in answer(connected)["reason"]
    with dial(paused, way="door") as connected:
        connected.sendall(encode_frame(lie | {"worker": "gw7"}))
        assert answer(connected)["kind"] == "configure"
        assert_undisturbed(paused)
    assert bystander.exists()


@pytest.mark.parametrize("line", [b'{"jsonrpc": "2.0", "id": 1, "method"', b"\xff\xfe", b"Hello"])
def test_a_line_that_is_no_message_is_answered_and_the_server_lives_on(
    paused: FrontEnd, line: bytes
) -> None:
    """-32700. JSON-RPC 2.0, section 5.1: `id` is null when it can't be known."""
    paused.send_line(line)
    answered = paused.receive()
    assert (answered["id"], answered["error"]["code"]) == (None, -32700)
    assert_undisturbed(paused)


def test_where_a_socket_path_would_be_too_long_the_door_is_on_loopback(tmp_path: Path) -> None:
    """Facts: a Unix socket's path has at most 107 bytes."""
    deep = tmp_path / ("deep" * 25)
    deep.mkdir()
    project = write_failing(tmp_path)
    with front_end(project, "-p", "no:cacheprovider", TMPDIR=str(deep)) as server:
        server.initialize()
        assert server.call("test_run")["state"] == "paused"
        assert server.invitation()["address"][0] == "127.0.0.1"
        assert is_hung_up_on(dial(server, b"x" * 32))
        assert_undisturbed(server)
        assert server.leave() == 0
