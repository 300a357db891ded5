"""Answers `test_trace` with a function: the life of one call, line by line.

Where each line ran at most once, and in order, the source itself is the trace: what a line did
stands behind it. Else the source comes first, and the lines that ran follow, loops folded; where
both have no room, the lines that ran carry the source.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from cideldill_mcp.questions.recordings.listing import FunctionNode, Listing, LoopNode, SourceFiles
from cideldill_mcp.questions.recordings.recorded import BODIES, Call, Focus, Recorded, RecordedTest
from cideldill_mcp.questions.recordings.row_reader import without_collector
from cideldill_mcp.questions.texts.call_text import (
    EXPLAINED,
    call_text,
    deepest,
    ending_text,
    explained_text,
    kind_of,
    library_text,
    notes_of,
)
from cideldill_mcp.questions.texts.fitting import (
    MAX_CHARS,
    Answer,
    Item,
    clipped,
    counted,
    fit,
    keep_above,
    left_out_text,
    ranges,
    short,
)
from cideldill_mcp.questions.texts.folding import folded, span_text
from cideldill_mcp.questions.trace.call_tree import heading, propose_trace
from cideldill_mcp.questions.trace.steps import Items, Loop, Round, Step, structured
from cideldill_mcp.replies.proposals import proposal

VALUE: Final = 90
"""Characters of a value that a line changed."""

SHORT_VALUE: Final = 50
"""The same, where there is little room."""

ARGUMENT: Final = 120
"""Characters of an argument of the chosen call."""

STATEMENT: Final = 160
"""Characters of a statement over several lines."""

ROUND: Final = 200
"""Characters of a round in one line."""

_BEFORE: Final = frozenset({"yield", "wait", "resume"})
"""What a line does before it changes anything: `got = yield item`."""

_WITHOUT_SOURCE: Final = 60
"""Characters of the line that says that the source is left out."""

_KEPT: Final = 0.0
"""The rank of what is never left out while anything is shown."""


def call_answer(
    recorded: Recorded,
    test: RecordedTest,
    files: SourceFiles,
    *,
    function: str,
    max_chars: int = MAX_CHARS,
) -> Answer:
    """The life of the chosen call of a test.

    Args:
        recorded: What its process left.
        test: One of its tests.
        files: The source.
        function: The name that was asked for.
        max_chars: Most characters of the text.
    """
    focus = test.focus
    if focus is None:
        return _not_called(recorded, test, function, max_chars)
    listing = files.listing(focus.call.code)
    with without_collector():
        items = structured(focus, listing)
        head = _head(recorded, test, focus, listing)
        text, left_out = _best(head, items, focus, listing, max_chars)
    fields = {
        "nodeid": test.nodeid,
        "outcome": test.outcome,
        "function": focus.call.code.dotted,
        "calls": max(test.matches or 0, focus.count),
        "call": focus.count,
        "source": {"file": listing.file, "first": listing.first, "last": listing.last},
    }
    return Answer(text, fields, bool(left_out), _next(test, focus))


def _best(
    head: list[Item], items: Items, focus: Focus, listing: Listing, max_chars: int
) -> tuple[str, Sequence[Item]]:
    """The form that says most within the size."""
    ran = _ran(focus, listing)
    marked = _marked(items, focus, listing, ran)
    if marked is not None:
        text, left_out = fit([*head, *marked], max_chars, _closing)
        if not left_out:
            return text, left_out
    source = _source(listing, ran)
    lines = _Lines(listing, focus)
    steps = lines.of(items, 0, 1.0)
    end = _end(focus)
    full = [*head, *source, *steps, *end]
    text, left_out = fit(full, max_chars, _closing)
    if not left_out:
        return text, left_out
    steps = _Lines(listing, focus, SHORT_VALUE).of(items, 0, 1.0)
    keep_above(steps)
    every = [*head, *_not_run(listing, ran), *steps, *end]
    whole = sum(len(item.text) + 1 for item in every) if len(every) < 5_000 else 0
    is_close = 0 <= max_chars - whole < _WITHOUT_SOURCE
    room = max_chars - (_WITHOUT_SOURCE if is_close else 0)
    text, left_out = fit(every, room, lambda gone: _closing(gone, whole), _mark, room=70)
    if left_out:
        return text, left_out
    size = -(-sum(len(item.text) + 1 for item in full) // 100) * 100
    return f"{text}\nleft out: the source (max_chars={size} shows it)", source


def _not_called(recorded: Recorded, test: RecordedTest, function: str, max_chars: int) -> Answer:
    count = test.matches or 0
    if recorded.refusal is not None:
        reason = recorded.refusal[1]
    elif count:
        reason = f"{function} was called {count:,}×, and none of these is the call asked for"
    else:
        reason = f"{function} was not called in this test"
    text = "\n".join([heading(test), reason, *notes_of(recorded, test)])
    fields = {"nodeid": test.nodeid, "outcome": test.outcome, "function": function, "calls": count}
    steps = [proposal("test_trace", "all calls of user code", nodeid=test.nodeid)]
    return Answer(clipped(text, max_chars), fields, len(text) > max_chars, steps)


# --- the head and the end -----------------------------------------------------------------------


def _head(recorded: Recorded, test: RecordedTest, focus: Focus, listing: Listing) -> list[Item]:
    call = focus.call
    args = ", ".join(f"{name}={short(text, ARGUMENT)}" for name, text in call.args)
    first = f"{call.code.name}({clipped(args, 6 * ARGUMENT)}){ending_text(call, 2 * ARGUMENT)}"
    total = f" of {test.matches:,}" if test.matches is not None else ""
    where = [f"{listing.place}  call {focus.count:,}{total}"]
    if call.parent is not None:
        code = call.parent.code
        line = f":{call.line}" if call.line else ""
        where.append(f"from {code.name} {code.file}{line}")
    if call.via:
        where.append(f"via {call.via}")
    if call.thread:
        where.append(f"in thread {call.thread}")
    texts = [first, ", ".join(where), heading(test), *notes_of(recorded, test)]
    return [Item(text, _KEPT - 3 + at, weight=0) for at, text in enumerate(texts)]


def _end(focus: Focus) -> list[Item]:
    call = focus.call
    lines = []
    if call.library:
        lines.append(Item(f"lib: {library_text(call)}", 3.0, weight=0))
    if call.explained:
        lines.append(Item(f"{EXPLAINED}{explained_text(call)}", 3.0, weight=0))
    if call.error is None and call.result is None:
        lines.append(Item("it did not end", 0.3, weight=0))
    return lines


def _not_run(listing: Listing, ran: set[int]) -> list[Item]:
    missing = sorted(listing.runnable() - ran)
    text = f"not run: {counted(len(missing), 'line')}: {ranges(missing)}"
    return [Item(text, 0.5, weight=0)] if missing else []


def _closing(left_out: Sequence[Item], whole: int = 0) -> str:
    how = f"max_chars={-(-whole // 100) * 100} shows all" if whole else "a larger max_chars"
    return left_out_text(left_out, "step", how)


def _mark(_before: Item | None, missing: Sequence[Item]) -> tuple[str, str]:
    count = sum(item.weight for item in missing)
    level = min(item.depth for item in missing)
    return "", f"{'  ' * level}… {counted(count, 'step')}" if count else ""


# --- source -------------------------------------------------------------------------------------


def _ran(focus: Focus, listing: Listing) -> set[int]:
    """First lines of the statements that ran, or may have: where lines are missing, all of them."""
    events = (event for line in focus.lines for event in line.events or ())
    if any(event[0] == "gap" for event in events):
        return set(listing.runnable())
    return {listing.start(line.number) for line in focus.lines}


def _source(listing: Listing, ran: set[int]) -> list[Item]:
    missing = listing.runnable() - ran
    return [
        Item(f"{'-' if listing.start(number) in missing else ' '}{number:>4}  {text}", 2.0)
        for number, text in listing.text_lines()
    ]


def _marked(items: Items, focus: Focus, listing: Listing, ran: set[int]) -> list[Item] | None:
    """The source with what each line did; None if lines ran again, or the source is missing."""
    steps = [item for item in items if isinstance(item, Step) and item.line]
    before = [item for item in items if isinstance(item, Step) and not item.line]
    numbers = [step.line for step in steps]
    text_lines = listing.text_lines()
    known = {number for number, _ in text_lines}
    if len(steps) + len(before) < len(items) or any(step.gap for step in before):
        return None
    if numbers != sorted(set(numbers)) or not known.issuperset(numbers):
        return None
    lines = _Lines(listing, focus)
    found = [item for step in before for item in lines.of_step(step, 0, 1.0)]
    missing = listing.runnable() - ran
    of_line = {step.line: step for step in steps}
    text_of = dict(text_lines)
    for number, text in text_lines:
        start = listing.start(number)
        sign = "-" if start in missing else " "
        step = of_line.get(start)
        is_last = step is not None and number == min(
            listing.ends.get(start, start), text_lines[-1][0]
        )
        done = lines.done(step) if step is not None and is_last else ""
        found.append(Item(f"{sign}{number:>4}  {text}{done}", 1.0))
        if step is not None and is_last:
            # Below the source, a little deeper.
            indent = len(text_of[start]) - len(text_of[start].lstrip())
            found += lines.calls(step, 5 + indent // 2, 1.0)
    return [*found, *_end(focus)]


# --- lines that ran -----------------------------------------------------------------------------


class _Lines:
    """Makes the lines of steps, rounds and loops."""

    def __init__(self, listing: Listing, focus: Focus, value: int = VALUE) -> None:
        self._listing = listing
        self._value = value
        self._is_failing = focus.call.error is not None
        handlers = (node for node in listing.nodes.values() if isinstance(node, ast.ExceptHandler))
        self._caught = {handler.name for handler in handlers}

    def of(self, items: Items, depth: int, rank: float) -> list[Item]:
        """All lines of steps and loops in a row.

        The first and the last ones are the most useful; where an exception left, the last ones.
        """
        found: list[Item] = []
        last = len(items) - 1
        for at, item in enumerate(items):
            distance = last - at if self._is_failing else min(at, last - at)
            own = rank + distance / (distance + 20.0)
            if isinstance(item, Loop):
                found += self._of_loop(item, depth, own - 0.1)
            else:
                found += self.of_step(item, depth, own)
        return found

    def of_step(self, step: Step, depth: int, rank: float) -> list[Item]:
        """A step, and the calls in it."""
        if step.gap:
            return [Item(f"{'  ' * depth}… {step.gap}", 0.2, depth)]
        if any(event[0] == "raise" for event in step.events):
            rank = min(rank, 0.4)
        indent = "  " * depth

        def make() -> str:
            if not step.line:
                return f"{indent}at its start{self.done(step)}"
            source = clipped(self._listing.statement(step.line), STATEMENT)
            return f"{indent}{step.line}  {source}{self.done(step)}"

        return [Item(make, rank, depth), *self.calls(step, depth + 2, rank + 0.3)]

    def done(self, step: Step) -> str:
        """` → total=3, n=1  ✗ KeyError: 'a'`: what a step did."""
        parts = [step.branch] if step.branch else []
        parts += self._changes(step)
        text = f"  → {', '.join(parts)}" if parts else ""
        moves = "".join(self._moves(step))
        kinds = [event[0] for event in step.events]
        is_received = "change" in kinds and kinds[0] in _BEFORE and "raise" not in kinds
        return moves + text if is_received else text + moves

    def _changes(self, step: Step) -> list[str]:
        if isinstance(self._listing.nodes.get(step.line), FunctionNode | ast.ClassDef):
            return []  # the name that it says
        values: dict[str, list[str | None]] = {}
        for _, name, value in step.of("change"):
            values.setdefault(name, []).append(value)
        parts = []
        for name, texts in values.items():
            if texts[-1] is None:
                if name not in self._caught:  # Python deletes those itself
                    parts.append(f"del {name}")
                continue
            shown = [short(text, self._value) for text in texts if text is not None]
            if len(shown) > 3:
                shown = [*shown[:2], "…", shown[-1]]
            parts.append(f"{name}={', '.join(shown) if len(shown) == 1 else ' '.join(shown)}")
        return parts

    def _moves(self, step: Step) -> list[str]:
        parts = []
        for event in step.events:
            kind = event[0]
            if kind == "raise":
                parts.append(f"  ✗ {short(event[1], VALUE)}")
            elif kind == "yield":
                parts.append(f"  yields {short(event[1], self._value)}")
            elif kind == "wait":
                parts.append("  waits")
            elif kind == "resume" and event[1]:
                parts.append(f"  ← throw {short(event[1], self._value)}")
        if len(parts) > 6:
            parts = [*parts[:2], f"  … {len(parts) - 3} more", parts[-1]]
        return parts

    def calls(self, step: Step, depth: int, rank: float) -> list[Item]:
        """The calls of user code in a step, folded."""
        calls: list[Call] = [event[1] for event in step.of("call")]
        if not calls:
            return []
        fold = folded(
            [
                (call.code.number, call.error, call.error is None and kind_of(call.result))
                for call in calls
            ]
        )
        indent = "  " * depth
        found = []
        for part in fold.parts:
            if isinstance(part, range):
                numbers = span_text([calls[at].ordinal for at in part], "#")
                like = fold.like(part, lambda at: f"#{calls[at].ordinal}")
                found.append(Item(f"{indent}… {numbers}: {like}", rank, depth, len(part)))
                continue
            call = calls[part]
            text = call_text(call)
            number = f"#{call.ordinal} " if len(fold.parts) < len(calls) else ""
            own = min(rank, 0.5) if call.error is not None else rank
            own += 1.0 if call.code.kind in BODIES else 0.0
            found.append(Item(f"{indent}{number}{text}", own, depth, once=call.code.place))
        return found

    # --- loops ----------------------------------------------------------------------------------

    def _of_loop(self, loop: Loop, depth: int, rank: float) -> list[Item]:
        indent = "  " * depth
        count = len(loop.rounds)
        source = clipped(self._listing.statement(loop.line), STATEMENT)
        rest = "last " if loop.is_rest else ""
        times = f"{rest}{counted(count, 'round')}"
        end = "" if loop.end is None else self.done(loop.end).replace("  → loop ends", ", ends", 1)
        items = [Item(f"{indent}{loop.line}  {source}  {times}{end}", rank, depth)]
        if loop.end is not None:
            items += self.calls(loop.end, depth + 2, rank + 0.6)
        fold = folded([each.key for each in loop.rounds])
        shown: set[int] = set()

        def name(at: int) -> str:
            return self._number(loop, at)

        for part in fold.parts:
            if isinstance(part, range):
                like = fold.like(part, name)
                span = f"{name(part.start)}–{name(part[-1])}" if len(part) > 1 else name(part[0])
                weight = sum(self._weight(loop.rounds[at].items) for at in part)
                items.append(
                    Item(f"{indent}  … rounds {span}: {like}", rank + 0.3, depth + 1, weight)
                )
                continue
            each = loop.rounds[part]
            is_odd = fold.is_odd(part) and count > 2
            extra = 0.2 if part == 0 or is_odd else 0.5 if part == count - 1 else 1.2
            if part == count - 1 and self._is_failing:
                extra = 0.1
            if each.path in shown:
                text = f"{indent}  round {name(part)}: {self._brief(each)}"
                items.append(
                    Item(clipped(text, ROUND), rank + extra, depth + 1, self._weight(each.items))
                )
                continue
            shown.add(each.path)
            items += self._full(each, f"{indent}  round {name(part)}:", depth + 1, rank + extra)
        return items

    @staticmethod
    def _number(loop: Loop, at: int) -> str:
        """The number of a round; counted from the last one if the first ones are missing."""
        if not loop.is_rest:
            return f"{at + 1}"
        back = len(loop.rounds) - 1 - at
        return f"last−{back}" if back else "last"

    def _full(self, each: Round, label: str, depth: int, rank: float) -> list[Item]:
        """A round with each of its steps."""
        head, *rest = each.items or [Step(0)]
        node = self._listing.nodes.get(head.line)
        if not isinstance(head, Step) or not isinstance(node, LoopNode):
            items = [Item(label, rank, depth, 0)]
            return items + self.of(each.items, depth + 1, rank + 0.1)
        label += self.done(head).replace("  → ", " ", 1)
        calls = self.calls(head, depth + 2, rank + 0.3)
        if len(rest) == 1 and not calls and isinstance(rest[0], Step):
            # A body of one line stands behind its round.
            line, *inner = self.of_step(rest[0], depth + 1, rank)
            sign = " " if label.endswith(":") else "; "
            return [Item(f"{label}{sign}{line.text.strip()}", line.rank, depth, 2), *inner]
        own = min(rank, 0.4) if head.of("raise") else rank
        return [Item(label, own, depth), *calls, *self.of(rest, depth + 1, rank + 0.1)]

    def _brief(self, each: Round) -> str:
        """A round in one line: only values, calls and inner loops."""
        parts: list[str] = []
        for at, item in enumerate(each.items):
            if isinstance(item, Loop):
                parts.append(f"{item.line} {counted(len(item.rounds), 'round')}")
                continue
            texts = [call_text(event[1]) for event in item.events if event[0] == "call"][:2]
            texts += self._changes(item)
            texts += [text.strip() for text in self._moves(item)]
            if texts:
                number = f"{item.line} " if at else ""
                parts.append(f"{number}{', '.join(texts)}")
        return "; ".join(parts) or "alike"

    def _weight(self, items: Items) -> int:
        loops = [item for item in items if isinstance(item, Loop)]
        return len(items) + sum(self._weight(each.items) for loop in loops for each in loop.rounds)


# --- next steps ---------------------------------------------------------------------------------


def _next(test: RecordedTest, focus: Focus) -> list[str]:
    """The calls inside that show more: of what raised, of what returned last; the caller."""
    call = focus.call
    steps: dict[Call, str] = {}
    path = deepest(call.children) if call.error is not None else []
    raised = [child for child in call.children if child.error is not None]
    if path:
        steps[path[-1]] = "the call that the exception left first"
    elif raised:
        steps[raised[0]] = f"it raised {clipped(raised[0].error or '', 60)}"
    returned = [child for child in call.children if child.code.kind not in BODIES]
    if returned:
        steps.setdefault(returned[-1], "the last call in it")
    if call.parent is not None and call.parent.code.kind not in BODIES:
        steps.setdefault(call.parent, "its caller")
    return [propose_trace(test, each, why) for each, why in list(steps.items())[:3]]
