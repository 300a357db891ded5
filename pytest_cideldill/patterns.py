"""Regular expressions that are compiled when they are first used, since most runs never do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from re import Pattern


def later(text: str, flags: int = 0) -> Callable[[], Pattern[str]]:
    """What gives the compiled expression; on any thread."""

    @cache
    def pattern() -> Pattern[str]:
        return re.compile(text, flags)

    return pattern
