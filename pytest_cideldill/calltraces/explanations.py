"""Knows what explains a failed assertion, and so what user code runs for that alone.

Functions of libraries show both sides again, and compare their parts, when the assertion has
failed; the message of an `assert` is made then, too. What a `__repr__` runs there is no part of the
test. Runs no code of the program.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final

_MODULES: Final = ("_pytest._io.", "unittest.util", "hypothesis.vendor.pretty")
_COMPARING: Final = "_pytest.assertion."
_REWRITING: Final = "_pytest.assertion.rewrite"
"""Of it only one function: others import test files."""

_FUNCTIONS: Final = frozenset({"callbinrepr", "_call_reprcompare"})
"""Of `_pytest.assertion` and its module `rewrite`."""

_SHOWING: Final = ("unittest.", "hypothesis.", "numpy.testing", "pandas._testing")
"""They compare for the test, and show for the message."""

_MESSAGE: Final = "_format_assertmsg"
"""Gets the message of an `assert` that pytest has rewritten."""

_LOADING: Final = ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")
"""Instructions that load the exception of an assertion that was not rewritten; by version."""

_LOADING_CODES: Final = frozenset(dis.opmap[name] for name in _LOADING if name in dis.opmap)
_RAISE: Final = "RAISE_VARARGS"

_METHODS: Final = frozenset({"__repr__", "__str__", "__format__"})


class Explanations:
    """Remembers the code of functions that explain.

    Attributes:
        has_any: Whether one was met, or code of the user's that makes messages of assertions.
    """

    def __init__(self) -> None:
        self.has_any = False
        # Id of the code → whether only what shows a value is called by it to explain.
        self._codes: dict[int, bool] = {}

    def meet(self, code: CodeType, module: object) -> None:
        """Decide about a function of a library, once.

        Args:
            code: Lives as long as this.
            module: The name of its module.
        """
        if type(module) is not str or code.co_name in _METHODS:
            return
        if code.co_name in _FUNCTIONS:
            explains = module.startswith("_pytest.assertion")
        else:
            explains = module.startswith(_MODULES) or (
                module.startswith(_COMPARING) and module != _REWRITING
            )
        if explains or module.startswith(_SHOWING):
            self._codes[id(code)] = not explains
            self.has_any = True

    def has(self, code: CodeType, called: CodeType) -> bool:
        """Whether a function of a library has called a function of the user's to explain."""
        only_shows = self._codes.get(id(code))
        return only_shows is False or (only_shows is True and called.co_name in _METHODS)


def messages_in(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions of a function that make messages of assertions.

    From where the function is at hand that gets the message to where the exception is raised.
    """
    if _MESSAGE not in code.co_names and _LOADING_CODES.isdisjoint(code.co_code[::2]):
        return frozenset()
    found: set[int] = set()
    begin = None
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if value == _MESSAGE or (name in _LOADING and value in (None, AssertionError)):
            begin = instruction.offset if begin is None else begin
        elif name == _RAISE and begin is not None:
            # A frame may be at a cache in between.
            found.update(range(begin, instruction.offset, 2))
            begin = None
    return frozenset(found)
