"""Which engine events come from; all that is known of it where there are none."""

from __future__ import annotations

import sys


def engine(tools: str = "") -> dict[str, str]:
    """`{"name": ..., "why": ...}`: where events come from here, and why, in a sentence.

    Args:
        tools: Which tool ids are used, once that is known.
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
