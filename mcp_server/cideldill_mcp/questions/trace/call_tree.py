"""Answers `test_trace` without a function: the tree of user code's calls in one test.

Calls alike are folded: of the rounds of a loop the first, the second, the last and each that
differs are shown; of a recursion its outer and inner ends. What raised, what is near the failure
and what differs is kept longest when the text gets too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from cideldill_mcp.questions.recordings.ran import Key, key_of
from cideldill_mcp.questions.recordings.recorded import (
    BODIES,
    Call,
    Phase,
    Recorded,
    RecordedTest,
    descendants,
)
from cideldill_mcp.questions.recordings.row_reader import without_collector
from cideldill_mcp.questions.texts.call_text import (
    EXPLAINED,
    RESULT,
    call_text,
    explained_text,
    library_text,
    notes_of,
    path_of_failure,
    short_call_text,
)
from cideldill_mcp.questions.texts.fitting import MAX_CHARS, Answer, Item, counted, fit, short
from cideldill_mcp.questions.texts.folding import MIN_ROUNDS, Folded, folded, span_text
from cideldill_mcp.questions.trace.call_shapes import Round, Shapes, runs_of
from cideldill_mcp.replies.proposals import proposal

MIN_CHAIN: Final = 7
"""Levels of a recursion that are folded in the middle."""

MAX_PERIOD: Final = 3
"""Functions that call each other in a recursion that is recognized."""

ENDS_OF_PATH: Final = 2
"""Calls at both ends of the way of a failure that stay longer than those between."""

NARROW: Final = 12
"""Levels from which on each is indented by one space."""


@dataclass(slots=True, eq=False)
class _Node(Item):
    """A line of the tree.

    Attributes:
        call: Which it shows, or the first that it stands for.
        above: The line that it hangs on.
    """

    call: Call | None = None
    above: _Node | None = None


def tree_answer(
    recorded: Recorded,
    test: RecordedTest,
    *,
    depth: int | None = None,
    max_chars: int = MAX_CHARS,
) -> Answer:
    """The tree of calls of a test.

    Args:
        recorded: What its process left.
        test: One of its tests.
        depth: Levels below the phase that are shown; None: as many as there is room for.
        max_chars: Most characters of the text.
    """
    with without_collector():
        tree = _Tree(test)
        items, deeper = tree.items(depth)
    notes = [Item(note, -2.0) for note in notes_of(recorded, test)]
    if not test.calls:
        notes.append(Item("no call of user code was recorded", -2.0))
    all_items: list[Item] = [Item(heading(test), -3.0), *notes, *items]

    def closing(left_out: Sequence[Item]) -> str:
        return tree.closing([item for item in left_out if isinstance(item, _Node)], deeper)

    text, left_out = fit(all_items, max_chars, closing, tree.mark)
    if deeper and not left_out:
        line = tree.closing([], deeper)
        text = f"{text}\n{line}" if len(text) + len(line) < max_chars else text
    missing = [item for item in left_out if isinstance(item, _Node)]
    fields = {"nodeid": test.nodeid, "outcome": test.outcome, "calls": len(test.calls)}
    return Answer(text, fields, bool(left_out or deeper), _next(test, tree.heaviest(missing)))


def path_text(
    test: RecordedTest,
    phase: Phase,
    wanted: Sequence[Call],
    spoken: Collection[Key],
    max_chars: int,
) -> str:
    """The calls of one phase in short lines, within a size.

    Args:
        test: The test.
        phase: One of its phases.
        wanted: A chain of calls; it stays longest, then the functions in its last one, each once.
        spoken: Functions that stay as long.
        max_chars: Most characters of the text.
    """
    with without_collector():
        tree = _Tree(test, wanted, is_short=True)
        nodes, _ = tree.items(None, [phase])
        _prefer_functions(nodes, wanted, spoken)

    def closing(left_out: Sequence[Item]) -> str:
        count = sum(item.weight for item in left_out)
        return f"  … {counted(count, 'call')} more" if count else "  …"

    return fit(nodes[1:], max_chars, closing, tree.mark, room=30)[0]


def _prefer_functions(
    nodes: Sequence[_Node], wanted: Sequence[Call], spoken: Collection[Key]
) -> None:
    """Let the first line of each function stay longer than further ones."""
    inside = set(descendants(wanted[-1])) if wanted else set()
    seen: set[int] = set()
    for node in nodes:
        call = node.call
        if call is None or call.code.number in seen or call.code.kind in BODIES:
            continue
        seen.add(call.code.number)
        rank = 0.3 if key_of(call.code) in spoken else 0.4 if call in inside else 0.7
        node.rank = min(node.rank, rank + 0.001 * node.depth)
    _keep_above(nodes)


def _keep_above(nodes: Sequence[_Node], between: Collection[Call] = ()) -> None:
    """Let what is worth to be kept keep the lines above it."""
    for node in reversed(nodes):
        above = node.above
        if above is not None and node.rank < above.rank and above.call not in between:
            above.rank = node.rank


def heading(test: RecordedTest) -> str:
    """The test, its outcome, and the failure with its place."""
    failure = test.failure
    if failure is None:
        unusual = test.unusual
        why = f": {short(unusual.text, 200)}" if unusual is not None and unusual.text else ""
        return f"{test.nodeid}  {test.outcome}{why}"
    place = f"  {failure.file}:{failure.line}" if failure.file else ""
    return f"{test.nodeid}  {test.outcome}: {short(failure.text, 200)}{place}"


# --- the tree -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pending:
    """A call whose lines are to be made.

    Attributes:
        above: The line that it hangs on.
        rank: Of its line.
        inner: Is added to the ranks inside.
        ordinal: Whether its number is shown.
        times: How many rounds there are of it, if they are folded.
    """

    call: Call
    above: _Node
    rank: float
    inner: float = 0.0
    ordinal: bool = False
    times: int = 0


@dataclass(slots=True)
class _Skipped:
    """Calls that are alike others, in one line."""

    text: str
    first: Call
    above: _Node
    weight: int
    rank: float
    inner: Call | None = None


class _Tree:
    """Makes the lines of a test's calls.

    Args:
        test: The test.
        wanted: Calls that stay as long as those of a failure do.
        is_short: Whether values are cut shorter, and one phase alone is shown: with the calls that
            began in an earlier one, and went on in it.
    """

    def __init__(
        self, test: RecordedTest, wanted: Sequence[Call] = (), *, is_short: bool = False
    ) -> None:
        self._test = test
        self._is_short = is_short
        self._text = short_call_text if is_short else call_text
        self._shapes = Shapes(test.calls)
        paths = [path_of_failure(test, phase) for phase in test.phases if phase.outcome == "failed"]
        self._failing = {call for path in paths for call in path} | set(wanted)
        self._between = {call for path in paths for call in path[ENDS_OF_PATH:-ENDS_OF_PATH]}
        self._chains: dict[Call, tuple[int, Call, Call]] = {}
        self._chained: set[Call] = set()
        self._errors: Counter[str] = Counter()
        self._indent = "  "
        self._depth: int | None = None

    def items(
        self, depth: int | None, phases: Sequence[Phase] | None = None
    ) -> tuple[list[_Node], int]:
        """All lines in order, and how many calls are deeper than `depth`.

        Args:
            depth: Levels below a phase that are shown.
            phases: Whose calls are shown; None: those of all phases.
        """
        nodes: list[_Node] = []
        deeper = 0
        self._depth = depth
        for phase in self._test.phases if phases is None else phases:
            if phase.roots or phase.outcome == "failed":
                deeper += self._add_phase(phase, nodes, depth)
        deepest_line = max((node.depth for node in nodes), default=0)
        self._indent = " " if deepest_line > NARROW else "  "
        _keep_above(nodes, self._between)
        return nodes, deeper

    def _add_phase(self, phase: Phase, found: list[_Node], depth: int | None) -> int:
        is_failing = phase.outcome == "failed"
        base = 0.0 if is_failing else 1.0 if phase.name == "call" else 3.0
        name = phase.name or "before the tests"
        top = _Node(f"{name} ✗" if is_failing else name, base, 0, 0)
        found.append(top)
        roots = phase.roots
        if self._is_short:
            roots = [*phase.continued, *roots]
        for call in () if self._is_short else phase.continued:
            text = f"{call.code.name}() goes on, see above ✗ {short(call.error or '', RESULT)}"
            found.append(_Node(f"  {text}", base + 0.1, 1, 0, above=top))
        deeper = 0
        stack = list(reversed(self._entries(roots, top, base, is_failing)))
        while stack:
            entry = stack.pop()
            if depth is not None and entry.above.depth >= depth:
                deeper += self._weight(entry)
                continue
            node = self._node(entry)
            found.append(node)
            stack += reversed(self._inside(entry, node, found, depth))
        return deeper

    def _weight(self, entry: _Pending | _Skipped) -> int:
        if isinstance(entry, _Pending):
            return self._shapes.sizes[entry.call]
        return entry.weight + (self._shapes.sizes[entry.inner] if entry.inner else 0)

    def _node(self, entry: _Pending | _Skipped) -> _Node:
        depth = entry.above.depth + 1
        if isinstance(entry, _Skipped):
            text = entry.text
            return _Node(
                lambda: f"{self._indent * depth}… {text}",
                entry.rank,
                depth,
                entry.weight,
                call=entry.first,
                above=entry.above,
            )
        call, ordinal, times = entry.call, entry.ordinal, entry.times
        is_body = call.code.kind in BODIES and call.error is None
        return _Node(
            lambda: f"{self._indent * depth}{self._line(call, times, ordinal=ordinal)}",
            entry.rank,
            depth,
            self._shapes.sizes[call] if is_body else 1,
            call.code.place,
            call,
            entry.above,
        )

    def _line(self, call: Call, times: int, *, ordinal: bool) -> str:
        number = f"#{call.ordinal} " if ordinal else ""
        above = call.parent.thread if call.parent is not None else ""
        thread = f"[{call.thread or 'main thread'}] " if call.thread != above else ""
        inside = self._shapes.sizes[call] - 1
        is_body = call.code.kind in BODIES and call.error is None
        calls = f" ({counted(inside, 'call')} inside)" if is_body and inside else ""
        return f"{thread}{number}{self._text(call)}{f'  ×{times:,}' if times else ''}{calls}"

    def _inside(
        self, entry: _Pending | _Skipped, node: _Node, found: list[_Node], depth: int | None
    ) -> list[_Pending | _Skipped]:
        """What hangs on a line."""
        if isinstance(entry, _Skipped):
            return [] if entry.inner is None else [_Pending(entry.inner, node, entry.rank)]
        call = entry.call
        if call.code.kind in BODIES and call.error is None:
            return []
        if depth is None or node.depth < depth:
            found += self._beside(call, node, entry.rank + entry.inner + 1.3)
        return self._entries(call.children, node, entry.rank + entry.inner, call in self._failing)

    def _beside(self, call: Call, node: _Node, rank: float) -> Iterator[_Node]:
        """The lines of what a call has called of libraries, and of what explained its failure."""
        level = node.depth + 1
        texts = [f"lib: {library_text(call)}"] if call.library else []
        if call.explained and not self._is_short:
            texts.append(f"{EXPLAINED}{explained_text(call)}")
        for text in texts:
            yield _Node(partial(self._indented, text, level), rank, level, 0, above=node)

    def _indented(self, text: str, level: int) -> str:
        return f"{self._indent * level}{text}"

    # --- children -------------------------------------------------------------------------------

    def _entries(
        self, calls: Sequence[Call], above: _Node, rank: float, is_failing: bool
    ) -> list[_Pending | _Skipped]:
        """The lines of the children of one call.

        Near a failure the last ones are the most useful, elsewhere the first ones.
        """
        if not calls:
            return []
        entries: list[_Pending | _Skipped] = []
        for run in runs_of(calls):
            if len(run) < MIN_ROUNDS:
                entries += [_Pending(call, above, rank) for each in run for call in each]
            else:
                entries += self._folded(run, above, rank)
        for at, entry in enumerate(entries):
            distance = len(entries) - 1 - at if is_failing else at
            entry.rank += 1.0 + min(0.12 * distance, 1.5)
            if isinstance(entry, _Skipped):
                continue
            self._rate(entry)
            if entry.call in self._chains:
                entries[at] = self._levels(entry)
            else:
                self._find_chain(entry.call)
        return entries

    def _rate(self, entry: _Pending) -> None:
        call = entry.call
        if call in self._failing:
            entry.rank = 0.4 if call in self._between else 0.1
        elif call.error is not None:
            # The same exception goes through many calls, or is raised again and again.
            self._errors[call.error] += 1
            distinct, times = len(self._errors), self._errors[call.error]
            entry.rank = min(entry.rank, 0.6 + 0.02 * distinct + 0.15 * times)
        if call.code.kind in BODIES:
            entry.rank += 4.0

    def _folded(self, run: list[Round], above: _Node, rank: float) -> list[_Pending | _Skipped]:
        """First, second and last round, and those that differ; lines for the others."""
        fold = folded([self._shapes.of_round(each) for each in run])
        times = Counter(call.code.number for each in run for call in each)
        last = len(run) - 1
        entries: list[_Pending | _Skipped] = []
        for part in fold.parts:
            if isinstance(part, range):
                entries.append(self._skipped(run, fold, part, above, rank + 0.4))
                continue
            extra, inner = 0.0, 0.0
            if fold.is_odd(part):
                extra = -0.7
            elif part:
                extra, inner = (0.2, 1.5) if part == last else (0.6, 2.5)
            entries += [
                _Pending(
                    call,
                    above,
                    rank + extra,
                    inner,
                    ordinal=times[call.code.number] > 1,
                    times=len(run) if part == 0 and call is run[0][0] else 0,
                )
                for call in run[part]
            ]
        return entries

    def _skipped(
        self, run: list[Round], fold: Folded, span: range, above: _Node, rank: float
    ) -> _Skipped:
        """One line for rounds in a row that are like others."""
        weight = sum(self._shapes.sizes[call] for at in span for call in run[at])
        noun = "" if all(len(run[at]) == 1 for at in span) else "rounds"
        numbers = span_text([run[at][0].ordinal for at in span], "#")
        text = f"{numbers}: {fold.like(span, lambda at: f'#{run[at][0].ordinal}', noun)}"
        return _Skipped(text, run[span.start][0], above, weight, rank)

    # --- recursion ------------------------------------------------------------------------------

    def _find_chain(self, call: Call) -> None:
        """Note which levels of a recursion that begins with a call are left out."""
        if call in self._chained:
            return
        chain = [call]
        while (inner := self._recursion(chain[-1])) is not None:
            chain.append(inner)
        if len(chain) < MIN_CHAIN:
            return
        self._chained |= set(chain)
        beside = [self._shapes.beside(*levels) for levels in pairwise(chain)]
        usual = Counter(beside[2:-1]).most_common(1)[0][0]
        start = 2
        while start < len(chain) - 2:
            end = start
            while end < len(chain) - 2 and beside[end] == usual:
                end += 1
            if end - start > 1:
                entry = self._way(chain[start - 1], chain[start])
                self._chains[entry] = (end - start, chain[end - 1], chain[end])
            start = end + 1

    def _recursion(self, call: Call) -> Call | None:
        """The next call of the same function, if there is only one."""
        own, level = call.code, call.children
        for _ in range(MAX_PERIOD):
            same = [each for each in level if each.code is own]
            if same:
                return same[0] if len(same) == 1 else None
            if len(level) != 1:
                return None
            level = level[0].children
        return None

    @staticmethod
    def _way(outer: Call, inner: Call) -> Call:
        """The child of the outer call that leads to the inner one."""
        while inner.parent is not None and inner.parent is not outer:
            inner = inner.parent
        return inner

    def _levels(self, entry: _Pending) -> _Skipped:
        count, last, resumed = self._chains[entry.call]
        sizes = self._shapes.sizes
        ends = f"{self._text(entry.call)} … {self._text(last)}"
        text = f"{count} levels alike: {short(ends, 150)}"
        weight = sizes[entry.call] - sizes[resumed]
        return _Skipped(text, entry.call, entry.above, weight, entry.rank, resumed)

    # --- what is left out -----------------------------------------------------------------------

    def mark(self, before: Item | None, missing: Sequence[Item]) -> tuple[str, str]:
        """How many calls are missing: behind the call that they came from, or as a line."""
        count = sum(item.weight for item in missing)
        if not count:
            return "", ""
        level = min(item.depth for item in missing)
        if before is not None and level > before.depth:
            return f"  (+{counted(count, 'call')})", ""
        return "", f"{self._indent * level}… {counted(count, 'call')}"

    def heaviest(self, missing: Sequence[_Node]) -> Call | None:
        """The shown call inside of which most is left out."""
        gone = set(map(id, missing))
        sizes: Counter[Call] = Counter()
        for node in missing:
            above = node.above
            if above is not None and id(above) not in gone and node.call and above.call:
                sizes[above.call] += self._shapes.sizes[node.call]
        return max(sizes, key=lambda call: (sizes[call], -call.number), default=None)

    def closing(self, missing: Sequence[_Node], deeper: int) -> str:
        """The last line: what was left out, and how to get it."""
        parts = []
        count = sum(node.weight for node in missing)
        heavy = self.heaviest(missing)
        if deeper:
            parts.append(f"{counted(deeper, 'call')} deeper than {self._depth}")
        if count:
            most = f", most inside {heavy.code.name}" if heavy else ""
            parts.append(f"{counted(count, 'call')}{most}")
        elif missing:
            parts.append(f"{counted(len(missing), 'line')} of library calls")
        how = f": test_trace {_ask_for(heavy)}" if heavy else ": a larger max_chars or depth"
        return f"left out: {'; '.join(parts) or 'less useful lines'}{how}"


def _ask_for(call: Call) -> str:
    """`function=shop.cart.Cart.add call=2`."""
    number = f" call={call.ordinal}" if call.ordinal > 1 else ""
    return f"function={call.code.dotted}{number}"


def _next(test: RecordedTest, heavy: Call | None) -> list[str]:
    """The calls that show more: of what raised, of what returned before a failure."""
    steps: dict[Call, str] = {}
    failure = test.failure
    path = path_of_failure(test, failure) if failure else []
    if path:
        inmost = path[-1]
        if len(path) > 1:
            steps[inmost] = "each line of the call that the exception left first"
        returned = [child for child in inmost.children if child.code.kind not in BODIES]
        if returned:
            steps.setdefault(returned[-1], "each line of the call that returned before it")
        steps.setdefault(path[0], "each line of the test")
    if heavy is not None and heavy.code.kind not in BODIES:
        steps.setdefault(heavy, "each line of it, and its calls")
    return [propose_trace(test, call, why) for call, why in list(steps.items())[:3]]


def propose_trace(test: RecordedTest, call: Call, why: str) -> str:
    """The question that shows each line of a call."""
    number = {"call": call.ordinal} if call.ordinal > 1 else {}
    return proposal("test_trace", why, nodeid=test.nodeid, function=call.code.dotted, **number)
