"""Who listens at a socket, and who dials: both sides look before the token is told or taken."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cideldill_mcp.processes.private_directory import NoScratch, make_folder
from pytest_cideldill.link.handshake import Invitation, connect
from tests.server.processes import in_loop, serving

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no users")
needs_root = pytest.mark.skipif(
    getattr(os, "geteuid", int)() != 0, reason="only root takes the part of another user"
)
STRANGER = 65_534

DIAL = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connected:
    connected.settimeout(20)
    connected.connect(sys.argv[1])
    try:
        connected.sendall(bytes.fromhex(sys.argv[2]))
        print(connected.recv(1))
    except ConnectionError:
        print(b"")
"""


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Invitation]:
    """A socket in a private folder."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "hub"))
        listener.listen()
        yield Invitation(str(folder / "hub"), "00" * 32, "r1", str(folder))


def test_a_socket_in_a_folder_of_our_own_is_dialed(listening: Invitation) -> None:
    connect(listening).close()


def test_no_token_is_written_where_others_may_write(listening: Invitation) -> None:
    assert listening.directory is not None
    for mode in (0o777, 0o702, 0o720):
        os.chmod(listening.directory, mode)
        with pytest.raises(PermissionError, match="is not the private folder of this user"):
            connect(listening)


def test_no_token_is_written_through_a_link(listening: Invitation, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("private")
    with pytest.raises(PermissionError, match="is not the private folder of this user"):
        connect(replace(listening, address=str(tmp_path / "link" / "hub")))


@needs_root
def test_no_token_is_written_in_a_folder_of_another_user(listening: Invitation) -> None:
    assert listening.directory is not None
    os.chown(listening.directory, STRANGER, -1)
    with pytest.raises(PermissionError, match="is not the private folder of this user"):
        connect(listening)


@needs_root
@in_loop
async def test_another_user_is_let_in_with_no_token() -> None:
    """However it came by it, and through the folder."""
    async with serving() as front:
        await front.start()
        invitation = front.invitation("r1")
        address, folder = Path(invitation["address"]), front.runs.directory
        for path in (address, folder):
            path.chmod(0o777)
        with subprocess.Popen(
            [sys.executable, "-c", DIAL, str(address), invitation["token"]],
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        ) as dialing:
            await asyncio.wait_for(asyncio.to_thread(dialing.wait), 20)
            assert dialing.stdout is not None
            assert dialing.stdout.read() == "b''\n"


def test_a_folder_that_everybody_may_replace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(NoScratch, match="make it sticky"):
        make_folder("cideldill-")
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)
    assert Path(make_folder("cideldill-")).stat().st_mode & 0o777 == 0o700
