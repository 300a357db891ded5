"""What the parts of a process know of the link: that it takes events away."""

from __future__ import annotations

from typing import Protocol

from pytest_cideldill.wire import Event


class Send(Protocol):
    """Queues an event; never blocks, never raises."""

    def __call__(self, event: Event, *, urgent: bool = False) -> None:
        """`urgent`: don't wait for others to share the way."""


class Link(Protocol):
    """Where events go and commands come from."""

    @property
    def send(self) -> Send:
        """See there."""

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything queued so far has left; False when the deadline passed first."""

    def close(self, deadline_s: float) -> None:
        """Send what is queued and hang up."""
