"""Which of many values the fast tier tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_in_full(quick: str, values: Iterable[str]) -> list[Any]:
    """Parameters of a test: one is tried in every tier, the others in the full one."""
    values = list(values)
    assert quick in values
    return [
        each if each == quick else pytest.param(each, marks=pytest.mark.full) for each in values
    ]
