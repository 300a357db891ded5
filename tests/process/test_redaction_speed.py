"""What the hiding of secrets looks at, counted: time depends on the machine."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_cideldill.redaction import in_text
from pytest_cideldill.redaction.redactor import Redactor
from tests.each_case import for_each


class Counting:
    """A pattern that counts how often it is matched."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.count = 0
        self._pattern = pattern

    def match(self, *args: Any) -> re.Match[str] | None:
        """As that of the pattern."""
        self.count += 1
        return self._pattern.match(*args)


def matched(monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    """How often a name is looked at in a text that has no secret."""
    counting = Counting(in_text._NAMED())
    with monkeypatch.context() as patched:
        patched.setattr(in_text, "_NAMED", lambda: counting)
        assert Redactor(environ={}).redact_text(text) == text
    return counting.count


@for_each("unit", ["key", "token.", "password_token_", "-password", "TOKEN", "jwt"])
def test_a_long_word_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    # Each look goes to the end of the word: one per name in it would be quadratic.
    assert matched(monkeypatch, unit * 1_000) == 1


@pytest.mark.parametrize("unit", ["token x ", "key: a\n", "x token refreshed\n", "<token>\n"])
def test_looks_grow_as_the_text_does(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    half = matched(monkeypatch, unit * 500)
    assert 0 < matched(monkeypatch, unit * 1_000) <= 2 * half + 1
