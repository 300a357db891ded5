"""The texts of values in a trace, within a budget of time: numbers cost next to nothing."""

from __future__ import annotations

from typing import Final

from pytest_cideldill.calltraces.row_file import plain
from pytest_cideldill.interpreter.clock import ticking
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.layout import type_name

BUDGET_S: Final = 10.0
"""Seconds that values other than numbers and known strings may take in one process."""

LARGE: Final = 10**18
"""Larger numbers take long to write, and may be secrets."""

_MOST_STRINGS: Final = 4096
_LONGEST: Final = 200


class Values:
    """Renders values on the threads of the program.

    Attributes:
        is_used_up: Whether the budget is; then only types are shown.
    """

    def __init__(self, lens: Lens) -> None:
        self.lens = lens
        self._strings: dict[str, str] = {}
        self._learned = -1
        self._left = BUDGET_S
        self._clock = ticking()

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0

    def show(self, value: object, name: str = "", *, hidden: bool = False) -> str:
        """The text of a value, as JSON; on the hot path.

        Args:
            value: Anything.
            name: Its name.
            hidden: Whether the name is sensitive.
        """
        kind = type(value)
        if not hidden:
            if kind is int:
                if -LARGE < value < LARGE:  # type: ignore[operator]
                    return f'"{value}"'
            elif kind is str:
                known = self._strings.get(value)  # type: ignore[call-overload]
                if known is not None:
                    return known  # type: ignore[no-any-return]
            elif value is None or kind is bool or kind is float:
                return f'"{value}"'
        return self._shown(value, name)

    def renew(self) -> None:
        """Forget the texts of strings, if there are other secrets by now."""
        if self._learned != self.lens.redactor.learned:
            self._learned = self.lens.redactor.learned
            self._strings.clear()

    def _shown(self, value: object, name: str) -> str:
        if self._left <= 0:
            return plain(f"<{type_name(value)}>")
        begun = self._clock()
        text = plain(self.lens.show(value, name))
        self._left -= self._clock() - begun
        self.renew()  # a value may have been a secret, which known strings hold
        if type(value) is str and len(value) <= _LONGEST and not self.lens.is_sensitive(name):
            if len(self._strings) >= _MOST_STRINGS:
                self._strings.clear()
            self._strings[value] = text
        return text
