"""Functions that are not made yet: the code of those that breakpoints mean, and their plantings.

Runs on the threads that bind, under the manager's lock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType

from pytest_cideldill.frames.arguments import module_name
from pytest_cideldill.frames.frames import module_of
from pytest_cideldill.interpreter.code_files import file_now
from pytest_cideldill.interpreter.running import running_frames
from pytest_cideldill.patching.code_layout import IS_KNOWN
from pytest_cideldill.patching.code_swap import is_stand_in, original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.planting import Planting, ShownCode, places_in, restore
from pytest_cideldill.probes.behaviors import FunctionProbe
from pytest_cideldill.tracing.interface import existing_functions

CAN_PLANT = IS_KNOWN
"""Where not, a function is found when its code starts: its first call is missed."""

Root = tuple[CodeType, str]
"""Original code, and the name of the module that it runs in."""


class Nesting:
    """Plants breakpoints in the code of functions that are not made yet.

    Args:
        may_mean: Whether any breakpoint may govern a function in a file that is this module.
        meant: Which breakpoint governs functions of a code object in a module.
        plant: Makes a planting; None when that can't be intercepted.
        record: Has calls of a code object recorded, and nothing else.
        is_compiled: Whether the functions of a code object were handed to a compiler.
        acts: Whether a breakpoint does more to calls than having them recorded.

    Attributes:
        shown: What the program sees of code.
    """

    def __init__(
        self,
        may_mean: Callable[[str, str], bool],
        meant: Callable[[CodeType, str], FunctionProbe | None],
        plant: Callable[[CodeType, str], Planting | None],
        record: Callable[[CodeType, str], None],
        is_compiled: Callable[[CodeType, FunctionProbe], bool],
        acts: Callable[[FunctionProbe], bool],
    ) -> None:
        self._may_mean = may_mean
        self._meant = meant
        self._plant = plant
        self._record = record
        self._is_compiled = is_compiled
        self._acts = acts
        self.shown = ShownCode()
        # Code whose functions are only recorded, by id.
        self._recorded: dict[int, CodeType] = {}
        self._plantings: dict[int, Planting] = {}

    def grow(self, roots: Iterable[Root]) -> tuple[dict[int, FunctionProbe], bool]:
        """Plant what breakpoints mean inside of some code.

        Returns:
            By the id of its code the breakpoint that governs each, and whether anything is new.
        """
        governing: dict[int, FunctionProbe] = {}
        has_grown = False
        seen: set[int] = set()
        for root, module in roots if CAN_PLANT else ():
            if not self._may_mean(file_now(root.co_filename), module):
                continue
            key = id(root)
            if (key in self._plantings or key in self._recorded) and key not in governing:
                best = self._meant(root, module)  # its module is gone, only functions are left
                if best is not None:
                    governing[key] = best
                    self._take(root, module, best)
            for code, place in places_in(root, seen):
                best = self._meant(code, module)
                if best is None or self._is_compiled(code, best):
                    continue
                governing[id(code)] = best
                planting = self._take(code, module, best)
                if planting is not None:
                    has_grown = planting.put(place) or has_grown
        return governing, has_grown

    def _take(self, code: CodeType, module: str, best: FunctionProbe) -> Planting | None:
        """Have functions of some code intercepted, or only recorded."""
        key = id(code)
        if not self._acts(best):
            if key not in self._recorded:
                self.clear([key])
                self._recorded[key] = code
                self._record(code, module)
            return None
        planting = self._plantings.get(key) or self._plant(code, module)
        if planting is not None:
            self._recorded.pop(key, None)
            self._plantings[key] = planting
            self.shown.is_planted = True
        return planting

    def has(self, function: FunctionType) -> bool:
        """Whether a function is governed by its code; it is intercepted if that is planted."""
        key = id(original_code(code_of(function)))
        planting = self._plantings.get(key)
        if planting is None or is_stand_in(function):
            return key in self._recorded
        if code_of(function) is planting.code:
            function.__code__ = planting.trampoline  # it was made of the original
        return code_of(function) is planting.trampoline

    def one_of(self, code: CodeType) -> FunctionType | None:
        """One of the functions with this code that live."""
        for function in existing_functions():
            if original_code(code_of(function)) is code and not is_stand_in(function):
                return function
        return None

    def clear(self, keys: Iterable[int]) -> None:
        """Forget the code with these ids, and restore the functions that were planted."""
        keys = list(keys)
        for key in keys:
            self._recorded.pop(key, None)
        gone = [self._plantings.pop(key) for key in keys if key in self._plantings]
        for planting in gone:
            planting.undo()
        if gone:
            restore(existing_functions(), gone)
        self.shown.is_planted = bool(self._plantings)

    def forget(self) -> None:
        """Make no more such functions; those that were made stay as they are."""
        for planting in self._plantings.values():
            planting.undo()
        self._plantings.clear()
        self._recorded.clear()
        self.shown.is_planted = False


def roots(functions: Iterable[FunctionType]) -> Iterator[Root]:
    """The code of functions, and what runs: a module is no function while it is imported."""
    for function in functions:
        yield original_code(code_of(function)), module_name(function)
    for frame in running_frames():
        yield original_code(frame.f_code), module_of(frame)


def young_functions() -> list[FunctionType]:
    """Those that the garbage collector has not seen more than twice: thousands of objects."""
    young = gc.get_objects(generation=0) + gc.get_objects(generation=1)
    return [each for each in young if type(each) is FunctionType]


def codes_in(root: CodeType) -> Iterator[CodeType]:
    """The original code inside of a code object, at any depth."""
    for code, _place in places_in(root, set()):
        yield code
