"""Keeps our files out of what Hypothesis traces to explain a failure.

It lists the lines that only failing examples have run. Those of ours that record a call or show a
value would be among them, in front of the lines of the user.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_PACKAGE: Final = "pytest_cideldill."

_kept_out: list[Any] = []
"""The module that knows already."""


def keep_out() -> None:
    """Before a phase of a test: let Hypothesis, if it is there, take our files for its own once.

    It asks once per file, whether that is one of its own, and remembers what follows. What it knows
    about its own files is as before then.
    """
    module = sys.modules.get("hypothesis.internal.scrutineer")
    if module is None or module in _kept_out:
        return
    _kept_out[:] = [module]
    known: dict[Any, bool] = {}
    modules = [each for name, each in list(sys.modules.items()) if _is_ours(name)]
    files = [vars(each).get("__file__") for each in modules]
    try:
        asks: Any = vars(module)["should_trace_file"]
        known = vars(sys.modules["hypothesis.internal.escalation"])["FILE_CACHE"][
            sys.modules["hypothesis"]
        ]
        if hasattr(asks, "cache_info"):
            for file in filter(None, files):
                known[file] = True
                asks(file)
    except (AttributeError, KeyError, TypeError):
        pass  # another version: its explanations may name our lines
    finally:
        for file in files:
            known.pop(file, None)


def _is_ours(name: object) -> bool:
    return type(name) is str and name.startswith(_PACKAGE)
