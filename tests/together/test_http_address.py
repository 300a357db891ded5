"""`cideldill-mcp address`: where this user's servers serve HTTP, and nothing of other folders."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.together.conftest import MakeProject
from tests.together.frontend import DEADLINE_S, clean_environment
from tests.together.web import web_end

pytestmark = pytest.mark.skipif(os.name != "posix", reason="looks at owners and modes")

PASSING = "def test_it():\n    pass\n"


def address(directory: Path) -> subprocess.CompletedProcess[str]:
    """What the command tells of the servers whose folders are in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "cideldill_mcp", "address"],
        env=clean_environment(TMPDIR=str(directory)),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def plant(directory: Path, name: str, text: str, mode: int = 0o700) -> Path:
    """A folder as a server makes it, with what it tells."""
    folder = directory / f"cideldill-{name}"
    folder.mkdir()
    file = folder / "http"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    folder.chmod(mode)
    return folder


@pytest.mark.full
def test_the_line_of_the_server_is_reported_and_nothing_that_others_could_have_made(
    make_project: MakeProject, tmp_path: Path
) -> None:
    """Links, pipes, folders and files that are open to others, other texts; nothing blocks."""
    with web_end(make_project(test_it=PASSING)) as (end, place):
        here = end.directory
        false = f"cideldill: {place.url} token FALSE\n"
        for number, mode in enumerate((0o755, 0o770, 0o777)):
            plant(here, f"open{number}", false, mode)
        (plant(here, "readable", false) / "http").chmod(0o644)
        linked = plant(tmp_path, "elsewhere", false)
        (here / "cideldill-link").symlink_to(linked)
        (plant(here, "linked", "") / "http").unlink()
        (here / "cideldill-linked" / "http").symlink_to(linked / "http")
        (plant(here, "pipe", "") / "http").unlink()
        os.mkfifo(here / "cideldill-pipe" / "http", 0o600)
        (here / "cideldill-file").write_text(false, encoding="utf-8")
        for number, text in enumerate(("", "\x1b[2J", f"\x1b{false}", false * 2, false[:-1])):
            plant(here, f"text{number}", text)
        for number, where in enumerate(("203.0.113.7:80", "127.0.0.1:99999", "localhost:80")):
            plant(here, f"far{number}", f"cideldill: http://{where}/mcp token FALSE\n")
        if os.geteuid() == 0:
            os.chown(plant(here, "foreign", false), 65534, -1)
            os.chown(plant(here, "foreign-file", false) / "http", 65534, -1)
        reported = address(here)
        assert (reported.stderr, reported.returncode) == ("", 0)
        assert reported.stdout == f"cideldill: {place.url} token {place.token}\n"


@pytest.mark.full
def test_where_no_server_runs_it_says_so(tmp_path: Path) -> None:
    """What a server left that was killed with everything it had started is no server."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    plant(tmp_path, "left", f"cideldill: http://127.0.0.1:{port}/mcp token OLD\n")
    reported = address(tmp_path)
    assert (reported.stdout, reported.returncode) == ("", 1)
    assert reported.stderr == (
        f"cideldill-mcp: no server of yours serves HTTP whose folder is in {tmp_path}; "
        "start one with --cideldill-http, or set TMPDIR as it has it\n"
    )
