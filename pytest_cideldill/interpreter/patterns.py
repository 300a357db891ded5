"""Compiles regular expressions when they are first used, as most runs never use most of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from operator import itemgetter
from re import Pattern


def by_first_letter(patterns: Iterable[str]) -> str:
    """Join expressions that begin with a letter into one, grouped by that letter.

    If all alternatives begin with a letter, `re` searches for these letters first. So it skips most
    places of a text, and has few alternatives to try at the others.
    """
    groups = groupby(sorted(patterns), key=itemgetter(0))
    return "|".join(
        f"{re.escape(first)}(?:{'|'.join(each[1:] for each in group)})" for first, group in groups
    )


def later(text: str, flags: int = 0) -> Callable[[], Pattern[str]]:
    """A function that returns the compiled expression; for any thread."""

    @cache
    def pattern() -> Pattern[str]:
        return re.compile(text, flags)

    return pattern
