"""Where the wrong value of a failure came from: the inmost call that gave it, or raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cideldill_mcp.questions.diff.differences import RESULT, Difference
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.recorded import (
    BODIES,
    Call,
    Code,
    Failed,
    Recorded,
    RecordedTest,
    ancestors,
    descendants,
)
from cideldill_mcp.questions.texts.call_text import path_of_failure
from cideldill_mcp.questions.why.differing_parts import first_difference
from cideldill_mcp.questions.why.mock_calls import first_other_argument
from pytest_cideldill.sourcecode.quiet import literal

_USUAL: Final = frozenset(
    {"None", "True", "False", "0", "1", "-1", "''", "b''", "[]", "()", "{}", "set()"}
)
"""Values that many calls return; they say something on the failing line only."""

_SIDES: Final = ("left", "right")

_PARTS: Final = 2
"""Leaves of a value that has parts, at least: itself, and one."""

_UNLIKELY_TWICE: Final = 4
"""Characters of a value inside of another, at least, that is hardly there twice by chance."""

_GENERATORS: Final = frozenset({"generator", "async_generator"})
_ITEMS: Final = 4
"""Items that are shown of those that a generator yielded."""

_MISMATCH: Final = re.compile(r"Regex pattern did not match\.|\".*\" does not match \"", re.DOTALL)
"""Of pytest and of `unittest`."""

_CALLED: Final = re.compile(r"(\w+)\(")
_STEP: Final = re.compile(r"(?:\.\w+|\['[^']*'\]|\[\d+\])$")
"""The attribute or item at the end of an expression."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The call that a wrong value came from.

    Attributes:
        chain: The calls from the test to it, outermost first; each but the first gave the value
            that the one before gave.
        text: The value; empty: it raised.
        side: `left` or `right` of the comparison, `for left` if it was changed further, the
            argument of a mock, or the name of a variable; empty: it raised.
        path: Where in that side the value is; empty: it is the side.
    """

    chain: list[Call]
    text: str = ""
    side: str = ""
    path: str = ""

    @property
    def call(self) -> Call:
        """The inmost one."""
        return self.chain[-1]


@dataclass(frozen=True, slots=True)
class Earlier:
    """The call that had made a value before the origin read it, or got it.

    Attributes:
        call: The last that left it there, or returned it.
        path: Where it was left; empty: it was returned.
    """

    call: Call
    path: str = ""


class OriginSearch:
    """Looks for where the values of a failing line came from.

    Args:
        recorded: Has the test.
        test: The test.
        files: The sources of what it called.
    """

    def __init__(self, recorded: Recorded, test: RecordedTest, files: SourceFiles) -> None:
        self._recorded, self._test, self._files = recorded, test, files
        self._file, _, rest = test.nodeid.partition("::")
        self._name = rest.partition("[")[0].rpartition("::")[2]
        self._dropped: dict[tuple[int, int, str], bool] = {}
        self._ended = sorted(
            (call for call in test.calls.values() if call.has_ended and call.ended_at),
            key=lambda call: call.ended_at,
        )
        self._with_result: dict[str, list[Call]] = {}
        for call in self._ended:
            if call.result is not None:
                self._with_result.setdefault(call.result, []).append(call)
        self._calls: list[Call] = []

    def origin(self) -> Origin | None:
        """Where the wrong value came from; None: it is not known."""
        phase, failed = self._test.failure, self._test.failed
        if phase is None:
            return None
        if failed is None or not failed.op:
            path = path_of_failure(self._test, phase)
            if any(not self._is_test(call.code) for call in path):
                return Origin(path)
        return None if failed is None else self._of_values(failed)

    def made_before(self, origin: Origin) -> Earlier | None:
        """Who made a value that the origin only handed on; None: it did not, or is not known."""
        call, text = origin.call, origin.text
        if _says_little(text) or (
            origin.path and call.result != text and len(text) < _UNLIKELY_TWICE
        ):
            return None
        gave = [each for each in self._before(call, text) if self._returned(each, text)]
        if any(shown == text for _, shown in call.args):
            return Earlier(self._inward(gave[-1], text)[-1]) if gave else None
        earlier = [each for each in self._ended if each.ended_at < call.begun_at]
        left = _States(self._recorded, earlier)
        for name, state in (call.begun or {}).items():
            for path, leaf in self._recorded.leaves.get(state, {}).items():
                if leaf == text and path != name and (found := left.by(name, state, path)):
                    maker = next((each for each in gave if found in ancestors(each)), None)
                    if maker is not None:
                        return Earlier(maker)
                    return Earlier(self._giver(found, text), path.removeprefix(name))
        return None

    def _giver(self, call: Call, text: str) -> Call:
        """The call that gave a value to one that left it: not a constructor, if it was given it."""
        while any(shown == text for _, shown in call.args):
            if call.parent is None or not call.parent.number or self._is_test(call.parent.code):
                break
            call = call.parent
        return call

    def fed_by(self, receiver: Call) -> list[list[Call]]:
        """The calls that gave what a call got, for each argument from the outermost to the inmost;
        the last argument comes first.
        """
        found: list[list[Call]] = []
        for _, text in reversed(receiver.args):
            gave = [] if _says_little(text) else self._before(receiver, text)
            if gave and gave[-1].code is not receiver.code:
                chain = self._inward(gave[-1], text)
                found.append(chain[chain.index(gave[-1]) :])
        return found

    def _before(self, call: Call, text: str) -> list[Call]:
        """The calls with a result that had ended when a call began, in order."""
        found = self._with_result.get(text, ())
        return [each for each in found if each.ended_at < call.begun_at]

    def _is_test(self, code: Code) -> bool:
        """Whether it is the function of the test."""
        return code.file == self._file and _bare(code) == self._name

    # --- what calls gave --------------------------------------------------------------------

    def _returned(self, call: Call, text: str) -> bool:
        """Whether a call gave its caller a value: not where the caller's statement drops it."""
        return call.result == text and not self._is_dropped(call)

    def _is_dropped(self, call: Call) -> bool:
        """Whether the call is a statement by itself, as far as that can be seen."""
        if call.parent is None or not call.line or call.via:
            return False
        name = _bare(call.code)
        key = call.parent.code.number, call.line, name
        if key not in self._dropped:
            listing = self._files.listing(call.parent.code)
            statement = listing.nodes.get(listing.start(call.line))
            self._dropped[key] = _is_call_of(statement, name)
        return self._dropped[key]

    def _inward(self, call: Call, text: str) -> list[Call]:
        """From a call to the inmost one that gave the same."""
        chain = [*ancestors(call), call]
        while True:
            inner = [child for child in chain[-1].children if self._returned(child, text)]
            if not inner or inner[-1].code.kind in BODIES:
                return chain
            chain.append(inner[-1])

    # --- the sides of a comparison, and variables -------------------------------------------

    def _of_values(self, failed: Failed) -> Origin | None:
        """The origin of a side of the comparison, or else of a variable of the line."""
        self._calls = [
            call
            for phase in self._test.phases
            for root in phase.roots
            for call in descendants(root)
            if call.has_ended and call.ended_at <= failed.raised_at
            if call.code.kind not in BODIES and not self._is_test(call.code)
        ]
        self._calls.sort(key=lambda call: call.ended_at)
        if not failed.op:
            found = self._of_argument(failed) or self._of_mismatch(failed)
            return found or self._of_local(failed)
        inside = first_difference(failed)
        origin = self._of_side(failed) if inside is None else self._of_inside(failed, inside)
        if origin is not None:
            return self._before_handing_on(origin)
        return self._of_expression(failed) or self._of_local(failed)

    def _before_handing_on(self, origin: Origin) -> Origin:
        """Without the last calls if they left what they were given: a constructor, say."""
        chain = list(origin.chain)
        while origin.path and len(chain) > 1 and not _says_little(origin.text):
            is_given = any(shown == origin.text for _, shown in chain[-1].args)
            if not is_given or self._is_test(chain[-2].code):
                break
            chain.pop()
        return replace(origin, chain=chain)

    def _of_side(self, failed: Failed) -> Origin | None:
        """The last call that gave a side as its result, or left it in an attribute or item.

        A side that names a function which was called comes first.
        """
        expressions = dict(zip(_SIDES, failed.expressions, strict=True))
        called = {_bare(call.code) for call in self._calls}
        for side, text in sorted(
            _sides(failed, failed.left, failed.right),
            key=lambda each: called.isdisjoint(_CALLED.findall(expressions[each[0]])),
        ):
            step = _STEP.search(expressions[side])
            origin = self._of_operand(side, text)
            if origin is None and step is not None:
                origin = self._of_attribute(side, text, step[0])
            if origin is not None:
                return origin
        return None

    def _of_operand(self, side: str, text: str) -> Origin | None:
        gave = [call for call in self._calls if self._returned(call, text)]
        if _says_little(text):  # only what the test called itself, and last
            gave = [each for each in gave[-1:] if each is self._calls[-1] and self._is_outer(each)]
        if not gave:
            return None
        outer = next(filter(self._is_outer, reversed(gave)), gave[-1])
        return Origin(self._inward(outer, text), text, side)

    def _is_outer(self, call: Call) -> bool:
        """Whether the test called it itself."""
        return call.parent is not None and self._is_test(call.parent.code)

    def _of_argument(self, failed: Failed) -> Origin | None:
        """The last call that gave the argument of a mock that was to be another one."""
        argument = first_other_argument(failed.message)
        if argument is None or _says_little(argument.actual):
            return None
        return self._of_operand(argument.place, argument.actual)

    def _of_mismatch(self, failed: Failed) -> Origin | None:
        """The call that raised what `pytest.raises(…, match=…)` or `assertRaisesRegex` expected
        with another text.
        """
        if _MISMATCH.match(failed.message) is None:
            return None
        raised = (call for call in reversed(self._calls) if call.error is not None)
        outer = next(filter(self._is_outer, raised), None)
        if outer is None:
            return None
        chain = [*ancestors(outer), outer]
        while inner := [call for call in chain[-1].children if call.error == outer.error]:
            chain.append(inner[-1])
        return Origin(chain)

    def _of_attribute(self, side: str, text: str, step: str) -> Origin | None:
        left = [call for call in self._calls if _has_left(self._recorded, call, step, text)]
        outer = {id(ancestor) for call in left for ancestor in ancestors(call)}
        inner = [call for call in left if id(call) not in outer]
        return Origin([*ancestors(inner[-1]), inner[-1]], text, side, step) if inner else None

    def _of_inside(self, failed: Failed, inside: Difference) -> Origin | None:
        """The first call that gave what differs: as its result, or inside of it at such a place."""
        step = inside.path[max(inside.path.rfind("."), inside.path.rfind("[")) :]
        sides = _sides(failed, inside.left, inside.right)
        for side, text in sides:
            whole = _below(failed.insides[side], inside.path)
            gave = next((call for call in self._calls if self._gives(call, text, whole)), None)
            if gave is not None and not _says_little(text):
                shown = text if len(whole) < _PARTS else gave.result or text
                return Origin([*ancestors(gave), gave], shown, side, inside.path)
        for side, text in sides:
            for call in self._calls:
                if _has_left(self._recorded, call, step, text):
                    return Origin([*ancestors(call), call], text, side, inside.path)
        return None

    def _gives(self, call: Call, text: str, whole: dict[str, str]) -> bool:
        """Whether a call returned or yielded a value, which is `whole` if it has parts."""
        if len(whole) < _PARTS:
            return call.result == text or ("yield", text) in (call.moves or ())
        state = (call.ended or {}).get(RESULT, "")
        return _below(self._recorded.leaves.get(state, {}), RESULT) == whole

    def _of_expression(self, failed: Failed) -> Origin | None:
        """The last call of a function that a side names, where its result was changed further.

        Of `f(g(x))` that is `f`.
        """
        for side, expression in zip(_SIDES, failed.expressions, strict=True):
            names = set(_CALLED.findall(expression))
            calls = (call for call in reversed(self._calls) if call.result is not None)
            gave = next((call for call in calls if _bare(call.code) in names), None)
            if gave is not None:
                text = items_text(gave) or gave.result or ""
                return Origin([*ancestors(gave), gave], text, f"for {side}")
        return None

    def _of_local(self, failed: Failed) -> Origin | None:
        """The last call that returned what a variable of the failing line is."""
        for name, text in failed.locals:
            calls = () if _says_little(text) else reversed(self._calls)
            gave = next((call for call in calls if self._returned(call, text)), None)
            if gave is not None:
                return Origin(self._inward(gave, text), text, name)
        return None


class _States:
    """Follows an object back through the calls that changed it, by the states they left it in.

    Args:
        recorded: Has the states.
        calls: In the order of their ends.
    """

    def __init__(self, recorded: Recorded, calls: Sequence[Call]) -> None:
        self._recorded = recorded
        self._left: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            for name, state in (call.ended or {}).items():
                self._left.setdefault((name, state), []).append(call)

    def by(self, name: str, state: str, path: str) -> Call | None:
        """The inmost call that made a part of an object what it is in a state.

        Args:
            name: By which calls have the object.
            state: Of the object.
            path: Of the part.
        """
        leaves = self._recorded.leaves
        value, seen = leaves.get(state, {}).get(path), {state}
        while state and (calls := self._left.get((name, state))):
            call = calls[0]  # those around it end later
            before = (call.begun or {}).get(name, "")
            if leaves.get(before, {}).get(path) != value:
                return call
            if before in seen:
                return None
            seen.add(before)
            state = before
        return None


def _is_call_of(statement: ast.AST | None, name: str) -> bool:
    """Whether a statement is the call of a function, and nothing else."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return called == name


def _bare(code: Code) -> str:
    """The name of a function without what it is in."""
    return code.name.rpartition(".")[2]


def _sides(failed: Failed, left: str, right: str) -> list[tuple[str, str]]:
    """Both sides with texts of theirs, but for a literal, which no call gave."""
    sides = zip(zip(_SIDES, (left, right), strict=True), failed.expressions, strict=True)
    return [side for side, expression in sides if not _is_literal(expression)]


def items_text(call: Call) -> str:
    """The first items that a generator yielded; empty: it is none, or yielded nothing."""
    if call.code.kind not in _GENERATORS:
        return ""
    items = [text for kind, text in call.moves or () if kind == "yield"]
    more = ", …" if len(items) > _ITEMS else ""
    return ", ".join(items[:_ITEMS]) + more


def _below(leaves: dict[str, str], path: str) -> dict[str, str]:
    """A part of a value, with the paths in it."""
    return {
        each.removeprefix(path): text
        for each, text in leaves.items()
        if each == path or each.startswith((f"{path}.", f"{path}[", f"{path}{{"))
    }


def _has_left(recorded: Recorded, call: Call, step: str, text: str) -> bool:
    """Whether a call gave or left a value at a path that ends so."""
    return any(path.endswith(step) and leaf == text for path, leaf in _leaves(recorded, call))


def _leaves(recorded: Recorded, call: Call) -> Iterator[tuple[str, str]]:
    """What a call gave, or left in its arguments."""
    for name, state in (call.ended or {}).items():
        leaves = recorded.leaves.get(state, {})
        before = {} if name == RESULT else recorded.leaves.get((call.begun or {}).get(name, ""), {})
        yield from (item for item in leaves.items() if before.get(item[0]) != item[1])


def _is_literal(expression: str) -> bool:
    try:
        literal(expression)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _says_little(text: str) -> bool:
    """Whether many values are like it."""
    return not text or text in _USUAL
