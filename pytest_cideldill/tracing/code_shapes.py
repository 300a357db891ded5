"""Finds out by the bytecode of 3.11 how a call ends, which `sys.settrace` does not report.

Every way out of a frame is a `return` event there: a yield, a return, an exception. An exception
has an event of its own only where it comes up, not where a handler raises it again.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

from pytest_cideldill.tracing.passes import successors

RETURN = dis.opmap["RETURN_VALUE"]
YIELD = dis.opmap["YIELD_VALUE"]
_RESUME = dis.opmap["RESUME"]

_Target = tuple[int, int, int]
"""`(start, end, target)`: an exception from `start` on and before `end` is handled at `target`."""


class Raised:
    """The exceptions that came up in one frame and may still leave it, in order.

    Attributes:
        entries: `(exception, place where it came up, place of the last line that began while it was
            handled)`; the last one is -1 if no line began.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[BaseException, int, int]] = []

    def add(self, error: BaseException, place: int) -> None:
        """Note that an exception came up at `place`."""
        self.entries.append((error, place, -1))

    def see(self, handled: BaseException | None, place: int) -> None:
        """Note that a line begins at `place` while `sys.exc_info` gives `handled`.

        Exceptions that came up later are over; they are forgotten, as the program may wait for
        their end.
        """
        while self.entries and self.entries[-1][0] is not handled:
            self.entries.pop()
        if self.entries:
            error, came_up, _ = self.entries[-1]
            self.entries[-1] = (error, came_up, place)


class Shape:
    """The places where a code object starts, returns, yields and catches, as in `f_lasti`."""

    __slots__ = ("_code", "_handling", "_targets", "catches", "returns", "start", "yields")

    def __init__(self, code: CodeType) -> None:
        # Two bytes per instruction; in `co_code` the caches between them are zero.
        operations = code.co_code[::2]
        self.start = 2 * operations.index(_RESUME)
        self.returns = _places(operations, RETURN)
        self.yields = _places(operations, YIELD)
        self._targets = list(exception_targets(code.co_exceptiontable))
        # Where exceptions arrive that `sys.exc_info` does not give: not yet, or in clean-up code.
        self.catches = frozenset(target for _, _, target in self._targets)
        self._code = code
        self._handling: dict[int, tuple[int, ...]] | None = None

    def leaves(self, place: int, raised: Raised) -> bool:
        """Whether an exception leaves a frame at `place`, which is no return; if not, it yields.

        An exception that was thrown in at a yield leaves from there too, once a `with` raises it
        again. Before the frame can yield again at that place, the exception must have been handled.
        """
        return place not in self.yields or any(at == place for _, at, _ in raised.entries)

    def leaving(self, place: int, raised: Raised) -> BaseException | None:
        """The exception that leaves a frame at `place`."""
        newest_first = raised.entries[::-1]
        for error, came_up, _ in newest_first:
            if came_up == place:
                return error
        # The handler around the place raised it again; lines of that handler were seen.
        handler = self.handler(place)
        for error, _, seen in newest_first:
            if seen >= 0 and self.handler(seen) == handler:
                return error
        return newest_first[0][0] if newest_first else None

    def handler(self, place: int) -> int | None:
        """The innermost handler that handles an exception at `place`, by its first offset."""
        if self._handling is None:
            self._handling = _handling(self._code, self._targets)
        handlers = self._handling.get(place)
        return handlers[-1] if handlers else None


def _places(operations: bytes, operation: int) -> frozenset[int]:
    return frozenset(2 * index for index, each in enumerate(operations) if each == operation)


def _handling(code: CodeType, targets: list[_Target]) -> dict[int, tuple[int, ...]]:
    """The handlers that are handling an exception at each offset, from the outside in.

    Found by the flow of control: PUSH_EXC_INFO begins the handling, POP_EXCEPT ends it.
    """
    instructions = list(dis.get_instructions(code))
    following = successors(instructions)
    by_offset = {instruction.offset: instruction for instruction in instructions}
    found: dict[int, tuple[int, ...]] = {}
    waiting: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while waiting:
        place, handlers = waiting.pop()
        if place in found:
            continue
        found[place] = handlers
        name = by_offset[place].opname
        if name == "PUSH_EXC_INFO":
            handlers = (*handlers, place)
        elif name == "POP_EXCEPT":
            handlers = handlers[:-1]
        else:
            waiting += [(to, handlers) for start, end, to in targets if start <= place < end]
        waiting += [(each, handlers) for each in following[place]]
    return found


def exception_targets(table: bytes) -> Iterator[_Target]:
    """The entries of an exception table; they don't overlap.

    Numbers are of six bits per byte; bit 6 says that more follow.
    """
    data = iter(table)

    def number(byte: int) -> int:
        value = byte & 63
        while byte & 64:
            byte = next(data)
            value = value << 6 | byte & 63
        return value

    for byte in data:
        start, length, target = number(byte), number(next(data)), number(next(data))
        number(next(data))  # the depth of the stack
        yield 2 * start, 2 * (start + length), 2 * target
