"""Finds environment variables that the program has set since the start.

Conftests (`load_dotenv`), plugins and fixtures (`monkeypatch.setenv`) load settings. Our modules
have a private copy of `os` (see `sealed.py`); here the program's own `os.environ` is read, without
running code of the program: at the end of each phase, at stops, evaluations, messages.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import compress
from operator import is_not, itemgetter
from types import ModuleType

_ERRORS = "surrogateescape"
_name_of, _value_of = itemgetter(0), itemgetter(1)

_OF_PYTEST = "PYTEST_CURRENT_TEST"
"""Set for each phase of a test to its id, whose secrets are known otherwise."""


class Environment:
    """Finds the variables that changed since the last call. Any thread; takes no lock.

    Names are bytes, but text on Windows and where a test has replaced `os.environ`. They are never
    compared with each other: Python warns of that when it is started with `-b`.
    """

    __slots__ = ("_bytes", "_texts")

    def __init__(self) -> None:
        self._bytes: dict[object, object] = {}
        self._texts: dict[object, object] = {}

    def changed(self) -> dict[str, str]:
        """The variables that are new, or have another value than before; a quick test."""
        items = list(_variables().items())
        seen = self._bytes if items and type(items[0][0]) is bytes else self._texts
        known = map(seen.get, map(_name_of, items))
        news = list(compress(items, map(is_not, map(_value_of, items), known)))
        fresh = [(name, value) for name, value in news if _text(name) != _OF_PYTEST]
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
