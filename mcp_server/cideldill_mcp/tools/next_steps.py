"""The next steps that replies about runs propose, the cause of a flipped verdict among them."""

from __future__ import annotations

import re
from typing import Any

from cideldill_mcp.replies.proposals import proposal
from cideldill_mcp.runs.registry import Runs
from cideldill_mcp.runs.run import Run

MAX_CHANGES = 3
"""How many of a client's changes the hint at a cause names."""

_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b")
"""The pattern of a class name in a text."""


def next_steps(run: Run, runs: Runs) -> list[str]:
    """Possible next steps, the most useful first; one may name `end.message` of the same reply."""
    if run.pauses:
        return _at_a_pause(next(reversed(run.pauses.values())))
    if run.state == "stopping":
        return [
            "debug_state: see whether it has ended",
            proposal("test_stop", "wait no longer for its fixtures", run_id=run.id),
        ]
    if not run.is_over:
        return [
            "breakpoint_wait {}: its next stop, or its end",
            "debug_state: see how far it is",
            proposal("test_stop", "end it", run_id=run.id),
        ]
    steps = []
    if flipped := _flipped(run, runs):
        steps.append(flipped)
    failed = run.results.failed_nodeids()
    if runs.are_opened and failed:
        steps.append(proposal("exception_get_context", "why it failed", nodeid=failed[0]))
    if failed:
        steps.append('test_results {"outcome": "failed"}: the reports')
        steps.append('test_run {"last_failed": true}: run the failed tests again, with your edits')
    elif run.end and "message" in run.end:
        steps.append("look at end.message; edits take effect in the next test_run")
    if run.end and run.end["kind"] == "no_tests" and not runs.are_opened:
        steps.append("test_list {}: the node ids that there are")
    return steps


def _at_a_pause(pause: dict[str, Any]) -> list[str]:
    id = pause["id"]
    look = f'breakpoint_repl_eval {{"pause_id": "{id}", "expression": "…"}}'
    go_on = f'breakpoint_continue {{"pause_id": "{id}", "wait": true}}'
    if pause["phase"] == "post_mortem":
        return [
            *_where_it_was_raised(pause),
            f"{look}: the fixtures are alive",
            'breakpoint_add {"function_name": "…"} and test_run with "replace": true: stop earlier',
            f"{go_on}: let the test fail and tear down",
        ]
    if pause["phase"] == "raise":
        return [
            f"{look}: __exception__ is the exception",
            f'{go_on[:-1]}, "action": "raise", "exception_type": "…"}}: raise another one instead',
            f"{go_on}: see which code handles it",
        ]
    if pause["phase"] == "line":
        return [
            f"{look}: read and change variables",
            f'debug_step {{"pause_id": "{id}"}}: the next line; mode in, out: a call, the caller',
            f"{go_on}: let it run",
        ]
    return [
        f"{look}: frame 0 is the call, frame 1 its caller",
        f'{go_on[:-1]}, "action": "skip", "fake_result": …}}: let it return something else',
        f"{go_on}: let the call happen",
    ]


def _where_it_was_raised(pause: dict[str, Any]) -> list[str]:
    """The next step for a failure outside of user code: its text may name the exception."""
    autopsy = pause.get("autopsy") or {}
    if not autopsy or any(not frame["isExternal"] for frame in autopsy["frames"]):
        return []
    exception = autopsy["exception"]
    named = _EXCEPTION.search(f"{exception['message']}\n{autopsy.get('reported', '')}")
    name = named[0] if named else "…"
    return [
        f'breakpoint_set_exception {{"exception_type": "{name}"}} and test_run with "replace": '
        "true: stop where it is raised, as no code of yours is in this traceback"
    ]


def _flipped(run: Run, runs: Runs) -> str | None:
    """A sentence, if a change made at a pause let a test pass that failed before."""
    changed = run.results.changes
    if not changed:
        return None
    failed_before = {
        nodeid for other in runs if other is not run for nodeid in other.results.failed_nodeids()
    }
    passed = [
        test.nodeid
        for test in run.results.tests.values()
        if test.nodeid in failed_before and test.outcome == "passed"
    ]
    if not passed:
        return None
    nodeid = next((test for test in passed if test in changed), passed[0])
    everything = [change for of_test in changed.values() for change in of_test]
    changes = changed.get(nodeid, everything)
    if len(changes) == 1:
        return f"the verdict of {nodeid} flipped: {changes[0]} is the cause"
    left_out = len(changes) - MAX_CHANGES
    more = f"; and {left_out} more changes" if left_out > 0 else ""
    causes = "; ".join(changes[:MAX_CHANGES])
    return f"the verdict of {nodeid} flipped, the cause is among: {causes}{more}"
