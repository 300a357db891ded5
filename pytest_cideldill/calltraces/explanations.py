"""Knows which library functions explain a failed assertion, and so what user code runs for that.

They show both sides again, and compare their parts, when the assertion has failed: what a
`__repr__` runs then is no part of the test. Runs no code of the program.
"""

from __future__ import annotations

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

_METHODS: Final = frozenset({"__repr__", "__str__", "__format__"})


class Explanations:
    """Remembers the code of functions that explain.

    Attributes:
        is_empty: Whether none was met yet.
    """

    def __init__(self) -> None:
        self.is_empty = True
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
            self.is_empty = False

    def has(self, code: CodeType, called: CodeType) -> bool:
        """Whether a function of a library has called a function of the user's to explain."""
        only_shows = self._codes.get(id(code))
        return only_shows is False or (only_shows is True and called.co_name in _METHODS)
