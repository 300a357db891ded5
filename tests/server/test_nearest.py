"""What is proposed for a node id that no test has: only what exists, the likeliest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from cideldill_mcp.breakpoints.nearest import nearest

BESIDE = [
    "test_cart.py::test_total",
    "test_cart.py::test_totals",
    "test_cart.py::TestCart::test_add",
    "test_cart.py::TestCart::test_remove",
]


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("test_cart.py::test_total[3]", ["test_cart.py::test_total"]),
        ("test_cart.py::test_totl", ["test_cart.py::test_total", "test_cart.py::test_totals"]),
        ("test_cart.py::test_add", ["test_cart.py::TestCart::test_add"]),
        ("test_cart.py::TestBasket::test_add[a::b]", ["test_cart.py::TestCart::test_add"]),
        ("tests/test_cart.py::test_total", ["test_cart.py::test_total"]),
        ("test_crat.py::test_total", ["test_cart.py"]),
        ("unit/test_bil.py", ["unit/test_bill.py"]),
        ("unit/nothing/like/it.py", []),
        ("", []),
        ("::", []),
    ],
)
def test_what_exists_is_proposed(tmp_path: Path, name: str, proposed: list[str]) -> None:
    (tmp_path / "unit").mkdir()
    for each in ("test_cart.py", "unit/test_bill.py"):
        (tmp_path / each).touch()
    found = nearest([name], BESIDE, str(tmp_path))
    near = found.get(name, [])
    assert near[: len(proposed)] == proposed
    assert bool(near) == bool(proposed)
    assert nearest([name], [], None) == {}
