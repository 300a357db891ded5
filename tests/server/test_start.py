"""What a front end has imported when it has answered `initialize` and `tools/list`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.transports.http_server import HttpServer
from cideldill_mcp.transports.stdio_server import Identity, StdioServer, capabilities

DEADLINE_S = 120

SERVE = """
import json, sys
from cideldill_mcp.cli import main
status = main([])
sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
sys.exit(status)
"""

HANDSHAKE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "start", "version": "0"},
}
ENVELOPE: dict[str, Any] = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "start", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
IDENTITY = Identity("a server", "1", "its title", "its instructions")

NOT_ON_STDIO = ("mcp.client", "mcp.server.mcpserver", "mcp.server.auth", "mcp.server.lowlevel")
NO_LIBRARY = {"starlette", "sse_starlette", "uvicorn", "h11", "httpx", "httpx2", "jsonschema"}


def _python(code: str, stdin: str = "", folder: Path | None = None) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("opening", "params"),
    [("initialize", {}), ("server/discover", ENVELOPE)],
    ids=["handshake", "without a handshake"],
)
def test_on_stdio_no_client_of_the_library_is_imported_and_nothing_of_http(
    tmp_path: Path, opening: str, params: dict[str, Any]
) -> None:
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": opening, "params": params or HANDSHAKE},
        *([] if params else [{"method": "notifications/initialized"}]),
        {"id": 2, "method": "tools/list", "params": params},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked)
    answers, errors = _python(SERVE, lines, tmp_path)
    first, second = (json.loads(line) for line in answers.splitlines())
    assert "serverInfo" in json.dumps(first["result"])
    assert {tool["name"] for tool in second["result"]["tools"]} > {"test_run", "test_why"}
    modules = json.loads(errors.splitlines()[-1])
    assert "mcp.server.runner" in modules
    assert [name for name in modules if name.startswith(NOT_ON_STDIO)] == []
    assert {name.partition(".")[0] for name in modules} & NO_LIBRARY == set()


def test_names_of_packages_whose_execution_was_deferred_are_there_when_they_are_used() -> None:
    _python("""
import sys, threading
from cideldill_mcp.sdk import prepare_import
prepare_import()
import mcp.shared.message
assert type(mcp).__name__ == "_Deferred", "executed for a module"
assert "mcp.client" not in sys.modules
found = []
threads = [threading.Thread(target=lambda: found.append(mcp.Client)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
from mcp import Client
from mcp.server import MCPServer, Server
import mcp.client.client, mcp.server.lowlevel
assert found == [Client] * 4
assert Client is mcp.client.client.Client
assert Server is mcp.server.lowlevel.Server
assert "Client" in mcp.__all__
names = {}
exec("from mcp import *", names)
assert names["Client"] is Client
from mcp import types
try:
    mcp.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError("a name that the package does not have")
""")


def test_only_models_of_the_wire_are_built_late() -> None:
    _python("""
import pydantic
from cideldill_mcp.sdk import prepare_import
prepare_import()
import mcp_types, mcp_types.methods
class Mine(pydantic.BaseModel):
    x: int
late = mcp_types.methods.CLIENT_REQUESTS["tools/call", "2025-06-18"]
assert Mine.__pydantic_complete__
assert mcp_types.Implementation.__pydantic_complete__
assert not late.__pydantic_complete__
params = {"name": "test_run", "arguments": {}}
mcp_types.methods.validate_client_request("tools/call", "2025-06-18", params)
assert late.__pydantic_complete__
""")


def test_packages_that_are_imported_already_stay_as_they_are() -> None:
    _python("""
import mcp
before = mcp.Client
from cideldill_mcp.sdk import prepare_import
prepare_import()
import mcp.server
assert mcp.Client is before and type(mcp).__name__ == "module"
""")


def test_the_server_of_stdio_has_all_that_the_library_s_own_has() -> None:
    lean, whole = StdioServer(IDENTITY), HttpServer(IDENTITY)
    names = {name for name in dir(whole) if not name.startswith("_")}
    names.remove("session_manager")  # refused by the library's own, too, until it serves HTTP
    assert [name for name in sorted(names) if not hasattr(lean, name)] == []
    assert lean.server_info == whole.server_info
    assert lean.server_info_stamp == whole.server_info_stamp
    assert lean.middleware == whole.middleware
    assert lean.cache_hints == whole.cache_hints
    options = lean.create_initialization_options()
    assert options == whole.create_initialization_options()
    assert options.capabilities == capabilities() == whole.get_capabilities()
    for method in ("ping", "server/discover"):
        ours, theirs = lean.get_request_handler(method), whole.get_request_handler(method)
        assert ours is not None
        assert theirs is not None
        assert ours.params_type is theirs.params_type
