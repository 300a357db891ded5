"""What a frame had set before an exception left it: attributes, items and globals.

Only what is certain: by the flow of control, each way to the instruction that raised passes through
the assignment. On the threads of the program, from data alone; objects are referred to weakly.
"""

from __future__ import annotations

import ast
import dis
import json
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, NamedTuple
from weakref import ref

from pytest_cideldill.calltraces.named import MISSING, Chain, Reader, Step, chain_of
from pytest_cideldill.calltraces.value_texts import Values
from pytest_cideldill.interpreter.frame_locals import read_aside
from pytest_cideldill.interpreter.loaded_names import module_dict_of
from pytest_cideldill.rendering import layout
from pytest_cideldill.sourcecode.quiet import parse_expression
from pytest_cideldill.tracing.code_shapes import exception_targets
from pytest_cideldill.tracing.passes import successors

_STORES: Final = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL"})
_DELETES: Final = frozenset({"DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL"})
_MOST_STORES: Final = 40
_MOST_INSTRUCTIONS: Final = 6_000
_MOST_CODES: Final = 2_000
_OPTIMIZED: Final = 0x1
_PLAIN_KEYS: Final = frozenset({str, int, bool})


class _Store(NamedTuple):
    """An assignment, or a `del`.

    Attributes:
        offset: Of its instruction.
        line: Of it.
        chain: What is assigned to.
        sets: Whether it assigns.
    """

    offset: int
    line: int
    chain: Chain
    sets: bool


class _Stores(NamedTuple):
    """Those of a code object, with its flow of control."""

    code: CodeType
    stores: list[_Store]
    following: dict[int, list[int]]
    on_error: dict[int, int]

    def instruction(self, place: int) -> int:
        """The offset of the instruction at a place, which may be inside of a call's."""
        return max((each for each in self.following if each <= place), default=0)

    def reached(self, start: list[int], without: int = -1) -> set[int]:
        """The offsets that can be reached, if one instruction does not complete."""
        waiting, seen = list(start), set()
        while waiting:
            offset = waiting.pop()
            if offset in seen:
                continue
            seen.add(offset)
            if offset != without:
                waiting += self.following.get(offset, ())
            if offset in self.on_error:
                waiting.append(self.on_error[offset])
        return seen


class Left(NamedTuple):
    """What is left of an assignment.

    Attributes:
        name: `self.total`, `self.seen['mug']`.
        lines: That of the assignment, and of others that may have come behind it.
        value: The text of the value.
        holder: Gives the object with which the chain begins, or None: it is gone.
        steps: From there.
        address: Of that object.
    """

    name: str
    lines: tuple[int, ...]
    value: str
    holder: Any
    steps: tuple[Step, ...]
    address: int


class LeftBehind:
    """Finds what frames leave behind, and whether it is still so."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._reader = Reader()
        self._known: dict[int, _Stores] = {}

    def of(self, frame: FrameType, place: int) -> list[Left]:
        """What a frame has set that an exception leaves now.

        Args:
            frame: Its locals are there still.
            place: The offset at which the exception came up in it, or arrived.
        """
        stores = self._stores(frame)
        if not stores.stores:
            return []
        place = stores.instruction(place)
        names = read_aside(frame) if frame.f_code.co_flags & _OPTIMIZED else {}
        by_chain: dict[tuple[int, tuple[Step, ...]], Left] = {}
        behind = stores.reached([stores.on_error[place]]) if place in stores.on_error else set()
        for store in stores.stores:
            if not store.sets or store.offset == place:
                continue
            if place in stores.reached([0], without=store.offset):
                continue  # there is a way around it
            others = [each for each in stores.stores if each.chain.text == store.chain.text]
            if any(each.offset in behind for each in others):
                continue  # the frame puts it in order as the exception leaves
            later = stores.reached(stores.following[store.offset])
            lines = [store.line, *(each.line for each in others if each.offset in later)]
            left = self._left(store.chain, tuple(dict.fromkeys(lines)), names, frame)
            if left is not None:
                by_chain[left.address, left.steps] = left
        return list(by_chain.values())

    def is_still(self, left: Left, names: Mapping[str, Any]) -> bool:
        """Whether it has the same value now.

        Args:
            left: It.
            names: Of a frame that may hold the object.
        """
        value = self._now(left, names)
        return value is not MISSING and self._show(left, value) == left.value

    # --- parts ------------------------------------------------------------------------------

    def _left(
        self, chain: Chain, lines: tuple[int, ...], names: Mapping[str, Any], frame: FrameType
    ) -> Left | None:
        steps = _resolved(chain.steps, names, frame.f_globals)
        if steps is None:
            return None
        name = chain.root + "".join(map(self._step, steps))
        root = names.get(chain.root, MISSING)
        if root is MISSING or not chain.steps:
            module = frame.f_globals.get("__name__")
            if type(module) is not str or _namespace(module) is not frame.f_globals:
                return None
            holder: Any = module
            steps = (("[", chain.root), *steps)
            address = id(frame.f_globals)
        else:
            holder, address = _weakly(root), id(root)
        left = Left(name, lines, "", holder, steps, address)
        value = self._now(left, names)
        return None if value is MISSING else left._replace(value=self._show(left, value))

    def _step(self, step: Step) -> str:
        kind, key = step
        return f".{key}" if kind == "." else f"[{json.loads(self._values.show(key))}]"

    def _now(self, left: Left, names: Mapping[str, Any]) -> Any:
        if type(left.holder) is str:
            root: Any = _namespace(left.holder)
        elif left.holder is not None:
            root = left.holder()
        else:
            root = next((name for name in names.values() if id(name) == left.address), None)
        if root is None:
            return MISSING
        for step in left.steps:
            root = self._inside(root, step)
        return root

    def _inside(self, value: Any, step: Step) -> Any:
        """What an object has behind a step; MISSING: nothing, or only code could get it."""
        kind, name = step
        if kind == "." and layout.flags(type(value)) & layout.IS_CLASS:
            return layout.class_dict(value).get(str(name), MISSING)
        return self._reader.follow(Chain("it", (step,), ""), {"it": value}, sys._getframe())

    def _show(self, left: Left, value: Any) -> str:
        kind, key = left.steps[-1]
        name = str(key) if kind == "." or type(key) is str else ""
        hidden = bool(name) and self._values.lens.is_sensitive(name)
        return str(json.loads(self._values.show(value, name, hidden=hidden)))

    def _stores(self, frame: FrameType) -> _Stores:
        code = frame.f_code
        if id(code) not in self._known:
            if len(self._known) >= _MOST_CODES:
                self._known.clear()
            self._known[id(code)] = self._found(frame)
        return self._known[id(code)]

    def _found(self, frame: FrameType) -> _Stores:
        code = frame.f_code
        shown = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
        stores = [instruction for instruction in shown if instruction.opname in _STORES | _DELETES]
        on_error: dict[int, int] = {}
        if len(stores) > _MOST_STORES or len(shown) > _MOST_INSTRUCTIONS:
            stores = []
        if not stores:
            return _Stores(code, [], {}, {})
        for start, end, target in exception_targets(code.co_exceptiontable):
            on_error |= {each.offset: target for each in shown if start <= each.offset < end}
        text = self._values.lens.texts.of(frame)
        made = list(_chains(stores, text.lines, text.shift))
        return _Stores(code, made, successors(shown, rounds=True), on_error)


def _chains(stores: list[dis.Instruction], lines: Any, shift: int) -> Iterator[_Store]:
    for store in stores:
        place = store.positions
        if place is None or place.lineno is None or place.lineno != place.end_lineno:
            continue
        at = place.lineno + shift - 1
        if not 0 <= at < len(lines) or place.col_offset is None or place.end_col_offset is None:
            continue
        source = lines[at].encode()[place.col_offset : place.end_col_offset]
        chain = _chain(source.decode("utf-8", "replace"), store)
        if chain is not None:
            yield _Store(store.offset, place.lineno, chain, store.opname in _STORES)


def _chain(source: str, store: dis.Instruction) -> Chain | None:
    """The chain of the target of a store; None: it can't be followed, or the file was edited."""
    try:
        node = parse_expression(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kinds = {"ATTR": ast.Attribute, "SUBSCR": ast.Subscript, "GLOBAL": ast.Name}
    kind = kinds[store.opname.rpartition("_")[2]]
    if not isinstance(node, kind):
        return None
    chain = chain_of(node)
    if chain is None:
        return None
    end = chain.steps[-1][1] if chain.steps else chain.root
    return None if kind is not ast.Subscript and end != store.argval else chain


def _resolved(
    steps: tuple[Step, ...], names: Mapping[str, Any], more: Mapping[str, Any]
) -> tuple[Step, ...] | None:
    """Steps without names: the keys that these have now."""
    found: list[Step] = []
    for kind, key in steps:
        if kind == "n":
            key = names[str(key)] if str(key) in names else more.get(str(key))
            if type(key) not in _PLAIN_KEYS:
                return None
            kind = "["
        found.append((kind, key))
    return tuple(found)


def _namespace(module: str) -> dict[str, Any] | None:
    loaded = sys.modules.get(module)
    return module_dict_of(loaded) if type(loaded) is ModuleType else None


def _weakly(root: Any) -> Any:
    """A weak reference; None: there is none to objects of that class."""
    try:
        return ref(root)
    except TypeError:
        return None
