"""Names the engine of this interpreter, and says why it is used; needs no event source."""

from __future__ import annotations

import sys


def engine(tools: str = "") -> dict[str, str]:
    """`{"name": ..., "why": ...}`: the engine that gives events here, and a sentence why.

    Args:
        tools: The start of that sentence: which tool ids are used, if that is known.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= (3, 12):
        return {
            "name": "sys.monitoring",
            "why": f"{tools}Python {version} has it, and code that nothing watches runs at full "
            "speed.",
        }
    return {
        "name": "sys.settrace",
        "why": f"Python {version} has no sys.monitoring; every call costs about 0.2 µs, but only"
        " while a breakpoint's function is not found yet, lines or exceptions are watched, or calls"
        " recorded.",
    }
