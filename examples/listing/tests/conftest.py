"""What all tests use."""

from __future__ import annotations

import pytest
from listing.settings import Settings


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The settings that nobody has changed."""
    return Settings()
