"""Which tool ids of `sys.monitoring` are ours: there are six for all tools of a process."""

from __future__ import annotations

import sys
from typing import Final

from pytest_cideldill.sources.events import SourceUnavailable

IDS: Final = (4, 5, 2)
"""Tool ids in the order they are tried.

Never 0: pytest-timeout then ignores every timeout. 1 is coverage's, and with 3 taken Hypothesis
gives up explaining.
"""

_NAME: Final = "pytest-cideldill"


def claim() -> tuple[int, int]:
    """Two tool ids, or the same one twice when no second is free."""
    taken = []
    for tool in IDS:
        try:
            sys.monitoring.use_tool_id(tool, _NAME)
        except ValueError:
            continue
        taken.append(tool)
        if len(taken) == 2:
            break
    if not taken:
        owners = ", ".join(f"{tool} ({sys.monitoring.get_tool(tool)})" for tool in IDS)
        raise SourceUnavailable(f"No tool id of sys.monitoring is free: {owners}.")
    return taken[0], taken[-1]
