"""Finds environment variables that the program has set since the start.

Conftests (`load_dotenv`), plugins and fixtures (`monkeypatch.setenv`) load settings. Our modules
have a private copy of `os` (see `sealed.py`); here the program's own `os.environ` is read, without
running code of the program: at the end of each phase, at stops, evaluations, messages.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

_ERRORS = "surrogateescape"


class Environment:
    """Finds the variables that changed since the last call. Any thread; takes no lock."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[object, object] = {}

    def changed(self) -> dict[str, str]:
        """The variables that are new, or have another value than before; a quick test."""
        data = _variables()
        seen = self._seen
        fresh = [(name, value) for name, value in list(data.items()) if seen.get(name) is not value]
        if not fresh:
            return {}
        seen.update(fresh)
        return {_text(name): _text(value) for name, value in fresh}


def _variables() -> Mapping[object, object]:
    """Names and values in the program's `os.environ`; empty if it is of an unknown type."""
    module = sys.modules.get("os")
    names = module.__dict__ if type(module) is ModuleType else {}
    environ = names.get("environ")
    if type(environ) is dict:  # a test has replaced it
        is_plain = all(type(each) is str for each in environ)
        return environ if is_plain else {}
    if environ is None or type(environ) is not names.get("_Environ"):
        return {}
    data = environ.__dict__.get("_data")
    return data if type(data) is dict else {}


def _text(value: object) -> str:
    if type(value) is bytes:
        return value.decode(sys.getfilesystemencoding(), _ERRORS)
    return value if type(value) is str else ""
