"""How pages look."""

from __future__ import annotations


class Settings:
    """What a user can change."""

    def __init__(self) -> None:
        self.page_size = 10

    def resize(self, page_size: int) -> None:
        """Show so many items on a page."""
        self.page_size = page_size
