"""The instructions for an agent at the handshake: a failing test in five steps, questions first.

Clients cut texts of more than some 2,000 characters. Names of tools stand in backticks; the text
contains only names of tools that the client has.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

_LINES: tuple[tuple[str, ...], ...] = (
    ("Debugs pytest tests, each `test_run` in a fresh process. A failing test in five steps:",),
    (
        "1. Ask before you read files: `test_why` says why a test fails. `test_trace`: its calls, "
        "or each line of one. `test_watch`: who set a value. `test_diff`: where it parts from one "
        "that passes. `test_experiment`: what if?",
        "1. Run: `test_run` with nodeids, keyword or last_failed. Its reply has the first failure, "
        "paused, with the autopsy: exception, frames, locals, what was compared, parameters that "
        "pass, fixtures, output. Read it before you call more.",
    ),
    (
        "2. Look at what `test_why` leaves open: `test_run` with nodeids, keyword or last_failed "
        "pauses at the first failure, fixtures alive, with the autopsy: exception, locals, "
        "operands, output. `breakpoint_repl_eval` with the pause_id runs Python in that frame.",
        "2. Look: `breakpoint_repl_eval` with the pause_id runs Python in the frame that failed.",
    ),
    (
        "3. Stop earlier: `breakpoint_add` on the function you suspect, with a condition over its "
        "arguments; then `test_run` with replace: true pauses before that call.",
        "3. See the way there: `test_run` with tracepoints [{file, line, log_message}] and "
        "replace: true logs values at lines, without a pause.",
    ),
    (
        "4. Prove, where `breakpoint_add` paused: `breakpoint_continue` with action skip and a "
        "fake_result, or modified_args, and wait: true. A verdict that flips proves the cause.",
        "4. Prove: `breakpoint_repl_eval` calls the function you suspect with what it was given.",
    ),
    (
        "5. Mend the file, `breakpoint_remove`; `test_run` with last_failed: true confirms it.",
        "5. Mend the file; `test_run` with last_failed: true confirms it.",
    ),
    ("Pitfalls:",),
    ("- A paused test waits for you. The next `test_run` needs replace: true, which ends it.",),
    ("- At the failure it is too late to flip the verdict: `breakpoint_add` stops before.",),
    ("- Breakpoints outlive runs, until `breakpoint_remove`; tracepoints of `test_run` don't.",),
    ('- A value that is no JSON: {"$eval": "Decimal(\'1.10\')"}.',),
    ("- state running: the wait is over, not the run; `breakpoint_wait` goes on.",),
    ("- Nothing stopped? neverHit in the reply says why.",),
    ("- Values over many passes: `tracepoint_set`, or tracepoints of `test_run`; no pause.",),
    ("- An error that someone swallows: `breakpoint_set_exception`.",),
    ("- A test that hangs: `debug_pause`.",),
    ("- All failures first: `test_run` with pause_on: never.",),
    ("- truncated: true: ask for less, go on with next_after, or give max_chars.",),
    ("In a reply next names the calls that make sense now.",),
)
"""Each line in several wordings; the first one is used whose tools the client has."""

_TOOL = re.compile(r"`(\w+)`")


def instructions(offered: Container[str]) -> str:
    """The text for a client. `offered`: the names of the tools that the client has."""
    return "\n".join(_lines(offered))


def _lines(offered: Container[str]) -> Iterator[str]:
    for wordings in _LINES:
        for line in wordings:
            if all(tool in offered for tool in _TOOL.findall(line)):
                yield line
                break
