"""Makes tags of secrets, like `<redacted:token#a1b2c3>`: one per value in all processes of a run.

May be used on any thread; takes no lock, runs no user code.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Final

TAG: Final = re.compile(r"<redacted:[^<>#]*#[0-9a-f]+>")

TAGGED: Final = "<redacted:"
"""The start of each tag."""

HOW_TO_SHOW: Final = (
    "a tag <redacted:…> stands for a secret, equal ones for equal values; "
    "cideldill_show_names = NAME in the ini file shows values of that name, "
    "--cideldill-no-redact all"
)

UNKNOWN: Final = "<redacted:unknown#0>"
"""Replaces a text that could not be redacted."""

LONGEST: Final = 65_536
"""A tag is made of so many characters of a secret, and of its length."""

_DIGITS: Final = 6
"""Hex digits of a tag. Processes can't ask each other which digits are in use, so there are enough
to make it unlikely (once in 3,000 runs with 100 secrets) that two values get the same ones."""

_LONG_DIGITS: Final = 16

_MOST_TAGS: Final = 20_000
"""How many values get short tags. A test that makes secrets in a loop gets long ones after that."""


class Tags:
    """The tags of one process.

    Two values never have the same digits. If only the word before the digits differs, the value is
    the same: the word shows how a process recognized the value first.

    Args:
        key: The key of the run: with the same key, equal values get equal digits. None: a random
            key.
    """

    __slots__ = ("_key", "_owners")

    def __init__(self, key: bytes | None = None) -> None:
        # With a secret key nobody can find the value of a tag by trying out passwords.
        self._key = key or secrets.token_bytes(32)
        # Digits → (whole digest, label). Only dict.setdefault writes, which is atomic; so a fork or
        # a signal at any moment leaves nothing locked.
        self._owners: dict[str, tuple[bytes, str]] = {}

    def tag(self, label: str, secret: str) -> str:
        """The tag of a value; it keeps the label of its first appearance."""
        if len(secret) > LONGEST:
            secret = f"{secret[:LONGEST]}{len(secret)}"
        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256")
        text = digest.hex()
        owners = self._owners
        has_room = len(owners) < _MOST_TAGS
        for length in range(_DIGITS, len(text) + 1):
            short = text[:length]
            owner = owners.setdefault(short, (digest, label)) if has_room else owners.get(short)
            if owner is None:
                return f"<redacted:{label}#{text[:_LONG_DIGITS]}>"
            if owner[0] == digest:
                return f"<redacted:{owner[1]}#{short}>"
        return UNKNOWN
