"""Observers of the manager inside the process."""

from __future__ import annotations

from pytest_cideldill.link.observers import Observers
from pytest_cideldill.protocol import Event, Warned


class Sent(list[Event]):
    """What was queued for the front end."""

    def __call__(self, event: Event, *, urgent: bool = False) -> None:
        self.append(event)


def test_without_observers_events_are_only_sent() -> None:
    sent = Sent()
    Observers(sent).send(Warned("a"))
    assert sent == [Warned("a")]


def test_all_observers_are_notified_of_every_event_in_order() -> None:
    """After the event is on its way."""
    sent = Sent()
    reported: list[tuple[str, Event, int]] = []
    observers = Observers(sent)
    observers.add(lambda event: reported.append(("first", event, len(sent))))
    observers.add(lambda event: reported.append(("second", event, len(sent))))
    observers.send(Warned("a"), urgent=True)
    assert observers.notify(Warned("b")) == Warned("b")
    assert reported == [
        ("first", Warned("a"), 1),
        ("second", Warned("a"), 1),
        ("first", Warned("b"), 1),
        ("second", Warned("b"), 1),
    ]


def test_one_that_fails_is_reported_and_the_others_still_run() -> None:
    sent = Sent()
    reported: list[Event] = []
    observers = Observers(sent)
    observers.add(lambda _event: 1 / 0)
    observers.add(reported.append)
    observers.send(Warned("a"))
    assert reported == [Warned("a")]
    assert sent == [Warned("a"), Warned("an observer failed: ZeroDivisionError")]


def test_one_that_is_removed_is_sent_nothing_more() -> None:
    """Also while events are told; removing a stranger is no error."""
    reported: list[Event] = []
    observers = Observers(Sent())

    def once(event: Event) -> None:
        reported.append(event)
        observers.remove(once)

    observers.remove(once)
    observers.add(once)
    observers.send(Warned("a"))
    observers.send(Warned("b"))
    observers.remove(once)
    assert reported == [Warned("a")]


def test_one_that_another_removes_is_not_notified_of_the_event_under_way() -> None:
    """As when another thread removes it: those before it may take their time."""
    reported: list[Event] = []
    observers = Observers(Sent())
    observers.add(lambda _event: observers.remove(reported.append))
    observers.add(reported.append)
    observers.add(reported.append)
    observers.send(Warned("a"))
    assert reported == []
