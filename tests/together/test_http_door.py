"""Who does not come in over HTTP: without the token, by a foreign name, from a foreign page.

The rules are in `docs/transports.md`: a bearer token, loopback only, protection against DNS
rebinding. A test of the user stays paused all the while.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cideldill_mcp.transports.http import MAX_BODY_BYTES
from tests.together.frontend import DEADLINE_S, FrontEnd
from tests.together.test_intruders import write_failing
from tests.together.web import INITIALIZE, Place, tool_call, web_end

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc"),
]

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND")
PATHS = (
    "/mcp",
    "/mcp/sse",
    "/mcp/sse/messages",
    "/mcp/sse/messages?session_id=00000000000000000000000000000000",
    "/",
    "/mcp/",
    "//mcp",
    "/mcp/../mcp",
    "/.well-known/oauth-protected-resource",
    "/cideldill/http",
)


class Guarded:
    """A front end with a paused run, and a session in it."""

    def __init__(self, end: FrontEnd, place: Place) -> None:
        self.end = end
        self.place = place
        self.session = place.session()

    def is_undisturbed(self) -> bool:
        """Whether the test is still paused, and the session alive."""
        answer = self.place.post(tool_call("debug_state"), headers=self.session)
        return b'paused\\":[\\"r1.main.1\\"]' in answer.body


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    project = write_failing(tmp_path_factory.mktemp("guarded"))
    with web_end(project) as (end, place):
        front = Guarded(end, place)
        answer = place.post(tool_call("test_run"), headers=front.session)
        assert b"post_mortem" in answer.body
        yield front


def test_without_the_token_nothing_is_readable_or_callable(guarded: Guarded) -> None:
    """Whatever the path and the method, also for a session that somebody else has opened."""
    place = guarded.place
    flipped = place.token[:-1] + ("A" if place.token[-1] != "A" else "B")
    credentials = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": place.token},
        {"Authorization": f"Basic {place.token}"},
        {"Authorization": f"Bearer {flipped}"},
        {"Authorization": f"Bearer {place.token[:-1]}"},
        {"Authorization": f"Bearer {place.token}x"},
        {"Authorization": "Bearer \xe9\xff"},
        {"Cookie": f"token={place.token}"},
    ]
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    for path in PATHS:
        for method in METHODS:
            for shown in credentials if path == "/mcp" else credentials[:1]:
                answer = place.request(
                    method, path, call, place.usual(guarded.session | {"Authorization": ""} | shown)
                )
                assert answer.status == 401, (method, path, shown)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert b"is missing or wrong" in answer.body or method == "HEAD"
                assert place.token.encode() not in answer.body
    assert place.request("POST", f"/mcp?token={place.token}", call, {}).status == 401
    assert guarded.is_undisturbed()


def test_nothing_of_a_strangers_body_is_read(guarded: Guarded) -> None:
    """The answer comes before the body; what is malformed is not looked at."""
    with closing(
        socket.create_connection(("127.0.0.1", guarded.place.port), DEADLINE_S)
    ) as stranger:
        stranger.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n"
            b"Content-Type: application/json\r\n\r\n"
        )
        assert stranger.recv(65536).startswith(b"HTTP/1.1 401 ")
    for body in (b"{", b"\xff", b"[" * 100_000):
        assert guarded.place.request("POST", "/mcp", body, {}).status == 401
    assert guarded.is_undisturbed()


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "example.org", 421),
        ("Host", "example.org:{port}", 421),
        ("Host", "127.0.0.1.example.org:{port}", 421),
        ("Host", "localhost.example.org", 421),
        ("Host", "127.0.0.1:{port}@example.org", 421),
        ("Host", "0.0.0.0:{port}", 421),
        ("Host", "", 421),
        ("Origin", "https://example.org", 403),
        ("Origin", "http://localhost.example.org:{port}", 403),
        ("Origin", "http://127.0.0.1.example.org", 403),
        ("Origin", "null", 403),
        ("Origin", "file://", 403),
        ("Host", "localhost", 200),
        ("Host", "LOCALHOST:8080", 200),
        ("Host", "127.0.0.1:{port}", 200),
        ("Host", "[::1]:{port}", 200),
        ("Origin", "http://localhost:8080", 200),
        ("Origin", "http://127.0.0.1:{port}", 200),
    ],
)
def test_names_of_others_stay_outside_even_with_the_token(
    guarded: Guarded, header: str, value: str, status: int
) -> None:
    """DNS rebinding: a page reaches us by its own name. Any port: that of a tunnel is another."""
    place = guarded.place
    named = {header: value.format(port=place.port)}
    for path in PATHS[:3] if status != 200 else ["/mcp"]:
        assert place.post(INITIALIZE, path, named).status == status
    assert guarded.is_undisturbed()


def test_a_body_that_is_too_large_is_refused_and_the_server_lives_on(guarded: Guarded) -> None:
    """A string of 10 MB, its size told before or not."""
    place = guarded.place
    large = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 10_000_000 + b'"}'
    with place.sse() as (_, path):
        for to in ("/mcp", path):
            assert place.post(large, to).status == 413
            chunks = iter([large[n : n + 65536] for n in range(0, len(large), 65536)])
            assert place.request("POST", to, chunks, place.usual({})).status == 413
        small = large.replace(b"x" * 10_000_000, b"x" * (MAX_BODY_BYTES - 100))
        assert place.post(small, headers=guarded.session).message["error"]["code"] == -32601
    assert guarded.is_undisturbed()


def test_only_this_machine_and_only_its_user_can_come_near(guarded: Guarded) -> None:
    """Loopback; a folder of mode 0700 with files of 0600; the token in no process's arguments."""
    address = f"{guarded.place.port:04X}"
    table = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
    assert [each for each in listening if each.endswith(f":{address}")] == [f"0100007F:{address}"]
    assert f":{address} " not in Path("/proc/net/tcp6").read_text(encoding="ascii")
    (folder,) = guarded.end.private()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "http").stat().st_mode) == 0o600
    for pid in guarded.end.processes():
        for name in ("cmdline", "environ"):
            shown = Path(f"/proc/{pid}/{name}").read_bytes()
            assert guarded.place.token.encode() not in shown
    assert len(guarded.place.token) >= 43
