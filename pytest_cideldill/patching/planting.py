"""Intercepts functions before they are made, by a trampoline in the code that makes them.

A function is made from a code object among the constants of the code around it. If a trampoline is
there instead, every new function is intercepted from its first call on, also if the code around is
running already. That code stays the same object, so it is still watched.
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
"""The constants of a code object, and the index of one."""


def places_in(root: CodeType, seen: set[int]) -> Iterator[tuple[CodeType, Place]]:
    """All code inside a code object, at any depth: the original code and its place.

    Args:
        root: The code object; no trampoline.
        seen: Ids of code that was searched; added to.
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
        on_call: See `code_swap.intercept`.
        wants: See `code_swap.intercept`.

    Raises:
        CannotIntercept: The code is not that of a function, or of an unknown make.
    """

    def __init__(
        self, code: CodeType, on_call: OnCall, wants: Callable[[], object] = lambda: True
    ) -> None:
        self.code = code
        self.trampoline = make(code, Planted(code, on_call, wants))
        self._places: list[Place] = []

    def put(self, place: Place) -> bool:
        """Put the trampoline into a place; True if it was not there before."""
        consts, index = place
        if consts[index] is self.trampoline:
            return False
        exchange(consts, index, self.trampoline)
        self._places.append(place)
        return True

    def undo(self) -> None:
        """Put the original back into all places; `restore` is for functions that exist already."""
        for consts, index in self._places:
            if consts[index] is self.trampoline:
                exchange(consts, index, self.code)
        self._places.clear()


class ShownCode:
    """The code that the program sees: without trampolines, also among its constants.

    Code that makes intercepted functions has a twin without trampolines, which equals the original.
    """

    def __init__(self) -> None:
        self.is_planted = False
        """Whether there are trampolines among constants."""
        # Code and its twin, by the id of the code.
        self._twins: dict[int, tuple[CodeType, CodeType]] = {}

    def of(self, code: CodeType) -> CodeType:
        """The code to show for the code that a function runs."""
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
    originals = {id(planting.trampoline): planting.code for planting in plantings}
    for function in functions:
        original = originals.get(id(code_of(function)))
        if original is not None:
            function.__code__ = original
