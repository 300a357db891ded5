"""What a front end has imported when it has answered `initialize` and `tools/list`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import mcp
import mcp.server
import pytest

from cideldill_mcp.sdk import prepare_import
from cideldill_mcp.transports.http_server import HttpServer
from cideldill_mcp.transports.stdio_server import Identity, StdioServer, capabilities

DEADLINE_S = 120

SERVE = """
import json, os, sys
from cideldill_mcp.cli import main
for opening in sys.argv[1:]:
    os.dup2(os.open(opening, os.O_RDONLY), 0)
    os.dup2(os.open(opening + ".answers", os.O_WRONLY | os.O_CREAT), 1)
    assert main([]) == 0
print(json.dumps(sorted(sys.modules)), file=sys.stderr, flush=True)
"""
"""Serves one client after another, each of which has its requests in a file, and names modules."""

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


LATER = """
import threading
import mcp.shared.message
assert type(mcp).__name__ == "_Deferred", "executed for a module"
import mcp_types, mcp_types.methods, pydantic
class Mine(pydantic.BaseModel):
    x: int
late = mcp_types.methods.CLIENT_REQUESTS["tools/call", "2025-06-18"]
assert Mine.__pydantic_complete__
assert mcp_types.Implementation.__pydantic_complete__
assert not late.__pydantic_complete__, "a model of the wire is built early"
params = {"name": "test_run", "arguments": {}}
mcp_types.methods.validate_client_request("tools/call", "2025-06-18", params)
assert late.__pydantic_complete__
assert type(mcp).__name__ == "_Deferred", "executed for a model"
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
"""
"""What was deferred is used, after all."""


@dataclass(frozen=True)
class Served:
    """What a process did that served clients, and then looked at what was deferred.

    Attributes:
        answers: By opening of a client.
        modules: Those that were imported when the clients had left.
        failure: What it found wrong afterwards; empty: nothing.
    """

    answers: dict[str, list[dict[str, Any]]]
    modules: list[str]
    failure: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """One process for all, as it takes a second to start."""
    folder = tmp_path_factory.mktemp("served")
    openings = {"initialize": {}, "server/discover": ENVELOPE}
    files = [folder / opening.replace("/", "-") for opening in openings]
    for file, (opening, params) in zip(files, openings.items(), strict=True):
        asked: list[dict[str, Any]] = [
            {"id": 1, "method": opening, "params": params or HANDSHAKE},
            *([] if params else [{"method": "notifications/initialized"}]),
            {"id": 2, "method": "tools/list", "params": params},
        ]
        lines = (json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked)
        file.write_text("".join(lines), encoding="utf-8")
    done = subprocess.run(
        # To import without collecting takes nine tenths of the time.
        [sys.executable, "-P", "-c", f"import gc\ngc.disable()\n{SERVE}{LATER}", *map(str, files)],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    modules = [line for line in done.stderr.splitlines() if line.startswith('["')]
    assert modules, done.stderr
    answers = {
        opening: [json.loads(line) for line in Path(f"{file}.answers").read_bytes().splitlines()]
        for opening, file in zip(openings, files, strict=True)
    }
    return Served(answers, json.loads(modules[0]), done.stderr if done.returncode else "")


@pytest.mark.full
@pytest.mark.parametrize("opening", ["initialize", "server/discover"])
def test_a_client_is_served_with_and_without_a_handshake(served: Served, opening: str) -> None:
    first, second = served.answers[opening]
    assert "serverInfo" in json.dumps(first["result"])
    assert {tool["name"] for tool in second["result"]["tools"]} > {"test_run", "test_why"}


@pytest.mark.full
def test_on_stdio_no_client_of_the_library_is_imported_and_nothing_of_http(served: Served) -> None:
    assert "mcp.server.runner" in served.modules
    assert [name for name in served.modules if name.startswith(NOT_ON_STDIO)] == []
    assert {name.partition(".")[0] for name in served.modules} & NO_LIBRARY == set()


@pytest.mark.full
def test_what_was_deferred_is_there_when_it_is_used(served: Served) -> None:
    """Only models of the wire are built late, and the names of the packages come with their use."""
    assert served.failure == ""


def test_packages_that_are_imported_already_stay_as_they_are() -> None:
    before = mcp.Client
    prepare_import()
    assert mcp.Client is before
    for name, package in (("mcp", mcp), ("mcp.server", mcp.server)):
        assert sys.modules[name] is package
        assert type(package) is ModuleType


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
