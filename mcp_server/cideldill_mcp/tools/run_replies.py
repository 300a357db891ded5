"""Parts of replies that several tools share: state of a run, stops, failures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from cideldill_mcp.events.log import Filter
from cideldill_mcp.replies.lean import lean_autopsy, lean_stop
from cideldill_mcp.runs.autopsies import OF_A_TEST, fitted, shaped, siblings
from cideldill_mcp.runs.run import Run
from cideldill_mcp.runs.stall import standstill
from cideldill_mcp.tools.definitions import Request
from pytest_cideldill.protocol import PhaseReported
from pytest_cideldill.reports.words import said

AUTOPSY_CHARS = 6_000
"""Characters of an autopsy inside another reply."""

FRAMES, VARIABLES, INNER = 10, 1, 5
"""The defaults of `exception_get_context`: frames, those with variables, exceptions behind it."""

SHORT_MESSAGE = 500
PROGRESS_S = 0.5
"""Seconds between progress notifications."""

MAX_HITS = 20
"""Hits in one reply; `timeline_get` has them all."""

_OF_HIT = ("seq", "breakpoint_id", "nodeid", "worker", "location", "hit_count", "message")


def pauses(run: Run, max_chars: int, after: int = 0) -> list[dict[str, Any]]:
    """The present pauses of a run behind the cursor `after`, oldest first: items of `stops`.

    Only the newest one has its autopsy.
    """
    present = [pause for pause in run.pauses.values() if pause.get("seq", 0) > after]
    shown = []
    for pause in present:
        chars = max_chars if pause is present[-1] else None
        shown.append(stop(run, pause, chars) | changed(run, pause["nodeid"]))
    return shown


def stop(run: Run, pause: dict[str, Any], max_chars: int | None = None) -> dict[str, Any]:
    """A pause in lean form; with its autopsy, if it has one, for a reply of `max_chars`."""
    has_autopsy = max_chars is not None and "autopsy" in pause
    return lean_stop(pause, _autopsy(run, pause, max_chars or 0) if has_autopsy else None)


def _autopsy(run: Run, pause: dict[str, Any], max_chars: int) -> dict[str, Any]:
    """The autopsy of a pause, cut to its share of a reply of `max_chars`."""
    budget = min(AUTOPSY_CHARS, max(500, max_chars - 2_000))
    body = {"threadId": pause["thread"]["id"], **dict.fromkeys(OF_A_TEST), **pause["autopsy"]}
    if body["parameters"] is not None:
        body = body | {"siblings": siblings(run.results, pause["nodeid"])}
    body = shaped(body, frames=FRAMES, variables=VARIABLES, inner=INNER)
    return fitted(body, budget, lean_autopsy)


def pause_body(pause: dict[str, Any]) -> dict[str, Any]:
    """A pause as `breakpoint_list_paused` has it, without the autopsy and the frames."""
    return {
        "pause_id": pause["id"],
        **{key: value for key, value in pause.items() if key not in ("autopsy", "frames", "seq")},
    }


def hits(request: Request, run: Run | None, after: int) -> list[dict[str, Any]]:
    """The newest hits of tracepoints behind a cursor, oldest first: items of `hits`."""
    wanted = Filter(frozenset({"hit"}), run_id=run.id if run is not None else None)
    return [
        {key: event.get(key) for key in _OF_HIT}
        for event in request.runs.log.newest(MAX_HITS, wanted, after)
    ]


def changed(run: Run, nodeid: str | None) -> dict[str, list[str]]:
    """`changed_by_client`: changes of clients that took part in a test's outcome; or empty."""
    changes = run.results.changes.get(nodeid)
    return {"changed_by_client": changes} if changes else {}


def failures(run: Run, stops: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The list `failures`; the first of each group says how many share its cause.

    A failure that has its autopsy among `stops` of the same reply is not repeated, unless others
    share its cause.
    """
    results = run.results
    paused = {(stop.get("nodeid"), stop.get("when")) for stop in stops if "autopsy" in stop}
    return [
        failure(event, results.group_of(event), alike) | changed(run, event.nodeid)
        for event, alike in results.failures_by_cause()
        if alike > 1 or (event.nodeid, event.phase) not in paused
    ]


def failure(event: PhaseReported, group: str | None = None, alike: int = 0) -> dict[str, Any]:
    """An item of `failures`; `alike`: how many share the cause, in the first of a group."""
    exception = event.exception
    if exception is None and (text := event.longrepr or event.incomplete):
        exception = {"type": None, "message": said(text)}
    if exception is not None:
        exception = exception | {"message": exception["message"][:SHORT_MESSAGE]}
    body: dict[str, Any] = {
        "nodeid": event.nodeid,
        "phase": event.phase,
        "exception": exception,
        "location": event.location,
        "group": group,
    }
    for name in ("subtest", "attempt", "incomplete"):
        if (value := getattr(event, name)) is not None:
            body[name] = value
    if event.autopsy is not None and "assertion" in event.autopsy:
        body["assertion"] = event.autopsy["assertion"]
    if event.autopsy is not None and "reported" in event.autopsy:
        body["reported"] = event.autopsy["reported"][:SHORT_MESSAGE]
    return body | {"alike": alike} if alike > 1 else body


def verdict(run: Run) -> dict[str, Any]:
    """`state`, `outcomes`, `duration_s`; at the end also `exit_code`, `end`, `neverHit`."""
    body: dict[str, Any] = {
        "state": run.state if run.state in ("paused", "finished", "crashed") else "running",
        "outcomes": {"passed": 0, "failed": 0, **run.results.outcomes},
        "duration_s": run.duration_s,
    }
    if run.is_over:
        body |= {"exit_code": run.exit_code, "end": run.end, "neverHit": _never_hit(run)}
    return body


def _never_hit(run: Run) -> list[dict[str, str]] | None:
    if run.never_hit is None:
        return None
    return [{"id": id, "whyNotHit": why} for id, why in run.never_hit.items()]


async def settled(request: Request, run: Run, timeout_s: float, after: int = 0) -> bool:
    """Wait until the run stops anew or is over, and send progress; False: the time is up."""

    def holds() -> bool:
        return run.is_over or any(pause.get("seq", 0) > after for pause in run.pauses.values())

    deadline = time.monotonic() + timeout_s
    shown = None
    while not holds() and (left := deadline - time.monotonic()) > 0:
        await request.runs.log.until(holds, min(left, PROGRESS_S))
        results = run.results
        if results.done != shown:
            shown = results.done
            running = ", ".join(test.nodeid for test in results.running()[:3])
            # Events come in batches: between two tests, the one that ended last is named.
            latest = next((test.nodeid for test in reversed(results.tests.values())), run.state)
            await request.progress(shown, results.total, running or latest)
        elif waits_for_client(run):
            break
    return holds()


async def stuck(run: Run, waited_s: float) -> dict[str, Any]:
    """`no_progress` with advice, if a process made no progress while a client waited."""
    if run.state in ("paused", "finished", "crashed"):
        return {}
    report = await standstill(run, waited_s)
    return {"no_progress": report} if report and not run.is_over else {}


def waits_for_client(run: Run) -> bool:
    """Whether every test under way is paused, so that only the client can go on."""
    paused = {pause["nodeid"] for pause in run.pauses.values()}
    return bool(paused) and all(test.nodeid in paused for test in run.results.running())


def ended(run: Run) -> dict[str, Any]:
    """`end` of a run that is over, for replies without `verdict`."""
    return {"end": run.end} if run.is_over else {}
