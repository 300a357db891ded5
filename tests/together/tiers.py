"""Which of many values the fast tier tries."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def rest_in_full(quick: str, values: Iterable[str]) -> list[Any]:
    """Parameters of a test: one is tried in every tier, the others in the full one."""
    values = list(values)
    assert quick in values
    return [
        each if each == quick else pytest.param(each, marks=pytest.mark.full) for each in values
    ]


def rest_in_soak(kept: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: some stay in its tier, further members of the kind go to the soak."""
    return [each if each in kept else pytest.param(each, marks=pytest.mark.soak) for each in values]
