"""What the front end takes when a run is very large: `python -m benchmarks.scale`.

The front end is the real one, the workers are made up (`benchmarks.scale_workers`). `docs/scale.md`
quotes the figures. Prints; asserts nothing. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks.hits import show_spread
from benchmarks.scale_workers import PLAN, Plan
from benchmarks.spine import RawClient, versions

ROOT = Path(__file__).parents[1]

# The server asks its interpreter for lines as well: that is the real one.
INTERPRETER = """\
#!/bin/sh
case "$2" in pytest) exec {python} -m benchmarks.scale_workers;; esac
exec {python} "$@"
"""

MODULE = "def total(n):\n" + "    n += 1\n" * 15 + "    return n\n"
TRACED = 17

QUESTIONS: dict[str, dict[str, Any]] = {
    "debug_state": {},
    "breakpoint_list": {},
    "breakpoint_list_paused": {},
    "test_results": {"outcome": "failed", "limit": 20},
    "timeline_get": {"types": ["stop", "failure"], "limit": 20},
}
POLL_S = 0.05

LOG_BYTES = 4 * 1024**3
"""So many that none is dropped for that."""


@contextmanager
def front_end(plan: Plan) -> Iterator[RawClient]:
    """A server whose runs are made up."""
    with tempfile.TemporaryDirectory(prefix="cideldill-scale-") as temp:
        folder = Path(temp)
        (folder / "shop").mkdir()
        (folder / "shop" / "cart.py").write_text(MODULE, encoding="utf-8")
        interpreter = folder / "python"
        interpreter.write_text(INTERPRETER.format(python=sys.executable), encoding="utf-8")
        interpreter.chmod(0o755)
        os.environ |= {PLAN: json.dumps(asdict(plan)), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "cideldill_mcp", "--python", str(interpreter)]
        command += ["--", "-o", f"cideldill_max_log_bytes={LOG_BYTES}"]
        with RawClient(folder, command) as client:
            client.initialize()
            yield client


def memory(pid: int) -> float:
    """Megabytes that a process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def processor(pid: int) -> float:
    """Seconds of the processor that a process has taken."""
    ticks = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def ask(client: RawClient, replies: dict[str, list[float]]) -> dict[str, Any]:
    """Every question once; the state."""
    answers = {}
    for tool, arguments in QUESTIONS.items():
        asked = time.perf_counter()
        answers[tool] = client.call(tool, **arguments)
        replies[tool].append((time.perf_counter() - asked) * 1e3)
    return answers["debug_state"]


@dataclass(slots=True)
class Load:
    """What a run took.

    Attributes:
        idle: Megabytes of the front end before the run, …
        connected: … when all workers are connected, …
        most: … and at the worst.
        connected_s: Seconds until all workers are connected.
        took_s: Seconds until the end is reported.
        processor_s: Seconds of the processor that the front end takes.
        state: The last one, of `debug_state`.
        replies: Tool → milliseconds of its answers meanwhile.
    """

    idle: float
    connected: float = 0.0
    most: float = 0.0
    connected_s: float = 0.0
    took_s: float = 0.0
    processor_s: float = 0.0
    state: dict[str, Any] = field(default_factory=dict)
    replies: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def watch(client: RawClient) -> Load:
    """One run from its start to its end; who pauses goes on."""
    client.call("tracepoint_set", file="shop/cart.py", line=TRACED, log_message="{n}")
    load, busy = Load(memory(client.pid)), processor(client.pid)
    began = time.monotonic()
    client.call("test_run", wait=False)
    while (state := ask(client, load.replies))["state"] != "finished":
        load.most = max(load.most, memory(client.pid))
        if not load.connected and state["state"] in ("running", "paused"):
            load.connected, load.connected_s = load.most, time.monotonic() - began
        if state["paused"]:
            client.call("debug_continue")
        time.sleep(POLL_S)
    load.took_s = time.monotonic() - began
    load.processor_s = processor(client.pid) - busy
    load.most = max(load.most, memory(client.pid))
    load.state = state
    return load


def measure(plan: Plan) -> None:
    """One run, and print what it took."""
    with front_end(plan) as client:
        load = watch(client)
    counts = load.state["counts"]
    print(f"{plan}\n")
    print(f"{'until all workers are connected':46}{load.connected_s:9.1f} s")
    print(f"{'until the end is reported':46}{load.took_s:9.1f} s")
    print(f"{'processor time of the front end':46}{load.processor_s:9.1f} s")
    print(f"{'its memory, idle':46}{load.idle:9.0f} MB")
    print(f"{'its memory, all workers connected':46}{load.connected:9.0f} MB")
    print(f"{'its memory, the most':46}{load.most:9.0f} MB")
    print(f"{'outcomes':46}{load.state['outcomes']}")
    print(f"{'events in the log':46}{counts['events']:9}")
    print(f"{'… in a second':46}{counts['events'] / load.took_s:9.0f}")
    print(f"{'events dropped':46}{counts['dropped']:9}")
    for tool, samples in load.replies.items():
        show_spread(f"{tool} meanwhile", samples)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.scale", description=__doc__)
    for each in fields(Plan):
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=int, default=each.default)
    print(versions(), end="\n\n")
    measure(Plan(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
