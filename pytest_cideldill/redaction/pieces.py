"""Rests of secrets in texts that others have cut in the middle: `'key=ghp_GX7q...sSuuyr'`.

pytest shortens what it compares, before anybody else sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

CUT: Final = "..."
"""What stands for the middle."""

LEAST_PIECE: Final = 4
"""Characters of a secret that tell something of it."""

_MOST: Final = 50
"""Cuts of a text that are looked at."""

_Piece = tuple[int, int, str]


def pieces(text: str, secrets: Iterable[str]) -> Iterator[_Piece]:
    """Where the begin of a secret stands before a cut, or its end behind one; and the secret."""
    known = tuple(secrets)
    at = text.find(CUT)
    for _ in range(_MOST):
        if at < 0:
            return
        behind = at + len(CUT)
        for found in (_before(text, at, known), _behind(text, behind, known)):
            if found is not None:
                yield found
        at = text.find(CUT, behind)


def _before(text: str, at: int, known: Iterable[str]) -> _Piece | None:
    """The longest begin of a secret that ends there."""
    last = text[max(at - LEAST_PIECE, 0) : at]
    longest: _Piece | None = None
    for secret in known if len(last) == LEAST_PIECE else ():
        end = secret.find(last)
        while end >= 0:
            length = end + LEAST_PIECE
            is_longer = longest is None or length > at - longest[0]
            if is_longer and text.endswith(secret[:length], 0, at):
                longest = at - length, at, secret
            end = secret.find(last, end + 1)
    return longest


def _behind(text: str, at: int, known: Iterable[str]) -> _Piece | None:
    """The longest end of a secret that begins there."""
    first = text[at : at + LEAST_PIECE]
    longest: _Piece | None = None
    for secret in known if len(first) == LEAST_PIECE else ():
        start = secret.find(first)
        while start >= 0:
            length = len(secret) - start
            is_longer = longest is None or length > longest[1] - at
            if is_longer and text.startswith(secret[start:], at):
                longest = at, at + length, secret
            start = secret.find(first, start + 1)
    return longest
