"""The passes over the statements of the chosen call, in loops and rounds, with branches taken.

What the rows don't have is derived from the syntax tree and from the line that ran next; where
this can't be known, nothing is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cideldill_mcp.questions.recordings.listing import Listing, LoopNode, Node, inside
from cideldill_mcp.questions.recordings.recorded import Event, Focus

_INDEX: Final = re.compile(r"\[[^\]]*\]")
ENDS: Final = "loop ends"
_HEADERS: Final = (
    ast.If,
    ast.While,
    ast.For,
    ast.AsyncFor,
    ast.ExceptHandler,
    ast.match_case,
    ast.With,
    ast.AsyncWith,
)
LEAVES: Final = "leaves it"


@dataclass(slots=True, eq=False)
class Step:
    """One pass over a statement or a header.

    Attributes:
        line: Its first line; 0 for what happened before the first, or in lines that are missing.
        events: What happened in it, in order.
        branch: Which way it went: `true`, `loop ends`, `caught`; empty if that is no question.
        gap: Why lines are missing here.
    """

    line: int
    events: list[Event] = field(default_factory=list)
    branch: str = ""
    gap: str = ""

    def of(self, kind: str) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if event[0] == kind]


@dataclass(slots=True, eq=False)
class Round:
    """One round of a loop.

    Attributes:
        items: What ran in it; the first one is the header, but after a gap.
        path: A number for the way that it took.
        key: A number for the way, and the names that changed.
    """

    items: list[Step | Loop] = field(default_factory=list)
    path: int = 0
    key: int = 0


@dataclass(slots=True, eq=False)
class Loop:
    """A loop from its begin to its end.

    Attributes:
        line: Of its header.
        rounds: In order.
        end: The pass over the header that ended it; None: it was left otherwise.
        is_rest: Whether rounds before are missing.
    """

    node: LoopNode
    line: int
    rounds: list[Round] = field(default_factory=list)
    end: Step | None = None
    is_rest: bool = False


Items = list[Step | Loop]


def structured(focus: Focus, listing: Listing) -> Items:
    """The steps of a call, in loops."""
    steps = _steps(focus, listing)
    _find_branches(steps, listing, has_ended=focus.call.result is not None)
    items = _nested(_without_quiet(steps, listing), listing)
    _Paths().number(items)
    return items


def _steps(focus: Focus, listing: Listing) -> list[Step]:
    """Lines of one statement in a row are one step."""
    steps: list[Step] = []
    start = listing.start
    for line in focus.lines:
        first = start(line.number) if line.number else 0
        if not steps or steps[-1].line != first or steps[-1].gap:
            steps.append(Step(first))
        for event in line.events or ():
            if event[0] == "gap":
                steps.append(Step(0, gap=event[1]))
            else:
                steps[-1].events.append(event)
    return steps


# --- branches -----------------------------------------------------------------------------------


def _find_branches(steps: Sequence[Step], listing: Listing, *, has_ended: bool) -> None:
    """Find out by the next step which way each header went."""
    headers = {line: node for line, node in listing.nodes.items() if isinstance(node, _HEADERS)}
    # A loop goes the same ways again and again.
    known: dict[tuple[int, int, int], str] = {}
    last = len(steps) - 1
    for at, step in enumerate(steps):
        node = headers.get(step.line)
        if node is None:
            continue
        if at < last:
            following = steps[at + 1]
            if following.gap:
                continue
            line = following.line
        elif has_ended:
            line = 0
        else:
            continue
        before = steps[at - 1].line if at else 0
        if step.events and step.of("raise"):
            continue
        way = (step.line, line, before)
        if way not in known:
            known[way] = _branch(node, *way)
        step.branch = known[way]


def _without_quiet(steps: Sequence[Step], listing: Listing) -> Iterator[Step]:
    """Leave out `try:`, and the ends of `with` blocks that no exception left."""
    raised = False
    for step in steps:
        node = listing.nodes.get(step.line)
        is_end = step.branch == LEAVES and not raised
        if step.events or not (is_end or isinstance(node, ast.Try | ast.TryStar)):
            yield step
        raised = bool(step.events and step.of("raise"))


def _branch(node: Node, line: int, following: int, before: int) -> str:
    """Which way a header went.

    Args:
        node: Its statement.
        line: Where it is.
        following: The line that ran next; 0: the function returned.
        before: The line that ran before.
    """
    if isinstance(node, ast.With | ast.AsyncWith):
        return LEAVES if inside(node, before) and before != line else ""
    if inside(node, line):
        return ""  # on one line: both ways look alike
    is_in = inside(node, following)
    if isinstance(node, ast.If):
        return "true" if is_in else "false"
    if isinstance(node, ast.ExceptHandler):
        return "caught" if is_in else "no match"
    if isinstance(node, ast.match_case):
        return "matches" if is_in else "no match"
    return "" if is_in else ENDS


# --- loops --------------------------------------------------------------------------------------


def _nested(steps: Iterable[Step], listing: Listing) -> Items:
    top: Items = []
    stack: list[Loop] = []
    loops = listing.loops
    before: tuple[LoopNode, ...] = ()
    has_gap = False
    for step in steps:
        if step.gap:
            # Nobody knows in which round it goes on.
            stack.clear()
            before = ()
            top.append(step)
            has_gap = True
            continue
        around = loops.get(step.line, ()) if step.line else before
        if around is not before:
            while stack and tuple(loop.node for loop in stack) != around[: len(stack)]:
                stack.pop()
            before = around
        if stack and stack[-1].end is not None and stack[-1].line == step.line:
            stack.pop()  # it begins again
        while len(stack) < len(around):
            node = around[len(stack)]
            loop = Loop(node, node.lineno, is_rest=has_gap)
            _container(top, stack).append(loop)
            stack.append(loop)
        has_gap = False
        if stack and stack[-1].line == step.line:
            if step.branch == ENDS:
                stack[-1].end = step
            else:
                stack[-1].rounds.append(Round([step]))
        else:
            _container(top, stack).append(step)
    return top


def _container(top: Items, stack: list[Loop]) -> Items:
    if not stack:
        return top
    rounds = stack[-1].rounds
    if not rounds:
        rounds.append(Round())
    return rounds[-1].items


# --- paths --------------------------------------------------------------------------------------


class _Paths:
    """Numbers for the ways that rounds took: equal for equal ways.

    How often an inner loop went round is no part of its way, nor is the index of an item that
    changed.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._names: dict[str, str] = {}

    def number(self, items: Items) -> None:
        """Number all rounds inside."""
        for item in items:
            if isinstance(item, Loop):
                self._of_loop(item)

    def _of_loop(self, loop: Loop) -> tuple[Hashable, Hashable]:
        for each in loop.rounds:
            paths, keys = [], []
            for item in each.items:
                path, names = self._of_loop(item) if isinstance(item, Loop) else self._of_step(item)
                paths.append(path)
                keys.append(names)
            way = tuple(paths)
            each.path = self._number(way)
            each.key = self._number((way, tuple(keys)))
        is_ended = loop.end is not None
        paths_inside = tuple(dict.fromkeys(each.path for each in loop.rounds))
        keys_inside = tuple(dict.fromkeys(each.key for each in loop.rounds))
        return (loop.line, is_ended, paths_inside), keys_inside

    def _of_step(self, step: Step) -> tuple[Hashable, Hashable]:
        if not step.events:
            return (step.line, step.branch), ()
        way: list[Hashable] = []
        names: set[str] = set()
        for event in step.events:
            kind = event[0]
            if kind == "change":
                names.add(self._name(event[1]))
            elif kind == "call":
                way.append((event[1].code.number, event[1].error))
            else:
                way.append(event if kind == "raise" else kind)
        path = (step.line, step.branch, *dict.fromkeys(way))
        return path, tuple(sorted(names))

    def _name(self, name: str) -> str:
        if "[" not in name:
            return name
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = _INDEX.sub("[]", name)
        return found

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
