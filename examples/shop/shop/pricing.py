"""Discount rates of coupons."""

from __future__ import annotations

import logging
from decimal import Decimal

logger = logging.getLogger(__name__)

_RATES = {
    "none": Decimal(0),
    "FLAT5": Decimal("0.05"),
    "BULK10": Decimal("0.05"),
}


def rate(code: str) -> Decimal:
    """The share of the price that a coupon takes off."""
    found = _RATES[code]
    logger.debug("discount %s for %s", found, code)
    return found
