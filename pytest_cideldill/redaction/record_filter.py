"""Redacts lines of a record once more, right before they are written.

Values, messages, reports and node ids were redacted where they were captured, but more secrets may
have been learned since, and texts that name things may hold secrets as well. All processes of a run
know the same secrets, and so replace the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pytest_cideldill.redaction.redactor import Redactor

_MOST_NAMES: Final = 1_000


class Hiding:
    """Redacts lines of a record. Not for several threads."""

    def __init__(self, redactor: Redactor) -> None:
        self.is_plain = redactor.is_plain
        self._redactor = redactor
        self._names: dict[str, str] = {}
        self._learned = redactor.learned

    def name(self, name: str | None) -> str | None:
        """A node id without secrets; kept, as the same ids come again and again."""
        if name is None:
            return None
        if self._learned != self._redactor.learned:
            self._names, self._learned = {}, self._redactor.learned
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            self._names[name] = self._redactor.redact_text(name)
        return self._names[name]

    def hide(self, values: dict[str, Any], *, is_asked: bool) -> None:
        """Replace the secrets in the values of a line; their names are ours.

        `is_asked`: a client or the user sent these values, so no process has redacted them.
        """
        redact = self._redactor.redact_text if is_asked else self._redactor.redact_known
        for name, value in values.items():
            values[name] = self.name(value) if name == "nodeid" else _hidden(value, redact)


def _hidden(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {_hidden(key, redact): _hidden(each, redact) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(each, redact) for each in value]
    return value
