"""What the bytecode of 3.11 tells about the end of a call, which `sys.settrace` does not.

All ways out of a frame are a `return` event there: a yield, a return, an exception. And which
exception it is was told only when it came up: not when a handler raised it again.
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
"""An exception that comes up from `start` on and before `end` is handled at `target`."""


class Raised:
    """The exceptions that came up in one frame and may leave it still, in order.

    Attributes:
        entries: `(exception, where it came up, where a line began last while it was handled)`; the
            last is -1 when none did.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[BaseException, int, int]] = []

    def add(self, error: BaseException, place: int) -> None:
        """It came up at `place`."""
        self.entries.append((error, place, -1))

    def see(self, handled: BaseException | None, place: int) -> None:
        """A line begins at `place` while `handled` is what `sys.exc_info` tells.

        What came up later is handled and forgotten: the program may wait for its end.
        """
        while self.entries and self.entries[-1][0] is not handled:
            self.entries.pop()
        if self.entries:
            error, came_up, _ = self.entries[-1]
            self.entries[-1] = (error, came_up, place)


class Shape:
    """Where a code object starts, returns, yields and catches, as offsets of `f_lasti`."""

    __slots__ = ("_code", "_handling", "_targets", "catches", "returns", "start", "yields")

    def __init__(self, code: CodeType) -> None:
        # Two bytes per instruction; in `co_code` the caches between them are zero.
        operations = code.co_code[::2]
        self.start = 2 * operations.index(_RESUME)
        self.returns = _places(operations, RETURN)
        self.yields = _places(operations, YIELD)
        self._targets = list(_targets(code.co_exceptiontable))
        # An exception arrives, which `sys.exc_info` does not tell: not yet, or in clean-up code.
        self.catches = frozenset(target for _, _, target in self._targets)
        self._code = code
        self._handling: dict[int, tuple[int, ...]] | None = None

    def leaves(self, place: int, raised: Raised) -> bool:
        """Whether an exception leaves a frame at `place`, which is no return; else it yields there.

        One that was thrown in at a yield leaves from there too, once a `with` raises it again.
        On the way to another yield at that place it would have been handled.
        """
        return place not in self.yields or any(at == place for _, at, _ in raised.entries)

    def leaving(self, place: int, raised: Raised) -> BaseException | None:
        """The exception that leaves a frame at `place`."""
        newest_first = raised.entries[::-1]
        for error, came_up, _ in newest_first:
            if came_up == place:
                return error
        # Raised again by the handler that the place is in, where its lines were seen.
        handler = self._handler(place)
        for error, _, seen in newest_first:
            if seen >= 0 and self._handler(seen) == handler:
                return error
        return newest_first[0][0] if newest_first else None

    def _handler(self, place: int) -> int | None:
        """The innermost handler that handles an exception at `place`, by its first offset."""
        if self._handling is None:
            self._handling = _handling(self._code, self._targets)
        handlers = self._handling.get(place)
        return handlers[-1] if handlers else None


def _places(operations: bytes, operation: int) -> frozenset[int]:
    return frozenset(2 * index for index, each in enumerate(operations) if each == operation)


def _handling(code: CodeType, targets: list[_Target]) -> dict[int, tuple[int, ...]]:
    """The handlers that handle an exception at each offset, from the outside in.

    Follows the flow of control: PUSH_EXC_INFO begins to handle, POP_EXCEPT ends it.
    """
    instructions = list(dis.get_instructions(code))
    following = successors(instructions)
    by_offset = {each.offset: each for each in instructions}
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


def _targets(table: bytes) -> Iterator[_Target]:
    """The entries of an exception table; they don't overlap.

    Numbers are of six bits per byte; bit 6 says that more follow.
    """
    data = iter(table)
    for byte in data:
        numbers = [byte & 63]
        while byte & 64 or len(numbers) < 4:
            more = byte & 64
            byte = next(data)
            if more:
                numbers[-1] = numbers[-1] << 6 | byte & 63
            else:
                numbers.append(byte & 63)
        start, length, target, _depth = numbers
        yield 2 * start, 2 * (start + length), 2 * target
