"""Programs of random functions that raise and catch, and note themselves what they have caught."""

from __future__ import annotations

import random

_HEAD = """\
import json
import pathlib
import sys

LOG = []

class A(Exception): pass
class B(A): pass
class C(Exception): pass

def note(error, function):
    LOG.append([type(error).__name__, error.args[0], function])

class Quiet:
    def __init__(self, kind, function):
        self.kind, self.function = kind, function
    def __enter__(self):
        return self
    def __exit__(self, kind, error, traceback):
        if isinstance(error, self.kind):
            note(error, self.function)
            return True

"""

_TAIL = """
def run():
    for n in range(3):
        for function in FUNCTIONS:
            try:
                result = function(n)
                if hasattr(result, "send"):
                    list(result)
            except Exception as error:
                note(error, "run")
    file = pathlib.Path(__file__).with_suffix(".json")
    file.write_text(json.dumps(LOG), encoding="utf-8")
"""

_KINDS = ("A", "B", "C")


class _Program:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._lines: list[str] = []
        self._functions: list[tuple[str, bool]] = []
        self._name = ""
        self._is_generator = False
        self._outer: list[str] = []  # what notes the exceptions whose handlers go on

    def text(self) -> str:
        for number in range(10):
            self._name = f"f{number}"
            self._is_generator = self._chance.random() < 0.25
            self._lines.append(f"def {self._name}(n):")
            self._add(1, "total = n")
            self._block(1, 3)
            if self._is_generator:
                self._add(1, "yield n")
            self._add(1, "return total")
            self._functions.append((self._name, self._is_generator))
        names = ", ".join(name for name, _ in self._functions)
        return "\n".join([_HEAD, *self._lines, f"FUNCTIONS = [{names}]", _TAIL])

    def _add(self, level: int, text: str) -> None:
        self._lines.append(f"{'    ' * level}{text}")

    def _block(self, level: int, depth: int) -> None:
        for _ in range(self._chance.randint(1, 2)):
            self._statement(level, depth)

    def _statement(self, level: int, depth: int) -> None:
        kinds = ["call", "call", "raise", "assign"]
        if depth > 0:
            kinds += ["try", "try", "try", "finally", "with", "loop", "if"]
        if self._is_generator:
            kinds.append("yield")
        getattr(self, f"_{self._chance.choice(kinds)}")(level, depth)

    def _call(self, level: int, _depth: int) -> None:
        if not self._functions:
            self._add(level, "total += 1")
            return
        name, is_generator = self._chance.choice(self._functions)
        called = f"sum(x or 0 for x in {name}(n - 1))" if is_generator else f"{name}(n - 1) or 0"
        self._add(level, f"total += {called}")

    def _raise(self, level: int, _depth: int) -> None:
        self._add(level, f"if (n + total) % 3 < {self._chance.randint(1, 3)}:")
        self._add(level + 1, f"raise {self._chance.choice(_KINDS)}('{self._name}')")

    def _assign(self, level: int, _depth: int) -> None:
        self._add(level, f"total += {self._chance.randint(1, 4)}")

    def _yield(self, level: int, _depth: int) -> None:
        self._add(level, "yield total")

    def _if(self, level: int, depth: int) -> None:
        self._add(level, f"if (n + total) % {self._chance.randint(2, 3)}:")
        self._block(level + 1, depth - 1)

    def _loop(self, level: int, depth: int) -> None:
        self._add(level, f"for n{level} in range(2):")
        self._block(level + 1, depth - 1)

    def _with(self, level: int, depth: int) -> None:
        self._add(level, f"with Quiet({self._chance.choice(_KINDS)}, '{self._name}'):")
        self._block(level + 1, depth - 1)

    def _finally(self, level: int, depth: int) -> None:
        self._add(level, "try:")
        self._block(level + 1, depth - 1)
        self._add(level, "finally:")
        self._add(level + 1, "total += 1")

    def _try(self, level: int, depth: int) -> None:
        self._add(level, "try:")
        self._block(level + 1, depth - 1)
        for kind in self._chance.sample(_KINDS, self._chance.randint(1, 2)):
            kinds = f"({kind}, OSError)" if self._chance.random() < 0.3 else kind
            self._add(level, f"except {kinds} as e{level}:")
            self._handler(level + 1, depth - 1, f"e{level}")
        if self._chance.random() < 0.3:
            self._add(level, "finally:")
            self._add(level + 1, "total += 1")

    def _handler(self, level: int, depth: int, error: str) -> None:
        how = self._chance.choice(["note", "note", "return", "raise", "again", "from", "block"])
        note = f"note({error}, '{self._name}')"
        if how in ("note", "return"):
            self._add(level, note)
            if how == "return":
                for outer in reversed(self._outer):  # their handlers are left as well
                    self._add(level, outer)
                self._add(level, "return total")
        elif how == "raise":
            self._add(level, "raise")
        elif how == "again":
            self._add(level, f"raise {error}")
        elif how == "from":
            self._add(level, f"raise {self._chance.choice(_KINDS)}('{self._name}') from {error}")
        else:
            self._outer.append(note)
            self._block(level, depth)
            self._add(level, self._outer.pop())


def program(seed: int) -> str:
    """A module; its `run` writes what was caught beside it: class, raised in, caught in."""
    return _Program(seed).text()
