"""Next calls that a reply proposes, in the form of all replies: `tool {"name": "value"}: why`."""

from __future__ import annotations

import json


def proposal(tool: str, why: str, **parameters: object) -> str:
    """A next call; its parameters can be given to the tool as they are."""
    return f"{tool} {json.dumps(parameters, ensure_ascii=False)}: {why}"
