"""`cideldill-mcp demo`: what it prints and claims comes from a real session."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cideldill_mcp.demo import debug, find_shop
from tests.together.transcript import blocks

ROOT = Path(__file__).resolve().parents[2]
MakeShop = Callable[[str, str, str], Path]


@pytest.fixture
def make_shop(tmp_path: Path) -> MakeShop:
    """A copy of the shop with one text in one file replaced."""

    def make(file: str, old: str, new: str) -> Path:
        shop = shutil.copytree(find_shop(), tmp_path / "shop")
        text = (shop / file).read_text(encoding="utf-8")
        assert old in text
        (shop / file).write_text(text.replace(old, new), encoding="utf-8")
        return shop

    return make


def sources() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in find_shop().rglob("*.py")}


@pytest.mark.full
def test_the_demo_proves_the_cause_and_confirms_the_fix_on_a_copy(tmp_path: Path) -> None:
    before = sources()
    done = subprocess.run(
        [sys.executable, "-m", "cideldill_mcp", "demo"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    pricing = find_shop() / "shop" / "pricing.py"
    source = pricing.read_text(encoding="utf-8").splitlines()
    line = 1 + source.index("def rate(code: str) -> Decimal:")
    lines = done.stdout.splitlines()
    assert lines[-1] == (
        f"Cause: shop/pricing.py:{line}, shop.pricing.rate('BULK10') gave 0.05, not 0.1 "
        "(proven; fix confirmed)."
    )
    assert max(map(len, lines)) <= 100
    shown, *_ = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "text")
    assert set(shown.splitlines()) - {" …"} <= set(lines)
    assert sources() == before


@pytest.mark.full
def test_a_demo_without_a_failing_test_says_so(
    make_shop: MakeShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make_shop("shop/pricing.py", '"BULK10": Decimal("0.05")', '"BULK10": Decimal("0.1")')
    assert debug(shop) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Not what the demo expected: the run is finished, no test paused as it failed"


@pytest.mark.full
def test_a_demo_whose_bug_is_elsewhere_does_not_blame_the_usual_suspect(
    make_shop: MakeShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make_shop("shop/cart.py", "(1 - rate(", "(1 + rate(")
    assert debug(shop) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Not what the demo expected: the rate of FLAT5 is 0.05 as it should be"


@pytest.mark.full
def test_a_demo_whose_server_does_not_start_says_so(
    make_shop: MakeShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make_shop("pytest.ini", "testpaths = tests", "addopts = --collect-only")
    assert debug(shop) == 1
    assert "There is no server to talk to" in capsys.readouterr().out
