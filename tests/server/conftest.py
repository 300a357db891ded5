"""Tests of the front end's inside, whose test processes are played by hand."""

from __future__ import annotations

import pytest

from cideldill_mcp.runs import registry


@pytest.fixture(autouse=True)
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is over soon after its process said goodbye: the child of these runs never exits.

    And soon after its child was killed, as the test holds the connections of its processes.
    """
    monkeypatch.setattr(registry, "EXIT_S", 0.02)
    monkeypatch.setattr(registry, "SILENT_S", 0.1)
