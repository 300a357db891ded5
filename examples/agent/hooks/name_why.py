"""A hook of Claude Code: after a pytest in the shell has failed, names the command that says why.

Reads the hook's JSON on stdin, prints one as the context of what the agent sees next, or nothing.
A failed command arrives as `PostToolUseFailure`; one whose exit code a pipe has hidden, as
`PostToolUse`. Needs Python's library only, asks nothing of any network, and always ends with 0.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

MOST_BYTES = 4_000_000

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(
    # The short summary; the parameters of a test may have ` - ` in them.
    r"^(?:FAILED|ERROR) (?P<short>[^\s\[]+::[^\[\n]*?(?:\[.*?\])?)(?: - .*)?$"
    # pytest -v.
    r"|^(?P<verbose>[^\s\[]+::[^\[\n]*?(?:\[.*?\])?) (?:FAILED|ERROR)(?: +\[ *\d+%\])?$",
    re.MULTILINE,
)
_PYTEST = re.compile(r"\bpytest\b|\bpy\.test\b")
_SUMMARY = re.compile(r"\b\d+ (?:failed|errors?)\b.* in \d+(?:\.\d+)?s\b")


def main() -> None:
    """Read, and answer."""
    event = json.loads(sys.stdin.buffer.read(MOST_BYTES))
    context = context_of(event)
    if context:
        name = event.get("hook_event_name") or "PostToolUse"
        specific = {"hookEventName": name, "additionalContext": context}
        print(json.dumps({"hookSpecificOutput": specific}))


def context_of(event: dict[str, Any]) -> str:
    """The context that the agent gets; empty: nothing."""
    command = str((event.get("tool_input") or {}).get("command") or "")
    parts = (event.get(key) for key in ("tool_response", "error", "error_message"))
    output = _STYLES.sub("", "\n".join(text for each in parts for text in texts_in(each)))
    if "cideldill: why?" in output or "cideldill why" in command:
        return ""  # it is named already
    if not (_PYTEST.search(command) or _SUMMARY.search(output)):
        return ""  # not of pytest, also not by way of make or tox
    failed = list(dict.fromkeys(found["short"] or found["verbose"] for found in failures(output)))
    if not failed:
        return ""
    call = f"{command_in(str(event.get('cwd') or '.'))} why {quoted(failed[0])}"
    others = f" {len(failed) - 1} more failed." if len(failed) > 1 else ""
    return (
        f"Why {failed[0]} failed: `{call}` (or the tool test_why) shows where the wrong value came "
        f"from, where the test parts from one that passes, and suspects with their source.{others}"
    )


def texts_in(response: Any) -> Iterator[str]:
    """The texts of a response: itself, or what it has for stdout and stderr."""
    if isinstance(response, str):
        yield response
    elif isinstance(response, dict):
        yield from (each for each in response.values() if isinstance(each, str))


def failures(output: str) -> Iterator[re.Match[str]]:
    """The lines that name a test that failed."""
    return _FAILED.finditer(output)


def command_in(folder: str) -> str:
    """The command as a shell in that folder finds it."""
    for place in (".venv/bin/cideldill", "venv/bin/cideldill"):
        if os.access(os.path.join(folder, place), os.X_OK):
            return place
    return "cideldill" if shutil.which("cideldill") else "python -m cideldill_mcp.commands.main"


def quoted(nodeid: str) -> str:
    """For a POSIX shell."""
    return "'" + nodeid.replace("'", "'\"'\"'") + "'"


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001 - whatever it was given, the agent goes on
        pass
