"""`python -P -m pytest_cideldill.objects.unpickling`: makes an object of a record anew, to look in.

A process of its own, for that runs code of the record's, which the user who opened it has allowed.
One JSON request on stdin, one reply on stdout.
"""

from __future__ import annotations

import sys
from typing import Any

from pytest_cideldill.interpreter import one_shot
from pytest_cideldill.objects.pickles import undilled
from pytest_cideldill.objects.store import CIDStore
from pytest_cideldill.protocol.object_paths import Unreachable
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.navigation import navigate
from pytest_cideldill.rendering.tree import describe


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """`{"found": DESCRIPTION}`, or `{"error": CODE, "message": SENTENCE}`.

    The request has `store` (a file), `cid`, `path`, `depth`; `roots`, where modules may be;
    `redact`, whether secrets are hidden.
    """
    sys.path[:0] = request["roots"]
    store = CIDStore(request["store"], is_reader=True)
    data = store.get(request["cid"])
    store.close()
    if data is None:
        return {"error": "cid_not_found", "message": "only the snapshot of this object was kept"}
    try:
        value = undilled(data)
    except BaseException as error:  # noqa: BLE001 - a border: it is code of the record's
        return {"error": "cid_not_found", "message": f"can't be made anew: {type(error).__name__}"}
    redactor = Redactor(enabled=request["redact"])
    try:
        found = navigate(value, request["path"], redactor)
    except (ValueError, Unreachable) as error:
        return {"error": "invalid_path", "message": str(error)}
    description = describe(found.value, name=found.name, depth=request["depth"], redactor=redactor)
    return {"found": description}


def main() -> None:
    """Answer the request on stdin."""
    one_shot.reply_once(lambda: answer(one_shot.request()))


if __name__ == "__main__":
    main()
