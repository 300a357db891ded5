"""A client of the SDK that hears of changed resources, in the way of either era of the protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import mcp_types as types
from mcp.client.subscriptions import Subscription
from mcp.shared.subscriptions import ResourceUpdated

from tests.together.driver import DEADLINE_S, Agent, connected

ERAS = ("legacy", "auto")
"""Modes of the client: the handshake, and what `server/discover` tells: 2026-07-28."""

LIST = None
"""Stands for the list of resources among their URIs."""

T = TypeVar("T")


class Ear:
    """What a client has heard: each URI, or `LIST`, with the epoch seconds of its arrival."""

    def __init__(self) -> None:
        self.heard: list[tuple[str | None, float]] = []
        self._news = threading.Condition()

    def by(self, action: Callable[[], T], *uris: str | None) -> T:
        """Do something and wait until all of these were heard, after it began; what it returned."""
        start = len(self.heard)
        result = action()
        self.until(lambda: {uri for uri, _ in self.heard[start:]} >= set(uris), uris)
        return result

    def until(self, holds: Callable[[], bool], what: object) -> None:
        """Wait until this holds for what was heard."""
        with self._news:
            assert self._news.wait_for(holds, DEADLINE_S), f"{what} not in {self.heard}"

    def count(self, uri: str | None, since: int = 0) -> int:
        """How often one was heard, the first `since` of all left out."""
        return sum(each == uri for each, _ in self.heard[since:])

    async def handshake(self, message: Any) -> None:
        """Takes every notification that the client gets."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self._hear(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            self._hear(LIST)

    async def listen(self, changes: Subscription) -> None:
        """Takes the answer to `subscriptions/listen`."""
        async for each in changes:
            self._hear(each.uri if isinstance(each, ResourceUpdated) else LIST)

    def _hear(self, uri: str | None) -> None:
        with self._news:
            self.heard.append((uri, time.time()))
            self._news.notify_all()


@contextmanager
def hearing(
    server: Any,
    mode: str,
    *uris: str,
    connect: Callable[..., AbstractContextManager[Agent]] = connected,
) -> Iterator[tuple[Agent, Ear]]:
    """A client that hears of these resources and of their list; by default of a fresh server."""
    ear = Ear()
    options = {"message_handler": ear.handshake} if mode == "legacy" else {}
    with connect(server, mode, **options) as agent:
        if mode == "legacy":
            for uri in uris:
                agent.portal.call(agent.client.subscribe_resource, uri)
            yield agent, ear
            return
        listening = agent.client.listen(resources_list_changed=True, resource_subscriptions=uris)
        with agent.portal.wrap_async_context_manager(listening) as changes:
            future = agent.portal.start_task_soon(ear.listen, changes)
            yield agent, ear
            future.cancel()
