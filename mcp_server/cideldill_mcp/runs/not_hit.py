"""Why breakpoints were not hit in a run that is over: what its processes know, as one reason.

The reasons are a closed set; `docs/not-hit.md` says what they mean. What is
not known is left out. Lives on the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cideldill_mcp.breakpoints.kinds import Breakpoint, ExceptionBreakpoint, LineBreakpoint
from cideldill_mcp.runs.run import Run

Fact = dict[str, Any]
"""As `pytest_cideldill.probes.unhit` makes it."""

_NEARER = (
    "condition_false",
    "line_not_reached",
    "never_called",
    "no_code",
    "never_imported",
    "disabled",
)
"""From the process that came nearest to a hit down."""

_APART = "tests ran in forked children, which are not debugged"

_SETTLED = ("disabled", "no_code")
"""More tests, or a longer watch, would not have changed it."""


def never_hit(desired: Iterable[Breakpoint], run: Run) -> dict[str, str] | None:
    """Id → reason, of those that were not hit; None: nothing is known of a run that crashed."""
    if run.state == "crashed" or not run.watched:
        return None
    reasons = {breakpoint.id: why_not_hit(breakpoint, run) for breakpoint in desired}
    return {id: why for id, why in reasons.items() if why is not None}


def why_not_hit(known: Breakpoint, run: Run) -> str | None:
    """Why a breakpoint was not hit in a run that is over; None: it was, or that is not known."""
    if known.id in run.stopped_at or (isinstance(known, LineBreakpoint) and known.published):
        return None
    if known.is_lost:
        return _text("no_code", [known.note] if known.note else [])
    facts = {
        worker: watched.facts[known.id]
        for worker, watched in run.watched.items()
        if known.id in watched.facts
    }
    silent = [worker for worker in run.workers if worker not in run.watched]
    silent += [worker for worker, watched in run.watched.items() if watched.blind]
    alone = run.results.workers - run.workers.keys()
    if alone and not facts:
        return _text("other_worker", [f"{_listed(alone)} ran undebugged"])
    silent += alone
    if not facts or any(fact["why"] is None for fact in facts.values()):
        return None
    if any(fact.get("recorded") for fact in facts.values()) and run.called & {*known.functions}:
        return None
    if any(_was_hit_in(worker, known) for worker in silent):
        return None
    why = min((fact["why"] for fact in facts.values()), key=_NEARER.index)
    mine = [fact for fact in facts.values() if fact["why"] == why]
    details = _details(known, why, mine)
    if (silent or run.results.apart) and why not in _SETTLED:
        others = _text(why, details)
        why, details = "other_worker", [f"{_listed(silent)} ended without a report"] * bool(silent)
        details += [_APART] * bool(run.results.apart)
        details.append(f"the others: {others}")
    elif why == "condition_false" and (spread := _spread(known, facts)):
        why, details = "other_worker", [spread]
    if why not in _SETTLED:
        details += _bounds(facts.values(), run)
    return _text(why, details)


def _was_hit_in(worker: str, known: Breakpoint) -> bool:
    """Whether a process reported one before it fell silent; stops and messages are known."""
    passes = known.passes.get(worker)
    return passes is not None and passes.passes > 0 and isinstance(known, ExceptionBreakpoint)


def _details(known: Breakpoint, why: str, facts: list[Fact]) -> list[str]:
    """What the process that came nearest, or all of those, have to say of a reason."""
    if why == "condition_false":
        times = sum(fact["times"] for fact in facts)
        count = f"{times} time{'s' * (times != 1)}"
        has_held = not known.condition or any(fact.get("held") for fact in facts)
        return [count, *(_thresholds(known) if has_held else ())]
    if why == "line_not_reached" and isinstance(known, LineBreakpoint):
        lines = (fact["line"] for fact in facts)
        nearest = min(lines, key=lambda line: (abs(line - known.spec.line), line))
        return [f"nearest executed line {nearest}"]
    notes = dict.fromkeys(fact["note"] for fact in facts if fact.get("note"))
    return list(notes)


def _thresholds(known: Breakpoint) -> list[str]:
    if not isinstance(known, LineBreakpoint):
        return []
    if known.spec.hit_count > 1:
        return [f"hit_count is {known.spec.hit_count}"]
    return [f"hit_count_multiple is {known.spec.multiple}"] if known.spec.multiple else []


def _spread(known: Breakpoint, facts: dict[str, Fact]) -> str | None:
    """Whether the passes of all processes would have been enough, but not those of any one."""
    if not isinstance(known, LineBreakpoint) or known.condition:
        return None
    passes = {worker: fact["times"] for worker, fact in facts.items() if fact.get("times")}
    enough = max(known.spec.hit_count, known.spec.multiple)
    if len(passes) < 2 or sum(passes.values()) < enough:
        return None
    shown = ", ".join(f"{count} in {worker}" for worker, count in sorted(passes.items()))
    (threshold,) = _thresholds(known)
    return f"{shown}; {threshold} for each worker"


def _bounds(facts: Iterable[Fact], run: Run) -> list[str]:
    """What keeps a reason from saying something of all tests."""
    bounds = []
    if run.unwatched or not all(fact["whole"] for fact in facts):
        bounds.append("watched for a part of the run")
    done, total = run.results.done, run.results.total
    if total is None:
        bounds.append("no test ran")
    elif done < total:
        bounds.append(f"{done} of {total} tests ran")
    elif run.end is not None and run.end["kind"] == "interrupted":
        bounds.append("the run was interrupted")
    return bounds


def _listed(workers: Iterable[str]) -> str:
    return ", ".join(sorted(workers))


def _text(why: str, details: list[str]) -> str:
    return f"{why} ({'; '.join(details)})" if details else why
