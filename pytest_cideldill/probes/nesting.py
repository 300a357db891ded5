"""Functions that are not made yet: the code of those that breakpoints mean, and their plantings.

Runs on the threads that bind, under the manager's lock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from types import CodeType
from types import FrameType
from types import FunctionType

from pytest_cideldill.capture.calls import module_name
from pytest_cideldill.probes.behaviors import FunctionBreakpoint
from pytest_cideldill.running import running_frames
from pytest_cideldill.sources.events import existing_functions
from pytest_cideldill.sources.interpose import is_stand_in
from pytest_cideldill.sources.interpose import original_code
from pytest_cideldill.sources.layout import IS_KNOWN
from pytest_cideldill.sources.planting import Planting
from pytest_cideldill.sources.planting import places_in
from pytest_cideldill.sources.planting import restore

CAN_PLANT = IS_KNOWN
"""Where not, a function is found when its code starts: its first call is missed."""

Root = tuple[CodeType, str]
"""Original code, and the name of the module that it runs in."""


class Nesting:
    """See the module.

    Args:
        may_mean: Whether any breakpoint may govern a function in a file that is this module.
        meant: Which breakpoint governs functions of a code object in a module.
        plant: Makes a planting; None when that can't be intercepted.
    """

    def __init__(
        self,
        may_mean: Callable[[str, str], bool],
        meant: Callable[[CodeType, str], FunctionBreakpoint | None],
        plant: Callable[[CodeType, str], Planting | None],
    ) -> None:
        self._may_mean = may_mean
        self._meant = meant
        self._plant = plant
        self._plantings: dict[int, Planting] = {}

    def grow(self, roots: Iterable[Root]) -> tuple[dict[int, FunctionBreakpoint], bool]:
        """Plant what breakpoints mean inside of some code.

        Returns:
            By the id of its code the breakpoint that governs each, and whether anything is new.
        """
        governing: dict[int, FunctionBreakpoint] = {}
        has_grown = False
        seen: set[int] = set()
        for root, module in roots if CAN_PLANT else ():
            if not self._may_mean(root.co_filename, module):
                continue
            if id(root) in self._plantings and id(root) not in governing:
                best = self._meant(root, module)  # its module is gone, only functions are left
                if best is not None:
                    governing[id(root)] = best
            for code, place in places_in(root, seen):
                best = self._meant(code, module)
                if best is None:
                    continue
                key = id(code)
                planting = self._plantings.get(key) or self._plant(code, module)
                governing[key] = best
                if planting is not None:
                    self._plantings[key] = planting
                    has_grown = planting.put(place) or has_grown
        return governing, has_grown

    def has(self, function: FunctionType) -> bool:
        """Whether a function is intercepted by its code; it is made so if that is planted."""
        planting = self._plantings.get(id(original_code(function.__code__)))
        if planting is None or is_stand_in(function):
            return False
        if function.__code__ is planting.code:
            planting.take(function)
        return function.__code__ is planting.trampoline

    def one_of(self, code: CodeType) -> FunctionType | None:
        """One of the functions with this code that live."""
        for each in existing_functions():
            if original_code(each.__code__) is code and not is_stand_in(each):
                return each
        return None

    def clear(self, keys: Iterable[int]) -> None:
        """Forget what was planted for the code with these ids, and restore its functions."""
        gone = [self._plantings.pop(key) for key in keys if key in self._plantings]
        for planting in gone:
            planting.undo()
        if gone:
            restore(existing_functions(), gone)

    def forget(self) -> None:
        """Make no more such functions; those that were made stay as they are."""
        for each in self._plantings.values():
            each.undo()
        self._plantings.clear()


def roots(functions: Iterable[FunctionType]) -> Iterator[Root]:
    """The code of functions, and what runs: a module is no function while it is imported."""
    for function in functions:
        yield original_code(function.__code__), module_name(function)
    for frame in running_frames():
        yield original_code(frame.f_code), module_of(frame)


def module_of(frame: FrameType) -> str:
    """As `module_name` of the function that runs."""
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else "?"


def young_functions() -> list[FunctionType]:
    """Those that the garbage collector has not seen more than twice: thousands of objects."""
    young = gc.get_objects(generation=0) + gc.get_objects(generation=1)
    return [each for each in young if type(each) is FunctionType]


def codes_in(root: CodeType) -> Iterator[CodeType]:
    """The original code inside of a code object, at any depth."""
    for code, _place in places_in(root, set()):
        yield code
