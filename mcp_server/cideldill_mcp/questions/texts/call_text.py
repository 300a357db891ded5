"""Texts of calls, arguments, results and places: one form for all questions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cideldill_mcp.questions.recordings.recorded import (
    BODIES,
    Call,
    Phase,
    Recorded,
    RecordedTest,
    ancestors,
)
from cideldill_mcp.questions.texts.fitting import counted, listed, short

VALUE: Final = 48
"""Characters of a value in the line of a call."""

ARGUMENTS: Final = 110
"""Characters of all arguments in the line of a call."""

EXPLAINED: Final = "for the message of the failure: "
"""Before what `explained_text` gives."""

RESULT: Final = 80
"""Characters of a result or an exception in the line of a call."""

_SHORT_VALUE: Final = 16
_SHORT_ARGUMENTS: Final = 36
_SHORT_RESULT: Final = 40

_IMPLIED: Final = frozenset({"self", "cls", ".0"})
"""First arguments that are left out; `.0` is what a generator expression iterates over."""

_CLOSED: Final = "GeneratorExit"
_NAMED: Final = 5
"""Functions that a line counts by name."""

_OBJECT: Final = re.compile(r"<?([\w.]+)")


def call_text(call: Call) -> str:
    """`Cart.add(price=3) → None`: what was called, and how it ended."""
    if call.code.kind in BODIES:
        code = call.code
        is_module = code.kind == "module"
        text = f"import {code.module or code.file}" if is_module else f"class {code.name}"
        return f"{text} ✗ {short(call.error, RESULT)}" if call.error is not None else text
    ending = ending_text(call)
    via = f" via {call.via}" if call.via else ""
    return f"{call.code.name}({arguments_text(call)}){ending}{via}"


def short_call_text(call: Call) -> str:
    """The same with values of a few characters, where names matter more."""
    if call.code.kind in BODIES:
        return call_text(call)
    arguments = arguments_text(call, _SHORT_VALUE, _SHORT_ARGUMENTS)
    return f"{call.code.name}({arguments}){ending_text(call, _SHORT_RESULT)}"


def arguments_text(call: Call, value: int = VALUE, most: int = ARGUMENTS) -> str:
    """The arguments, without the receiver of a method."""
    args = call.args
    if args and args[0][0] in _IMPLIED:
        args = args[1:]
    parts = []
    room = most
    for at, (name, text) in enumerate(args):
        if room < 8:
            parts.append(f"… {len(args) - at} more")
            break
        part = f"{name}={short(text, min(value, max(12, room)))}"
        room -= len(part)
        parts.append(part)
    return ", ".join(parts)


def ending_text(call: Call, most: int = RESULT) -> str:
    """` → result` or ` ✗ exception`, and what it yielded and how often it waited before."""
    parts = []
    moves = call.moves or []
    items = [text for kind, text in moves if kind == "yield"]
    waits = sum(kind == "wait" for kind, _ in moves)
    is_cut = call.parts > len(items) + waits
    if items:
        parts.append(f" yields {sampled(items, total=_total(call, len(items), waits))}")
    if waits:
        waits = _total(call, waits, len(items))
        parts.append(f" waits{f' ×{waits:,}' if waits > 1 else ''}")
    if is_cut and items and waits:
        parts.append(f", {call.parts:,} of both")
    thrown = [text for kind, text in moves if kind == "resume" and text]
    is_thrown = thrown[-1:] == [_CLOSED]  # 3.11 does not say so
    is_closed = call.error == _CLOSED or (is_thrown and call.error is None)
    shown = thrown[:-1] if is_closed and is_thrown else thrown
    parts += [f" ← throw {short(text, most)}" for text in shown]
    if is_closed:
        parts.append(" closed")
    if is_closed and (call.error is not None or call.result == "None"):
        pass
    elif call.error is not None:
        parts.append(f" ✗ {short(call.error, most)}")
    elif call.result is None:
        parts.append(" … end not recorded" if call.is_end_lost else " … not ended")
    elif not (items and call.result == "None"):
        parts.append(f" → {short(call.result, most)}")
    return "".join(parts)


def _total(call: Call, count: int, others: int) -> int:
    """How many there were of one kind: not all were recorded one by one."""
    return call.parts if call.parts > count and not others else count


def sampled(texts: list[str], most: int = 24, *, total: int = 0) -> str:
    """`3 items: 1, 2, 3`; of many the first two and the last, if that is known."""
    if total > len(texts):
        first = ", ".join(short(text, most) for text in texts[:2])
        return f"{counted(total, 'item')}: {first}, …"
    shown = [short(text, most) for text in (texts if len(texts) <= 3 else [*texts[:2], texts[-1]])]
    if len(texts) > 3:
        shown.insert(2, "…")
    return f"{counted(len(texts), 'item')}: {', '.join(shown)}"


def library_text(call: Call) -> str:
    """`json.loads ×3, re.match`: functions of libraries that it called."""
    return counts_text(call.library or ())


def explained_text(call: Call) -> str:
    """`Money.__repr__ ×4`: functions of the user that explained a failure for a library."""
    return counts_text(call.explained or ())


def counts_text(counts: Iterable[tuple[str, int]]) -> str:
    """Names with their counts, the most frequent first, and how many further ones there are."""
    found = sorted(counts, key=lambda each: -each[1])
    texts = [f"{name} ×{count:,}" if count > 1 else name for name, count in found]
    return listed(texts, _NAMED)


def kind_of(text: str | None) -> str:
    """What kind of value a text shows: its class, as far as the text says."""
    if text is None:
        return ""
    start = text[:1]
    if start in "\"'":
        return "str"
    if start in "[({":
        return start if text[1:2] not in "])}" else f"empty {start}"
    if start.isdigit() or (start == "-" and text[1:2].isdigit()):
        return "number"
    found = _OBJECT.match(text)
    return found[1] if found else start


def notes_of(recorded: Recorded, test: RecordedTest) -> list[str]:
    """What a reader must know of the recording: limits that were reached, and an early end."""
    notes = [text for _, text in recorded.reached]
    if not recorded.has_ended:
        notes.append("the process ended before pytest did: this is what was recorded until then")
    elif test.outcome == "unfinished":
        notes.append("the test did not end: this is what was recorded until then")
    return notes


def path_of_failure(test: RecordedTest, phase: Phase) -> list[Call]:
    """The calls that the exception of a failed phase went through, outermost first.

    A test that goes on behind a part that failed, such as a subtest, is not left by it: the calls
    that were around it stand first.
    """
    path, failed = deepest([*phase.continued, *phase.roots]), test.failed
    if path or failed is None or failed.phase != phase.name:
        return path
    through = {(frame.file, frame.function) for frame in failed.frames}
    left = [
        call
        for call in test.calls.values()
        if call.error is not None
        and call.ended_at <= failed.at
        and (call.code.file, call.code.qualname) in through
    ]
    outermost = max(left, key=lambda call: call.ended_at, default=None)
    return [*ancestors(outermost), *deepest([outermost])] if outermost is not None else []


def deepest(calls: Iterable[Call]) -> list[Call]:
    """The calls that an exception went through, outermost first: from the last that it left."""
    path: list[Call] = []
    pending = list(calls)
    while pending:
        call = next((each for each in reversed(pending) if each.error is not None), None)
        if call is None or (path and call.error != path[-1].error):
            break
        path.append(call)
        pending = call.children
    return path
