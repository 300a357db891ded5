"""Looks deeper into objects of a record than their snapshots, where that is allowed.

It takes a process of its own, since unpickling runs code. Lives on the event loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cideldill_mcp.processes.helpers import Unanswered, ask
from cideldill_mcp.processes.launch import Recipe
from pytest_cideldill.errors import ErrorCode, Refusal

TIMEOUT_S = 10.0
"""How long it may take; then the process is killed."""

_MODULE = "pytest_cideldill.objects.unpickling"


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
    try:
        reply = await ask(recipe.interpreter, _MODULE, request, TIMEOUT_S)
    except TimeoutError:
        raise Refusal(
            ErrorCode.PROCESS_BUSY, f"making the object anew took longer than {TIMEOUT_S:.0f} s"
        ) from None
    except Unanswered as error:
        message = f"the object can't be made anew: {error}"
        raise Refusal(ErrorCode.CID_NOT_FOUND, message, cid=cid) from error
    if "error" in reply:
        raise Refusal(ErrorCode(reply["error"]), reply["message"], cid=cid)
    found: dict[str, Any] = reply["found"]
    return found
