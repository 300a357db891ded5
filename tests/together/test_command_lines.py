"""What others can read of a server and its processes: their command lines hold no settings."""

from __future__ import annotations

import json
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from tests.together.frontend import FrontEnd, front_end

SECRET = "hunter[0-9]+x"
"""A pattern, which tells how secrets look; also a name of one."""

NAME = "frobnicator"

INI = f"""
    [pytest]
    cideldill_redact_patterns = {SECRET}
    cideldill_redact_names = {NAME}
"""

TEST = """
    def test_stops():
        frobnicator = "told"
        seen = "hunter22x"
        assert frobnicator == seen
"""


def command_lines(server: FrontEnd) -> list[str]:
    """Of all its processes."""
    reported = []
    for pid in server.processes():
        with suppress(OSError):  # gone meanwhile
            reported.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode())
    return reported


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.full
@pytest.mark.parametrize("switch", ["--cideldill-mcp", "--cideldill-http"])
def test_no_command_line_reveals_how_secrets_look(tmp_path: Path, switch: str) -> None:
    """Of the server, its run, the processes that look for lines, and the one that cleans up."""
    (tmp_path / "pytest.ini").write_text(textwrap.dedent(INI))
    (tmp_path / "test_it.py").write_text(textwrap.dedent(TEST))
    further = () if switch == "--cideldill-mcp" else ("--cideldill-mcp",)
    with front_end(tmp_path, *further, switch=switch) as server:
        server.initialize()
        lines = command_lines(server)
        server.call("breakpoint_set", file="test_it.py", line=4)
        stopped = server.call("test_run", pause_on="failure")
        lines += command_lines(server)
    assert "hunter22x" not in json.dumps(stopped)  # the settings have arrived
    assert "frobnicator" in json.dumps(stopped)
    assert any("cideldill_mcp.cli" in each for each in lines)
    assert any("rootdir" in each for each in lines)
    assert len(lines) > 4
    for each in lines:
        assert SECRET not in each
        assert NAME not in each
