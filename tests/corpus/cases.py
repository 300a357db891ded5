"""What a case of the corpus is: something that must be hidden, or something that must not.

Values are made at run time from the names of the cases, so that no source text holds one, each is
unique, so that one that is found shows whose it is.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field
from typing import Final

MARK: Final = "§"
"""Stands for the planted value."""

TEXT: Final = "TEXT"
"""Stands in the body of a test for the text around the value."""

BEYOND: Final = "beyond"
"""Kind of cases that don't count."""

_SEED: Final = "corpus"

MIXED: Final = string.ascii_letters + string.digits
HEX: Final = "0123456789abcdef"
UPPER: Final = string.ascii_uppercase + "234567"
LOWER: Final = string.ascii_lowercase + string.digits
DIGITS: Final = string.digits
LETTERS: Final = string.ascii_letters

REPORTED: Final = {
    "local": f"note = {TEXT}\nassert 0",
    "printed": f"print({TEXT})\nassert 0",
    "message": f"raise RuntimeError({TEXT})",
    "logged": f'logging.getLogger("shop").error({TEXT})\nassert 0',
    "compared": f'assert {TEXT} == "other"',
}
"""How a test reports a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a test of the project has, planted or harmless.

    Attributes:
        kind: What it is a case of.
        name: What is special about it, and how it is reported; unique within its kind.
        body: Of the test.
        text: What `TEXT` stands for in it.
        head: Lines before the test, for its fixtures or marks.
        arguments: Of the test.
        trace: Message of a tracepoint on the last line.
        source: A piece of source text; it is written as it is.
    """

    kind: str
    name: str
    body: str = ""
    text: str = ""
    head: str = ""
    arguments: str = ""
    trace: str = ""
    source: str = ""

    @property
    def title(self) -> str:
        """Its whole name."""
        return f"{self.kind}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted(Case):
    """A secret, and the test that has it: `§` for the value in body, text and source.

    Attributes:
        conftest: Lines of the conftest.
        variable: The environment variable that holds the value before the start.
        function: Lines of a function in a module whose calls are recorded.
        length: Characters of the value.
        alphabet: What it is made of.
    """

    conftest: str = ""
    variable: str = ""
    function: str = ""
    length: int = 15
    alphabet: str = MIXED
    value: str = field(init=False)

    def __post_init__(self) -> None:
        chance = random.Random(f"{_SEED} {self.title}")
        value = "".join(chance.choices(self.alphabet, k=self.length))
        if self.alphabet == MIXED and self.length == 15:
            # Neither a word nor a number: with a digit, a capital and a small letter.
            value = f"{chance.choice(string.ascii_uppercase)}q{value[2:-1]}7"
        if self.alphabet == DIGITS:
            value = f"{chance.choice('123456789')}{value[1:]}"
        object.__setattr__(self, "value", value)

    @property
    def whole(self) -> str:
        """The text with the value in it."""
        return self.text.replace(MARK, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmless(Case):
    """Something that must be shown, and the test that has it."""
