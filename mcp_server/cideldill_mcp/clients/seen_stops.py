"""The stops and hits that each client has been sent, so that none is sent twice or missed.

Lives on the event loop. Clients have names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Deliveries:
    """By client the stops that its replies contained, and the newest hit that they contained.

    A pause with steps has several stops.
    """

    def __init__(self) -> None:
        # Client → pause → `seq` of its newest stop that was sent.
        self._stops_sent: dict[str, dict[str, int]] = {}
        # The number of all hits, and the number in the event log of the newest one.
        self._hits = (0, 0)
        self._hits_sent: dict[str, tuple[int, int]] = {}
        # Clients that got the explanation of tags.
        self._know_tags: set[str] = set()

    def tags_are_new(self, client: str) -> bool:
        """Whether no reply to the client has explained tags yet; the next one is going to."""
        is_new = client not in self._know_tags
        self._know_tags.add(client)
        return is_new

    def note_hits(self, count: int, newest: int) -> None:
        """Tracepoints were hit, the last time as this event; no hit was sent to any client yet."""
        self._hits = (self._hits[0] + count, newest)

    def last_hit_sent(self, client: str) -> int:
        """The number of the newest hit that was sent to this client."""
        return self._hits_sent.get(client, (0, 0))[1]

    def note_hits_sent(self, client: str) -> None:
        """A reply to this client contained the newest hits."""
        self._hits_sent[client] = self._hits

    def note(self, client: str, pauses: Iterable[Mapping[str, Any]]) -> None:
        """A reply to this client contained these pauses."""
        newest = self._stops_sent.setdefault(client, {})
        newest.update((pause["id"], pause["seq"]) for pause in pauses)

    def is_new(self, client: str, pause: Mapping[str, Any]) -> bool:
        """Whether no reply to the client contained this stop yet."""
        newest: int = self._stops_sent.get(client, {}).get(pause["id"], -1)
        return bool(pause["seq"] > newest)

    def pending(
        self,
        client: str,
        pauses: Mapping[str, Mapping[str, Any]],
        sent: Iterable[str] = (),
        *,
        reports_hits: bool = False,
    ) -> dict[str, int] | None:
        """The key `pending` of a reply, over the present pauses; None when nothing is new.

        `sent` are the pauses in that reply, `reports_hits`: it has the newest hits.
        """
        new = [
            pause["seq"]
            for id, pause in pauses.items()
            if id not in sent and self.is_new(client, pause)
        ]
        count, newest = self._hits_sent.get(client, (0, 0))
        hits = 0 if reports_hits else self._hits[0] - count
        if not new and not hits:
            return None
        after = min([*(seq - 1 for seq in new), *([newest] if hits else [])])
        return {"stops": len(new), "hits": hits, "after": after}


def pauses_in(body: Mapping[str, Any]) -> list[str]:
    """The ids of the pauses in a reply, and of the one that it is about."""
    pauses = [*body.get("stops", ()), *body.get("paused", ())]
    ids = [pause["pause_id"] for pause in pauses if isinstance(pause, dict)]
    return ids + ([body["pause_id"]] if "pause_id" in body else [])
