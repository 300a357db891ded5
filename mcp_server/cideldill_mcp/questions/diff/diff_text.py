"""The text of `test_diff`: the path to where two runs part, what differs, and where inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from cideldill_mcp.questions.diff.alignment import Both, either
from cideldill_mcp.questions.diff.differences import ABSENT, Difference, Noise, Side
from cideldill_mcp.questions.diff.divergence import Divergence, Found
from cideldill_mcp.questions.diff.inside import NOWHERE, Lines, Parting, Texts
from cideldill_mcp.questions.recordings.recorded import Call, ancestors
from cideldill_mcp.questions.texts.call_text import arguments_text, call_text, notes_of
from cideldill_mcp.questions.texts.fitting import (
    Answer,
    Item,
    clipped,
    counted,
    fit,
    left_out_text,
    short,
)
from cideldill_mcp.questions.trace.call_tree import heading, propose_trace

VALUE: Final = 100
"""Characters of a value on one side."""

_BEFORE: Final = 20
"""Characters of long values that are alike and shown before what differs."""

_VALUES: Final = 4
"""Differing values of one call that are shown."""

_LATER: Final = 3

_LINE: Final = 90
"""Characters of a line of source."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What the lines of the divergent calls show.

    Attributes:
        texts: The source of their function.
        parting: Where they part.
    """

    texts: Texts
    parting: Parting


@dataclass(frozen=True, slots=True)
class Compared:
    """All that is known of two sides.

    Attributes:
        left: One side.
        right: The other one.
        how: What the right side is, in a few words.
        found: Where they part.
        first: The first divergence; None: there is none.
        inside: The lines of its calls, if they are known.
        noise: What was left out.
        notes: Lines about the runs.
        is_changed: Whether the right side is the program with a change.
    """

    left: Side
    right: Side
    how: str
    found: Found
    first: Divergence | None
    inside: Inside | None
    noise: Noise
    notes: list[str] = field(default_factory=list)
    is_changed: bool = False


def diff_answer(compared: Compared, max_chars: int) -> Answer:
    """The answer, its text of at most so many characters."""
    items = [*_heads(compared), *_first(compared), *_later(compared), *_noise(compared)]

    text, left_out = fit(items, max_chars, left_out_text, room=70)
    return Answer(text, _fields(compared), bool(left_out), _next(compared))


def what_differs(compared: Compared) -> list[str]:
    """The lines about the first difference."""
    return [item.text for item in _first(compared)]


def _heads(compared: Compared) -> list[Item]:
    left, right = compared.left, compared.right
    how = f"  ({compared.how})" if compared.how else ""
    texts = [f"left:  {heading(left.test)}", f"right: {heading(right.test)}{how}"]
    notes = [*notes_of(left.recorded, left.test), *notes_of(right.recorded, right.test)]
    return [Item(text, -5.0) for text in (*texts, *dict.fromkeys((*compared.notes, *notes)))]


def _first(compared: Compared) -> list[Item]:
    found, first = compared.found, compared.first
    if first is None:
        if found.is_equal:
            is_alike = compared.left.test.outcome == compared.right.test.outcome
            text = "equal: " if is_alike else "only the outcomes differ: "
            return [Item(f"{text}the same calls, arguments, results and changes", -4.0)]
        text = "no call with equal arguments did something else"
        return [*_entry(compared), Item(text, -3.0), *_only(found), *_alike(found)]
    items = _entry(compared) if found.entry is not first else []
    items += _path(first)
    items += _what(first)
    items += _lines(compared)
    return items if first.has_same_input else [*items, *_alike(found, first)]


def _entry(compared: Compared) -> list[Item]:
    """Where the inputs of the tests come in."""
    entry = compared.found.entry
    if entry is None or entry.left is None:
        return []
    values = ", ".join(value_text(difference, 40) for difference in entry.differences[:_VALUES])
    return [Item(f"inputs differ: {entry.left.code.name}: {values}", -2.0)]


def _only(found: Found) -> list[Item]:
    """Calls that one of two tests makes."""
    alone = [each.child for each in found.suspects if each.how == "call" and each.child is not None]
    return [Item(f"{_only_side(both)}  {either(both).code.place}", 0.8) for both in alone[:_LATER]]


def _only_side(child: Both) -> str:
    """`only left: total(n=3) → 5`: a call that one side makes."""
    return f"only {'right' if child[0] is None else 'left'}: {call_text(either(child))}"


def _alike(found: Found, first: Divergence | None = None) -> list[Item]:
    """Calls for which other arguments made no difference."""
    items = []
    for divergence in found.alike:
        if divergence is first:
            continue
        call = divergence.left
        assert call is not None
        values = ", ".join(value_text(value, 40) for value in divergence.inputs[:2])
        end = short(call.error or call.result or "", 60)
        items.append(Item(f"  {call.code.name}: {values}: → {end}  {call.code.place}", 1.0))
    return [Item("the same outcome for other arguments:", 1.0), *items] if items else []


def _path(first: Divergence) -> list[Item]:
    """The calls that lead there."""
    call = first.left
    if call is None:
        return [Item("they part where pytest calls:", -3.0)]
    path = [*ancestors(call), call]
    what = "the same arguments" if first.has_same_input else "other arguments"
    head = f"first difference: in {call.code.name}, which got {what}  {call.code.place}"
    items = [Item(head, -4.0)]
    steps = [*path[:4], *path[-3:]] if len(path) > 8 else path
    for at, step in enumerate(steps):
        if len(path) > 8 and at == 4:
            items.append(Item(f"{'  ' * at}… {counted(len(path) - 7, 'call')}", 1.0))
        number = f"  call {step.ordinal}" if step is call and step.ordinal > 1 else ""
        place = step.code.place
        if step.parent is not None and step.line:
            place = f"called from {step.parent.code.file}:{step.line}"
        text = f"{'  ' * (at + 1)}{step.code.name}({arguments_text(step)}){number}  {place}"
        items.append(Item(text, -2.0 if step is call else 1.0))
    return items


def _what(first: Divergence) -> list[Item]:
    """What differs."""
    items: list[Item] = []
    if not first.differences and first.child is None:
        items.append(Item("it went another way, to the same outcome", -3.0))
    elif first.how == "outcome":
        items.append(Item("it does something else:", -3.0))
    elif first.child is not None:
        call = either(first.child)
        line = f", line {call.line}" if call.line else ""
        if first.how == "call":
            return [Item(f"{_only_side(first.child)}  {call.code.place}{line}", -3.0)]
        items.append(Item(f"it calls {call.code.name} with other arguments{line}:", -3.0))
    for at, difference in enumerate(first.differences[:_VALUES]):
        items.append(Item(f"  {value_text(difference)}", -3.0 if at == 0 else 0.5 + at))
    more = len(first.differences) - _VALUES
    if more > 0:
        items.append(Item(f"  … {more} more", 1.5))
    return items


def _lines(compared: Compared) -> list[Item]:
    """The first line and branch inside that differ."""
    if compared.inside is None:
        return []
    texts, parting = compared.inside.texts, compared.inside.parting
    file = texts.left.file
    items: list[Item] = []
    if parting.changed not in (NOWHERE, parting.branch, parting.value_at):
        head = "first changed line" if 0 not in parting.changed else _alone(parting.changed)
        items.append(Item(f"{head}, {file}:{_shown(texts, parting.changed)}", -2.6))
    if parting.value is not None:
        name, left, right = parting.value
        head, value = "first differing value", value_text(Difference(name, left, right))
        if 0 in parting.value_at:
            value = f"{name}: {short(left if parting.value_at[0] else right, VALUE)}"
            head = _alone(parting.value_at)
        items.append(Item(f"{head}, {file}:{_shown(texts, parting.value_at)}  → {value}", -2.5))
    if parting.has_branch:
        is_first = parting.branch == NOWHERE
        head = " the first line" if is_first else _shown(texts, parting.branch)
        items.append(Item(f"first differing branch, {file}:{head}", -2.5))
        next_left = _shown(texts, (parting.left, 0)) if parting.left else "leaves"
        next_right = _shown(texts, (0, parting.right)) if parting.right else "leaves"
        items += [Item(f"  left → {next_left}", -2.4), Item(f"  right → {next_right}", -2.4)]
    return items


def _alone(lines: Lines) -> str:
    """What is said of a line that one side has run and the other one does not have."""
    return f"only {'left' if lines[0] else 'right'} ran"


def _shown(texts: Texts, lines: Lines) -> str:
    """`7  if weight < 10:`; `7 | 9  …` if the numbers differ, and both texts if those do."""
    left, right = lines
    if left and right and texts.is_changed(lines):
        each = _LINE * 2 // 3
        ours, theirs = texts.left.statement(left), texts.right.statement(right)
        ours, theirs = around(ours, theirs, each)
        return f"{left}  {ours} | {right}  {theirs}"
    numbers = f"{left} | {right}" if left and right and left != right else f"{left or right}"
    text = texts.left.statement(left) if left else texts.right.statement(right)
    return f"{numbers}  {clipped(text, _LINE)}"


def _later(compared: Compared) -> list[Item]:
    first = compared.first
    divergences = compared.found.divergences
    later = [each for each in divergences if first is None or each.left is not first.left]
    items = []
    for divergence in later[:_LATER]:
        call = divergence.left
        where = f"{call.code.name}{_number(call)}  {call.code.place}" if call else "pytest"
        what = "; ".join(value_text(value, 50) for value in divergence.differences[:2])
        if divergence.child is not None:
            if divergence.how == "call":
                what = _only_side(divergence.child)
            else:
                what = f"calls {either(divergence.child).code.name} with {what}"
        items.append(Item(f"  {where}: {what}", 2.0))
    return [Item("later, not because of it:", 2.0), *items] if items else []


def _noise(compared: Compared) -> list[Item]:
    count = compared.noise.count
    if not count:
        return []
    functions = dict.fromkeys(function for function, _ in sorted(compared.noise.values))
    shown = ", ".join(name or "the test" for name in list(functions)[:3])
    where = f" ({shown}{', …' if len(functions) > 3 else ''})" if shown else ""
    text = f"noise: {counted(count, 'value')} that differ between two runs of left{where}"
    return [Item(text, 3.0)]


def _number(call: Call) -> str:
    return f" call {call.ordinal}" if call.ordinal > 1 else ""


def value_text(difference: Difference, most: int = VALUE) -> str:
    """`order.total: 3 | 4`: a value on both sides."""
    left, right = around(difference.left, difference.right, most)
    return f"{difference.path}: {left} | {right}"


def around(left: str, right: str, most: int) -> tuple[str, str]:
    """Two texts, of long ones the part where they begin to differ."""
    if max(len(left), len(right)) <= most or ABSENT in (left, right):
        return short(left, most), short(right, most)
    same = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    start = max(0, (min(len(left), len(right)) if same is None else same) - _BEFORE)
    if start <= 1:
        return clipped(left, most), clipped(right, most)
    return clipped(f"…{left[start:]}", most), clipped(f"…{right[start:]}", most)


def _fields(compared: Compared) -> dict[str, Any]:
    left, right = compared.left.test, compared.right.test
    fields: dict[str, Any] = {
        "against": right.nodeid,
        "equal": compared.found.is_equal and left.outcome == right.outcome,
        "noise": compared.noise.count,
    }
    if (first := compared.first) is not None:
        fields["divergence"] = _divergence(first, compared.inside)
    return fields


def _divergence(first: Divergence, inside: Inside | None) -> dict[str, Any]:
    child = None if first.child is None else either(first.child)
    call = first.left or child
    assert call is not None
    line = call.code.first
    if child is not None and child.line:
        line = child.line
        if first.child is not None and first.child[0] is None and inside is not None:
            line = inside.texts.counterparts.left_near(line) or line
    elif inside is not None and inside.parting.line:
        line = inside.parting.line
    values: tuple[str, str, str] | None = None
    if first.differences:
        each = first.differences[0]
        values = each.path, *around(each.left, each.right, VALUE)
    elif first.child is not None:
        texts = [ABSENT if each is None else short(call_text(each), VALUE) for each in first.child]
        values = "calls", texts[0], texts[1]
    path, left, right = values or ("", "", "")
    place = {"function": call.code.dotted, "file": call.code.file, "line": line}
    return {**place, "path": path, "left": left, "right": right}


def _next(compared: Compared) -> list[str]:
    first = compared.first
    if first is None or first.left is None or first.right is None:
        return []
    sides = [(compared.left, first.left, "left"), (compared.right, first.right, "right")]
    steps = [
        propose_trace(side.test, call, f"each line of it on the {name}")
        for side, call, name in sides[: 1 if compared.is_changed else 2]
    ]
    return list(dict.fromkeys(steps))
