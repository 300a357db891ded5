"""Warnings about failures of our own: each is sent once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pytest_cideldill.link.observers import Send
from pytest_cideldill.protocol import Warned


class Opened(Protocol):
    """A link, as far as it matters here."""

    @property
    def is_open(self) -> bool:
        """Whether anybody gets what is sent."""


class Warnings:
    """Sends each warning about a failure of our own once.

    Args:
        link: Whether it is open.
        send: Sends an event.
        text: Removes secrets from a message.

    Attributes:
        unsent: The messages that nobody got, as the link was gone; for stderr.
    """

    def __init__(self, link: Opened, send: Send, text: Callable[[str], str]) -> None:
        self._link = link
        self._send = send
        self._text = text
        self._sent: set[str] = set()
        self.unsent: list[str] = []

    def warn(self, message: str) -> None:
        """Send a message once; any thread."""
        if not self._link.is_open:
            if message not in self._sent and message not in self.unsent:
                self.unsent.append(message)
        elif message not in self._sent:
            self._sent.add(message)
            self._send(Warned(self._text(message)))
