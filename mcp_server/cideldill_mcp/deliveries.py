"""Which stops each client has been told of, so that none is told twice or missed.

Lives on the event loop. A client is a connection; on stdio there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

STDIO = "stdio"
"""The client at the other end of stdin and stdout."""


class Deliveries:
    """The pauses that were part of a reply, by client."""

    def __init__(self) -> None:
        self._told: dict[str, set[str]] = {}

    def note(self, client: str, pause_ids: Iterable[str]) -> None:
        """A reply to this client contained these pauses."""
        self._told.setdefault(client, set()).update(pause_ids)

    def is_new(self, client: str, pause_id: str) -> bool:
        """Whether the client was not told of this pause yet."""
        return pause_id not in self._told.get(client, ())

    def pending(
        self, client: str, pauses: Mapping[str, Mapping[str, Any]], told: Iterable[str] = ()
    ) -> dict[str, int] | None:
        """The contract's `pending` (rule 7) over the present pauses; None when there is no news.

        `told`: what the reply at hand is going to tell.
        """
        new = [
            pause["seq"]
            for id, pause in pauses.items()
            if id not in told and self.is_new(client, id)
        ]
        if not new:
            return None
        return {"stops": len(new), "hits": 0, "after": min(new) - 1}


def told_in(body: Mapping[str, Any]) -> list[str]:
    """The ids of the pauses that a reply contains, or is about."""
    pauses = [*body.get("stops", ()), *body.get("paused", ())]
    ids = [pause["id"] for pause in pauses if isinstance(pause, dict)]
    return ids + ([body["pause_id"]] if "pause_id" in body else [])
