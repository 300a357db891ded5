"""Records that are opened, and what the tools that read answer live and of a record."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters

from tests.together.driver import Agent, connected
from tests.together.timelines import timeline
from tests.together.workbench import Bench

ROOM = 200_000
"""Characters of a reply in which everything here has room."""

Answers = dict[str, Any]


def opener(
    *records: Path, options: Sequence[str] = (), env: dict[str, str] | None = None
) -> StdioServerParameters:
    """How to start `cideldill-mcp --open` on records."""
    opens = [argument for record in records for argument in ("--open", str(record))]
    arguments = ["-m", "cideldill_mcp", *opens, "--", *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=env)


@contextmanager
def opened(
    root: Path, *records: Path, options: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[Bench]:
    """A bench whose front end shows records of a project."""
    with connected(opener(*records, options=options, env=env)) as agent:
        yield Bench(agent, root)


def answers(agent: Agent, run_id: str) -> Answers:
    """What every tool that reads tells of a run that is over, without what only one of them has."""
    results = agent.call("test_results", run_id=run_id, limit=10_000, max_chars=ROOM)
    tests = sorted(results["tests"], key=lambda each: each["nodeid"])
    reported: Answers = {"results": _renamed(tests)}
    for test in results["tests"]:
        if test["outcome"] in ("failed", "error"):
            name = f"context {test['nodeid']}"
            context = agent.call("exception_get_context", nodeid=test["nodeid"], max_chars=ROOM)
            reported[name] = _without(context, "threadId")
    calls = agent.call("breakpoint_get_call_records", limit=10_000, max_chars=ROOM)
    reported["calls"] = [each for each in calls["calls"] if each["run_id"] == run_id]
    for call in reported["calls"][:20]:
        for cid in (*call["cids"]["args"], call["cids"]["result"]):
            if cid is not None:
                reply = agent.call("breakpoint_inspect_object", cid=cid, max_chars=ROOM)
                reported[f"object {cid}"] = reply
    reported |= _timelines(agent, run_id)
    for tool in ("breakpoint_list", "breakpoint_list_breakpoints", "breakpoint_list_paused"):
        reported[tool] = agent.call(tool, max_chars=ROOM)
    reported["state"] = _without(agent.call("debug_state"), "counts", "hash_seed")
    return {name: _without(each, "next", "pending") for name, each in reported.items()}


def _renamed(tests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With groups that are called by who is in them: they are numbered as workers come."""
    first: dict[str, str] = {}
    for test in tests:
        if "group" in test:
            test["group"] = first.setdefault(test["group"], test["nodeid"])
    return tests


def _timelines(agent: Agent, run_id: str) -> Answers:
    """The events of each process in order; across processes only the time tells."""
    events: dict[str, list[dict[str, Any]]] = {}
    for event in timeline(agent.call, run_id=run_id, limit=1_000, max_chars=ROOM):
        of_the_server = event["type"] in ("run_started", "run_finished", "worker_down")
        if not of_the_server and event["type"] != "worker_up":
            kept = _without(event, "seq", "ts")
            events.setdefault(f"timeline of {event['worker']}", []).append(kept)
    return dict(events)


def _without(reported: Any, *keys: str) -> Any:
    if isinstance(reported, dict):
        return {key: each for key, each in reported.items() if key not in keys}
    return reported
