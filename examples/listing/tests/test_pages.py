"""How many pages there are."""

from __future__ import annotations

from listing.pages import pages
from listing.settings import Settings


def test_no_items_no_page(settings: Settings) -> None:
    """Not even an empty one."""
    assert pages([], settings) == []


def test_small_pages(settings: Settings) -> None:
    """The last page has what is left."""
    settings.resize(2)
    assert pages(["a", "b", "c"], settings) == [["a", "b"], ["c"]]


def test_one_page_is_enough(settings: Settings) -> None:
    """Three items fit on one page."""
    assert len(pages(["a", "b", "c"], settings)) == 1
