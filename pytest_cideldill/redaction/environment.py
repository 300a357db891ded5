"""The environment variables that the program has now, which may have come after the start.

Settings are loaded by conftests (`load_dotenv`), plugins, fixtures (`monkeypatch.setenv`). This
process has a view of its own of `os` (see `sealed.py`); here the program's is looked at, without
running code of its: at the end of each phase, at stops, evaluations, messages.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

_ERRORS = "surrogateescape"


class Environment:
    """Finds what has changed since it was looked at last. Any thread; takes no lock."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[object, object] = {}

    def changed(self) -> dict[str, str]:
        """The variables that are new, or have another value than before; quick."""
        data = _variables()
        known = self._known
        fresh = [
            (name, value) for name, value in list(data.items()) if known.get(name) is not value
        ]
        if not fresh:
            return {}
        known.update(fresh)
        return {_text(name): _text(value) for name, value in fresh}


def _variables() -> Mapping[object, object]:
    """Names and values, as the program's `os.environ` holds them; none of any other kind of one."""
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
