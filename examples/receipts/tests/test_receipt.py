"""Sums on receipts."""

from __future__ import annotations

from decimal import Decimal

from receipts.receipt import Receipt


def test_greetings_cost_nothing() -> None:
    """They have no amount."""
    receipt = Receipt()
    receipt.sell("tea", "3.50")
    receipt.greet("Thank you!")
    assert receipt.total() == Decimal("3.50")


def test_total_with_a_reduced_article() -> None:
    """Each article counts."""
    receipt = Receipt()
    receipt.sell("tea", "3.50")
    receipt.sell("mug", "9.00", percent=20)
    assert receipt.total() == Decimal("10.70")
