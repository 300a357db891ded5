"""Regular expressions that are compiled when they are first used, since most runs never do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from operator import itemgetter
from re import Pattern


def by_first_letter(patterns: Iterable[str]) -> str:
    """One expression of several, each of which begins with a letter, grouped by these.

    `re` looks for the first letters of alternatives only where each begins with a letter itself; so
    it skips most places of a text, and has few alternatives to try at the others.
    """
    groups = groupby(sorted(patterns), key=itemgetter(0))
    return "|".join(
        f"{re.escape(first)}(?:{'|'.join(each[1:] for each in group)})" for first, group in groups
    )


def later(text: str, flags: int = 0) -> Callable[[], Pattern[str]]:
    """What gives the compiled expression; on any thread."""

    @cache
    def pattern() -> Pattern[str]:
        return re.compile(text, flags)

    return pattern
