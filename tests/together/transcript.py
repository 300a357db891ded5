"""Transcripts in the documentation: calls (`>`) with the parts of the replies (`<`) that matter.

In a reply that is shown, keys may be missing, `…` in a string stands for any text, and a long
string goes on in the next line. Lines that begin with `|` are lines of its `text`; `| …` stands for
any number of them, also none.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from tests.together.driver import Agent

Exchange = tuple[str, dict[str, Any], dict[str, Any]]
"""A tool, its arguments, and what is shown of its reply."""


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", page, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


def exchanges(page: str) -> Iterator[Exchange]:
    """What happens in the blocks of text on a page, in order."""
    entries: list[str] = []
    for block in blocks(page, "text"):
        _, *parts = re.split(r"^(?=[<>] )", block, flags=re.MULTILINE)
        entries += parts
    for call, reply in zip(entries[::2], entries[1::2], strict=True):
        assert (call[:2], reply[:2]) == ("> ", "< ")
        tool, _, arguments = call[2:].partition(" ")
        yield tool, _parsed(arguments), _reply(reply[2:])


def _reply(shown: str) -> dict[str, Any]:
    """What is shown of a reply, with its `text` if lines of that are below."""
    lines = shown.splitlines()
    text = [line[2:] for line in lines if line.startswith("|")]
    value = _parsed("\n".join(line for line in lines if not line.startswith("|")))
    return value | {"text": re.sub(r"\n…(?=\n|$)", "…", "\n".join(text))} if text else value


def _parsed(text: str) -> dict[str, Any]:
    value = json.loads(re.sub(r"\s*\n\s*", " ", text))
    assert isinstance(value, dict)
    return value


def replay(agent: Agent, page: str) -> None:
    """Make the calls of a page; their replies must be as shown."""
    calls = list(exchanges(page))
    assert calls
    for tool, arguments, shown in calls:
        real = agent.call(tool, **arguments)
        found = list(differences(shown, real))
        assert not found, f"{tool} {arguments}: {found}, in {real}"


def differences(shown: Any, real: Any, place: str = "reply") -> Iterator[str]:
    """Where a reply is not as shown."""
    if isinstance(shown, dict) and isinstance(real, dict):
        for key, value in shown.items():
            if key in real:
                yield from differences(value, real[key], f"{place}.{key}")
            else:
                yield f"{place} has no {key}"
    elif isinstance(shown, list) and isinstance(real, list) and len(shown) == len(real):
        for number, pair in enumerate(zip(shown, real, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif isinstance(shown, str) and isinstance(real, str):
        pattern = ".*".join(re.escape(part) for part in shown.split("…"))
        if not re.fullmatch(pattern, real, re.DOTALL):
            yield f"{place}: {shown!r} is shown, {real!r} came"
    elif shown != real:
        yield f"{place}: {shown!r} is shown, {real!r} came"
