"""Finds pieces of secrets in texts that were cut in the middle: `'key=ghp_GX7q...sSuuyr'`.

pytest shortens the values that it compares before any plugin sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

CUT: Final = "..."
"""Replaces the middle of a text."""

LEAST_PIECE: Final = 4
"""Fewer characters of a secret reveal nothing of it."""

_MOST: Final = 50
"""Most cuts of a text that are looked at."""

_Piece = tuple[int, int, str]


def pieces(text: str, secrets: Iterable[str]) -> Iterator[_Piece]:
    """The places of a secret's start before a cut, or its end after one, each with the secret."""
    whole_secrets = tuple(secrets)
    at = text.find(CUT)
    for _ in range(_MOST):
        if at < 0:
            return
        behind = at + len(CUT)
        for piece in (_before(text, at, whole_secrets), _behind(text, behind, whole_secrets)):
            if piece is not None:
                yield piece
        at = text.find(CUT, behind)


def _before(text: str, at: int, secrets: Iterable[str]) -> _Piece | None:
    """The longest start of a secret that ends at a place."""
    last = text[max(at - LEAST_PIECE, 0) : at]
    longest: _Piece | None = None
    for secret in secrets if len(last) == LEAST_PIECE else ():
        end = secret.find(last)
        while end >= 0:
            length = end + LEAST_PIECE
            is_longer = longest is None or length > at - longest[0]
            if is_longer and text.endswith(secret[:length], 0, at):
                longest = at - length, at, secret
            end = secret.find(last, end + 1)
    return longest


def _behind(text: str, at: int, secrets: Iterable[str]) -> _Piece | None:
    """The longest end of a secret that begins at a place."""
    first = text[at : at + LEAST_PIECE]
    longest: _Piece | None = None
    for secret in secrets if len(first) == LEAST_PIECE else ():
        start = secret.find(first)
        while start >= 0:
            length = len(secret) - start
            is_longer = longest is None or length > longest[1] - at
            if is_longer and text.startswith(secret[start:], at):
                longest = at, at + length, secret
            start = secret.find(first, start + 1)
    return longest
