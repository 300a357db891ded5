"""Why tests of a recorded run failed, as `--cideldill-why` asked when it was over: `why.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pytest_cideldill.interpreter.untrusted_files import read_bounded, replacing

WHY: Final = "why.json"

_KEYS: Final = ("nodeid", "outcome", "parts", "suspects", "seconds", "truncated", "text")
"""Keys of a reply of `test_why` that are kept; its id and its next calls are of a moment."""


def write_answers(folder: Path, replies: Sequence[dict[str, Any]]) -> None:
    """Write the answers of a run, for its owner's eyes.

    Args:
        folder: Of the run.
        replies: Reply objects of `test_why`.

    Raises:
        OSError: The file can't be written.
    """
    answers = [{key: reply[key] for key in _KEYS if key in reply} for reply in replies]
    text = json.dumps({"answers": answers}, indent=1)
    with replacing(folder / WHY, 0o600) as file:
        file.write(text.encode() + b"\n")


def read_answers(folder: Path) -> dict[str, str]:
    """Node id → text. What makes no sense in the record is passed over."""
    try:
        plain = json.loads(read_bounded(folder / WHY))
    except (OSError, ValueError, RecursionError):
        return {}  # it was not asked, mostly
    answers = plain.get("answers") if isinstance(plain, dict) else None
    texts: dict[str, str] = {}
    for each in answers if isinstance(answers, list) else ():
        if isinstance(each, dict):
            nodeid, text = each.get("nodeid"), each.get("text")
            if isinstance(nodeid, str) and isinstance(text, str):
                texts[nodeid] = text
    return texts
