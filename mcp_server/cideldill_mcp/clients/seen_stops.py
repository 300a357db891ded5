"""Which stops and hits each client has been told of, so that none is told twice or missed.

Lives on the event loop. Clients are known by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Deliveries:
    """The stops that were part of a reply, by client, and how far its replies told of hits.

    A pause that steps has several stops.
    """

    def __init__(self) -> None:
        # Client → pause → `seq` of its newest stop that was told.
        self._told: dict[str, dict[str, int]] = {}
        # How many hits there were, and the number of the newest.
        self._hits = (0, 0)
        self._hits_told: dict[str, tuple[int, int]] = {}
        # Clients that know what tags are.
        self._told_of_tags: set[str] = set()

    def tags_are_new(self, client: str) -> bool:
        """Whether no reply has told the client of tags; from now on one has."""
        is_new = client not in self._told_of_tags
        self._told_of_tags.add(client)
        return is_new

    def note_hit(self, seq: int) -> None:
        """A tracepoint told something; not yet to a client."""
        self._hits = (self._hits[0] + 1, seq)

    def hits_told(self, client: str) -> int:
        """The number of the newest hit that this client was told of."""
        return self._hits_told.get(client, (0, 0))[1]

    def note_hits_told(self, client: str) -> None:
        """A reply to this client contained the newest hits."""
        self._hits_told[client] = self._hits

    def note(self, client: str, pauses: Iterable[Mapping[str, Any]]) -> None:
        """A reply to this client contained these pauses."""
        told = self._told.setdefault(client, {})
        told.update((pause["id"], pause["seq"]) for pause in pauses)

    def is_new(self, client: str, pause: Mapping[str, Any]) -> bool:
        """Whether the client was not told of this stop yet."""
        told: int = self._told.get(client, {}).get(pause["id"], -1)
        return bool(pause["seq"] > told)

    def pending(
        self,
        client: str,
        pauses: Mapping[str, Mapping[str, Any]],
        told: Iterable[str] = (),
        *,
        tells_hits: bool = False,
    ) -> dict[str, int] | None:
        """The contract's `pending` (rule 7) over the present pauses; None when there is no news.

        `told`, `tells_hits`: what the reply at hand is going to tell.
        """
        new = [
            pause["seq"]
            for id, pause in pauses.items()
            if id not in told and self.is_new(client, pause)
        ]
        count, newest = self._hits_told.get(client, (0, 0))
        hits = 0 if tells_hits else self._hits[0] - count
        if not new and not hits:
            return None
        after = min([*(seq - 1 for seq in new), *([newest] if hits else [])])
        return {"stops": len(new), "hits": hits, "after": after}


def told_in(body: Mapping[str, Any]) -> list[str]:
    """The ids of the pauses that a reply contains, or is about."""
    pauses = [*body.get("stops", ()), *body.get("paused", ())]
    ids = [pause["id"] for pause in pauses if isinstance(pause, dict)]
    return ids + ([body["pause_id"]] if "pause_id" in body else [])


def tells_hits(body: Mapping[str, Any]) -> bool:
    """Whether a reply tells the newest hits; an empty list tells that there are none."""
    return "hits" in body
