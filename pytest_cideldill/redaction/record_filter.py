"""The last look at what is written to a record: texts that name things may hold secrets as well.

Values, messages, reports and node ids were redacted where they were captured. Meanwhile more may be
known for a secret. It is the same in all processes of a run, and so are the names.
"""

from __future__ import annotations

from typing import Any
from typing import Final

from pytest_cideldill.redaction.redactor import Redactor

_MOST_NAMES: Final = 1_000
_NO_TEXTS: Final = frozenset({bool, int, float, type(None)})


class Hiding:
    """See the module. Not for several threads."""

    def __init__(self, redactor: Redactor) -> None:
        self.is_plain = redactor.is_plain
        self._redactor = redactor
        self._redact = redactor.redact_text
        self._names: dict[str, str] = {}
        self._learned = redactor.learned

    def name(self, name: str | None) -> str | None:
        """A node id; the same ones come again and again."""
        if name is None:
            return None
        if self._learned != self._redactor.learned:
            self._names, self._learned = {}, self._redactor.learned
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            self._names[name] = self._redact(name)
        return self._names[name]

    def hide(self, values: dict[str, Any]) -> None:
        """In the values of a line; their names are ours."""
        for name, value in values.items():
            if name == "nodeid":
                values[name] = self.name(value)
            elif not self._are_plain(value):
                values[name] = self._hidden(value)

    def _are_plain(self, value: Any) -> bool:
        """Whether nothing is to be hidden in a value, for certain; quick."""
        kind = type(value)
        if kind is str:
            return self.is_plain(value)
        if kind is dict:
            for key, each in value.items():
                if not (self._are_plain(key) and self._are_plain(each)):
                    return False
            return True
        if kind is list:
            return all(map(self._are_plain, value))
        return kind in _NO_TEXTS

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, dict):
            return {self._hidden(key): self._hidden(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._hidden(each) for each in value]
        return value
