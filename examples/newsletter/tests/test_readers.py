"""Topics of new readers, and of those who want more."""

from __future__ import annotations

from newsletter.readers import subscribe
from newsletter.readers import upgrade


def test_a_reader_gets_the_topics_asked_for() -> None:
    """Those and no others."""
    assert subscribe("eve@example.org", ["sports"]).topics == ["sports"]


def test_only_who_upgrades_gets_offers() -> None:
    """The other one gets the news alone."""
    upgrade(subscribe("ada@example.org"))
    reader = subscribe("bob@example.org")
    assert reader.topics == ["news"]
