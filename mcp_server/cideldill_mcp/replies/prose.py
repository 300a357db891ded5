"""Replies of tools as lines of a text, for the prompts.

Pure functions; the values are those of replies.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

MAX_LINE = 200
"""Characters of a line, so that one value can't fill a prompt."""


def shown_place(place: dict[str, Any]) -> str:
    """FILE:LINE."""
    return f"{place['file']}:{place['line']}"


def shown_frame(place: dict[str, Any], function: str, source: str | None) -> str:
    """A frame with its source line."""
    shown = f": {source.strip()}" if source else ""
    return f"{shown_place(place)} in {function}{shown}"


def shown_arguments(call: dict[str, Any]) -> str:
    """The arguments of a call, as they are written."""
    named = (f"{name}={value}" for name, value in call["pretty_kwargs"].items())
    return ", ".join([*call["pretty_args"], *named])


def shown_exception(exception: dict[str, Any]) -> str:
    """Class and first line of the message."""
    first, _, rest = (exception.get("message") or "").partition("\n")
    return f"{exception['type']}: {first}{' …' if rest else ''}"


def possible(steps: Iterable[str], offered: Container[str]) -> list[str]:
    """The next steps that don't begin with a tool which the client does not have."""
    first = {step: step.partition(" ")[0].rstrip(":") for step in steps}
    return [step for step, word in first.items() if "_" not in word or word in offered]


def section(title: str, lines: Iterable[str], total: int | None = None) -> Iterator[str]:
    """A title with its lines as a list, and an empty line; how many there are if not all."""
    shown = list(lines)
    count = f" ({len(shown)} of {total})" if total is not None and total > len(shown) else ""
    yield f"{title}{count}:" if shown else f"{title}: none"
    yield from (f"- {line}" for line in shown)
    yield ""


def joined(*lines: str) -> str:
    """The lines as one text; none is longer than `MAX_LINE`."""
    return "\n".join(short(line.replace("\n", "\\n")) for line in lines).rstrip()


def short(line: str) -> str:
    """Cut to `MAX_LINE`."""
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"
