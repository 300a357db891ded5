"""Interception of functions before they are made: the code that makes them is given a trampoline.

A function is made of a code object that is among the constants of the code around it. A trampoline
in its place makes every function that comes intercepted, from its first call on, whoever runs the
code around at that moment. That code stays the same object, so whatever watches it still does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import is_
from types import CodeType, FunctionType

from pytest_cideldill.patching.code_layout import exchange
from pytest_cideldill.patching.code_swap import OnCall, Planted, original_code
from pytest_cideldill.patching.function_code import code_of
from pytest_cideldill.patching.trampolines import make

Place = tuple[tuple[object, ...], int]
"""Constants of a code object, and which of them."""


def places_in(root: CodeType, seen: set[int]) -> Iterator[tuple[CodeType, Place]]:
    """All code inside of a code object, at any depth: the original, and where it is taken from.

    Args:
        root: No trampoline.
        seen: Ids of code that was looked through; added to.
    """
    if id(root) in seen:
        return
    seen.add(id(root))
    consts = root.co_consts
    for index, constant in enumerate(consts):
        if type(constant) is CodeType:
            code = original_code(constant)
            yield code, (consts, index)
            yield from places_in(code, seen)


class Planting:
    """The trampoline for all functions of one code object.

    Args:
        code: Their original code.
        on_call: See `code_swap.intercept`.
        wants: See there.

    Raises:
        CannotIntercept: See there.
    """

    def __init__(
        self, code: CodeType, on_call: OnCall, wants: Callable[[], object] = lambda: True
    ) -> None:
        self.code = code
        self.trampoline = make(code, Planted(code, on_call, wants))
        self._places: list[Place] = []

    def put(self, place: Place) -> bool:
        """Let functions be made of the trampoline here; whether they were not before."""
        consts, index = place
        if consts[index] is self.trampoline:
            return False
        exchange(consts, index, self.trampoline)
        self._places.append(place)
        return True

    def take(self, function: FunctionType) -> None:
        """Intercept a function that was made of the original."""
        function.__code__ = self.trampoline

    def undo(self) -> None:
        """Let functions be made of the original again; see `restore` for those that were made."""
        for consts, index in self._places:
            if consts[index] is self.trampoline:
                exchange(consts, index, self.code)
        self._places.clear()


class ShownCode:
    """Code as the program is to see it: without trampolines, in it and among its constants.

    Code that makes intercepted functions has a twin without them, which is equal to what it was.
    """

    def __init__(self) -> None:
        self.is_planted = False
        """Whether there are trampolines among constants."""
        # Code and its twin, by the id of the code.
        self._twins: dict[int, tuple[CodeType, CodeType]] = {}

    def of(self, code: CodeType) -> CodeType:
        """What stands for the code that a function runs."""
        code = original_code(code)
        return self._clean(code) if self.is_planted else code

    def _clean(self, code: CodeType) -> CodeType:
        known = self._twins.get(id(code))
        if known is not None:
            return known[1]
        consts = code.co_consts
        clean = [self.of(each) if type(each) is CodeType else each for each in consts]
        if all(map(is_, clean, consts)):
            return code
        twin = code.replace(co_consts=tuple(clean))
        self._twins[id(code)] = (code, twin)
        return twin


def restore(functions: Iterable[FunctionType], plantings: Iterable[Planting]) -> None:
    """Give the functions that have these trampolines their original code."""
    originals = {id(each.trampoline): each.code for each in plantings}
    for function in functions:
        original = originals.get(id(code_of(function)))
        if original is not None:
            function.__code__ = original
