"""Observers of pauses, resumptions and calls inside this process, besides the front end; warnings.

Observers are called after the event is on its way, on the thread it comes from (calls: the I/O
thread), and under no lock: they may ask the manager anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pytest_cideldill.protocol import Event, Warned

Observer = Callable[[Event], object]


class Send(Protocol):
    """Queues an event for the front end; never blocks, never raises."""

    def __call__(self, event: Event, *, urgent: bool = False) -> None:
        """`urgent`: don't wait for others to be sent with it."""


class Observers:
    """Calls the observers of this process.

    When one fails, a warning is sent; the others still run.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._observers: list[Observer] = []  # changed and copied in one step: threads share it

    def add(self, observer: Observer) -> None:
        """Call `observer` with every event from now on."""
        self._observers.append(observer)

    def remove(self, observer: Observer) -> None:
        """Call it no more; one that was never added is no error."""
        try:
            while True:
                self._observers.remove(observer)
        except ValueError:
            return

    @property
    def are_any(self) -> bool:
        """Whether there is any observer."""
        return bool(self._observers)

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """Queue an event, then notify the observers; see `Send`."""
        self._send(event, urgent=urgent)
        self.notify(event)

    def notify(self, event: Event) -> Event:
        """Notify the observers of an event that is sent otherwise; returns it."""
        for observer in self._observers.copy():
            if observer not in self._observers:
                continue  # removed by one before it, or by another thread
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - a border: one observer must not harm others
                self._send(Warned(f"an observer failed: {type(error).__name__}"))
        return event


class EventLink(Protocol):
    """What all who send events need of a link."""

    @property
    def is_open(self) -> bool:
        """Whether anybody gets what is sent."""

    def send(self, event: Event, *, urgent: bool = False) -> None:
        """Take an event; never raises. `urgent`: it must not wait for others."""

    def flush(self, deadline_s: float) -> bool:
        """Wait until everything sent so far has left; False when the deadline passed first."""


class Warnings:
    """Sends each warning about a failure of our own once.

    Attributes:
        unsent: The messages that nobody got, as the link was gone; for stderr.
    """

    def __init__(self, link: EventLink, send: Send, text: Callable[[str], str]) -> None:
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
