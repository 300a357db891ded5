"""Looks deeper into objects of a record than their snapshots, where that is allowed.

It takes a process of its own, since unpickling runs code. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from cideldill_mcp.launch import Recipe
from pytest_cideldill.errors import ErrorCode
from pytest_cideldill.errors import Refusal

TIMEOUT_S = 10.0
"""How long it may take; then the process is killed."""

_MODULE = ("-P", "-m", "pytest_cideldill.capture.unpickling")


async def look_into(
    recipe: Recipe, store: Path, cid: str, path: str, depth: int, *, redact: bool
) -> dict[str, Any]:
    """The description of an object, or of a part of it.

    Raises:
        Refusal: `cid_not_found`: it can't be made anew here. `invalid_path`. `process_busy`: it
            took too long.
    """
    root = Path(recipe.rootdir or ".").absolute()
    request = {"store": str(store), "cid": cid, "path": path, "depth": depth, "redact": redact}
    request["roots"] = [str(each) for each in (root, root / "src", root / "tests")]
    process = await asyncio.create_subprocess_exec(
        *recipe.interpreter,
        *_MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            told, _ = await process.communicate(json.dumps(request).encode())
    except TimeoutError:
        process.kill()
        raise Refusal(
            ErrorCode.PROCESS_BUSY, f"making the object anew took longer than {TIMEOUT_S:.0f} s"
        ) from None
    reply: dict[str, Any] = json.loads(told or b'{"error": "cid_not_found", "message": "it died"}')
    if "error" in reply:
        raise Refusal(ErrorCode(reply["error"]), reply["message"], cid=cid)
    found: dict[str, Any] = reply["found"]
    return found
