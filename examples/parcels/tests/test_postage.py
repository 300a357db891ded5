"""Postage of a letter, of a box and of a heavy box."""

from __future__ import annotations

import pytest
from parcels.postage import postage


@pytest.mark.parametrize(("kilograms", "euros"), [(0.5, 4), (12, 9), (25, 15)])
def test_postage(kilograms: float, euros: int) -> None:
    """The heavier, the dearer."""
    assert postage(kilograms) == euros
