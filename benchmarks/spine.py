"""What the spine costs: `python -m benchmarks.spine`.

Prints medians with every sample beside the aims; asserts nothing. The client is a pair of raw pipes
here: an SDK client would add its own import and its own event loop to what the server takes.
POSIX only.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SHOP = Path(__file__).parents[1] / "examples" / "shop"
FAILING = "tests/test_cart.py::test_total[bulk]"
LEFT_OUT = ("cacheprovider", "asyncio", "hypothesispytest", "rerunfailures")
"""Plugins that write files or take long to import."""
QUIET = ("-q", *(part for name in LEFT_OUT for part in ("-p", f"no:{name}")))
SERVER = (sys.executable, "-m", "pytest", *QUIET, "--cideldill-mcp")
COLUMNS = 100
IDLE = "aim 1.01 ×"

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "spine", "version": "0"},
}


class RawClient:
    """A server started in `folder` at the time `started`, and JSON-RPC over its pipes.

    Attributes:
        pid: The server's.
        on_notification: Called with each one that is read while a reply is waited for.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str] = SERVER,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout
        self._requests = 0
        self.pid = self._process.pid
        self.on_notification: Callable[[dict[str, Any]], object] = lambda _message: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stdin.close()
        self._process.wait()
        self._stdout.close()

    def initialize(self) -> None:
        """The handshake."""
        self.request("initialize", INITIALIZE)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The reply of a tool that must not refuse."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        body: dict[str, Any] = json.loads(result["content"][0]["text"])
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {body}")
        return body

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        asked = self.send(method, params)
        for message in self.messages():
            if message.get("id") == asked:
                result: dict[str, Any] = message["result"]
                return result
            self.on_notification(message)
        raise RuntimeError(f"the server ended during {method}")

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request, which has this id."""
        self._requests += 1
        self._write({"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params})
        return self._requests

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the server says, until it ends."""
        while line := self._stdout.readline():
            yield json.loads(line)

    def _write(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()


# --- what is measured ---------------------------------------------------------------------------


def start_to_initialize(shop: Path) -> float:
    """Seconds from the start of the process to the answer of `initialize`."""
    with RawClient(shop) as client:
        client.request("initialize", INITIALIZE)
        return time.perf_counter() - client.started


def sdk_import(folder: Path) -> float:
    """Seconds of a process that imports the library's server, as any server does, and ends."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", "import mcp.server.lowlevel"]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True)
    return time.perf_counter() - start


def start_beside_sdk(shop: Path, runs: int) -> tuple[list[float], list[float]]:
    """Starts to `initialize`, and imports of the library alone, by turns."""
    pairs = [(start_to_initialize(shop), sdk_import(shop)) for _ in range(runs)]
    return [start for start, _ in pairs], [alone for _, alone in pairs]


def start_to_stop(shop: Path) -> float:
    """Seconds from the start of the process to the reply that holds the first stop."""
    with RawClient(shop) as client:
        client.initialize()
        reply = client.call("test_run", nodeids=[FAILING])
        seconds = time.perf_counter() - client.started
        assert reply["state"] == "paused", reply
        return seconds


def round_trips(shop: Path, calls: int) -> dict[str, list[float]]:
    """Seconds of each call of two tools, the second one through the test process."""
    with RawClient(shop) as client:
        client.initialize()
        stop = client.call("test_run", nodeids=[FAILING])["stops"][0]
        pause = {"pause_id": stop["pause_id"], "expression": "cart.coupon"}
        return {
            "debug_state": _timed(calls, lambda: client.call("debug_state")),
            "breakpoint_repl_eval": _timed(
                calls, lambda: client.call("breakpoint_repl_eval", **pause)
            ),
        }


def _timed(calls: int, call: Callable[[], object]) -> list[float]:
    samples = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return samples


@dataclass(slots=True)
class Overheads:
    """Seconds of whole runs of the same tests; the same index was measured side by side."""

    blocked: list[float] = field(default_factory=list)
    blocked_cpu: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    off_cpu: list[float] = field(default_factory=list)
    driven: list[float] = field(default_factory=list)


def overheads(folder: Path, pairs: int) -> Overheads:
    """Blocked, off, driven, blocked, off, driven, …: what slows the machine slows them all."""
    found = Overheads()
    with RawClient(folder) as client:
        client.initialize()
        _run_plain(folder)  # compiles the tests
        for _ in range(pairs):
            for arguments, wall, cpu in (
                (("-p", "no:cideldill"), found.blocked, found.blocked_cpu),
                ((), found.off, found.off_cpu),
            ):
                seconds = _run_plain(folder, *arguments)
                wall.append(seconds[0])
                cpu.append(seconds[1])
            reply = client.call("test_run", pause_on="never", timeout_s=300)
            assert reply["exit_code"] == 0, reply
            found.driven.append(reply["duration_s"])
    return found


def _run_plain(folder: Path, *arguments: str) -> tuple[float, float]:
    """Wall and processor seconds of a whole pytest process."""
    command = [sys.executable, "-m", "pytest", *QUIET, *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- what is printed ----------------------------------------------------------------------------


def show(name: str, samples: Sequence[float], unit: str, aim: str = "") -> None:
    """A median, its aim, and every sample below it."""
    print(f"{name:46}{statistics.median(samples):7.3f} {unit:2}  {aim}".rstrip())
    print(f"    {' '.join(f'{each:.3f}' for each in samples)}")


def ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Pair by pair."""
    return [a / b for a, b in zip(of, to, strict=True)]


def show_round_trips(name: str, samples: Sequence[float]) -> None:
    """The 50th and 95th percentile in milliseconds; every sample, as there are hundreds, sorted."""
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    print(f"{name:46}{cuts[49] * 1e3:7.3f} ms  p50, aim 1 ms")
    print(f"{'':46}{cuts[94] * 1e3:7.3f} ms  p95, aim 5 ms")
    line = "   "
    for each in sorted(samples):
        shown = f" {each * 1e3:.2f}"
        if len(line) + len(shown) > COLUMNS:
            print(line)
            line = "   "
        line += shown
    print(line)


def versions() -> str:
    """One line that names what was measured."""
    names = ("pytest-cideldill", "pytest", "mcp", "anyio")
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{python}, {found}\n{system}"


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.spine", description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="of each start")
    parser.add_argument("--calls", type=int, default=300, help="of each tool")
    parser.add_argument("--pairs", type=int, default=9, help="of whole pytest runs")
    parser.add_argument("--tests", type=int, default=2_000, help="in each of those runs")
    chosen = parser.parse_args()
    print(versions(), end="\n\n")
    with tempfile.TemporaryDirectory(prefix="cideldill-spine-") as temp:
        leftovers = shutil.ignore_patterns("__pycache__", ".*")
        shop = shutil.copytree(SHOP, Path(temp, "shop"), ignore=leftovers)
        start_to_stop(shop)  # compiles
        samples, alone = start_beside_sdk(shop, chosen.runs)
        show("start to the answer of initialize", samples, "s", "aim 1.0 s")
        show("import of mcp.server.lowlevel alone", alone, "s")
        more = [start - sdk for start, sdk in zip(samples, alone, strict=True)]
        show("start to initialize, less this import", more, "s", "aim 0.15 s")
        samples = [start_to_stop(shop) for _ in range(chosen.runs)]
        show("start to the first stop", samples, "s", "aim 2.0 s")
        for tool, samples in round_trips(shop, chosen.calls).items():
            show_round_trips(f"round trip of {tool}", samples)

        many = Path(temp, "many")
        many.mkdir()
        (many / "pytest.ini").touch()
        test = "@pytest.mark.parametrize('n', range({}))\ndef test_nothing(n):\n    pass\n"
        text = "import pytest\n\n\n" + test.format(chosen.tests)
        (many / "test_many.py").write_text(text, encoding="utf-8")
        found = overheads(many, chosen.pairs)
        name = f"{chosen.tests} tests"
        show(f"{name}, blocked (-p no:cideldill)", found.blocked, "s")
        show(f"{name}, off / blocked, wall time", ratios(found.off, found.blocked), "×", IDLE)
        cpu = ratios(found.off_cpu, found.blocked_cpu)
        show(f"{name}, off / blocked, processor time", cpu, "×", IDLE)
        show(f"{name}, driven / blocked, wall time", ratios(found.driven, found.blocked), "×")


if __name__ == "__main__":
    main()
