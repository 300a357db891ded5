"""Items on pages."""

from __future__ import annotations

from listing.settings import Settings


def pages(items: list[str], settings: Settings) -> list[list[str]]:
    """The items of each page."""
    size = settings.page_size
    return [items[start : start + size] for start in range(0, len(items), size)]
