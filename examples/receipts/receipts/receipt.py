"""Receipts: goods, and greetings between them."""

from __future__ import annotations

from decimal import Decimal

from receipts.prices import reduced


class Receipt:
    """Lines of text, most of them with an amount."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Decimal | None]] = []

    def greet(self, text: str) -> None:
        """Add a text without an amount."""
        self.lines.append((text, None))

    def sell(self, name: str, price: str, percent: int = 0) -> None:
        """Add one article, maybe for less."""
        self.lines.append((name, reduced(Decimal(price), percent)))

    def total(self) -> Decimal:
        """The sum of all amounts."""
        total = Decimal(0)
        for _, amount in self.lines:
            try:
                total += amount
            except TypeError:
                continue  # a greeting
        return total
