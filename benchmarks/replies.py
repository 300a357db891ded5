"""How long the first reply about a failing test is: `python -m benchmarks.replies`.

The reply of `test_run` that pauses at the first failure, for each example and for each test of
`failing_tests.py`: characters in commit 194a763 and now. Prints the ratios and their median beside
the aim; asserts nothing. POSIX only.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.failing_tests import NODEIDS, write_project
from benchmarks.spine import SERVER, RawClient

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
UNHURRIED: Final = (*SERVER, "-o", "cideldill_capture_ms=10000")
"""Values are shown in full, however busy the machine is."""

BEFORE: Final = {
    "shop": 3_798,
    "bank": 2_547,
    "listing": 2_921,
    "newsletter": 2_791,
    "parcels": 2_466,
    "receipts": 3_095,
    "shipping": 3_011,
    "test_big_dicts": 8_000,
    "test_deep": 3_541,
    "test_fixture_error": 2_638,
    "test_parametrized": 2_865,
    "test_async": 3_638,
    "test_subprocess": 4_878,
    "test_printed_and_logged": 3_438,
    "test_long_strings": 4_502,
    "test_dataclasses": 4_929,
    "test_chained": 2_721,
    "test_library": 3_656,
    "test_group": 3_081,
    "test_close": 3_242,
    "test_not_raised": 2_589,
    "test_said": 1_982,
    "test_teardown": 3_329,
    "test_error_of_a_name": 3_731,
    "test_unittest": 2_664,
}
"""Example or test → characters in 194a763, measured by its own server on Python 3.12.1."""

AIM: Final = "aim 0.50"


def first_reply(folder: Path, **arguments: Any) -> str:
    """The text of the first reply of a fresh server."""
    with RawClient(folder, UNHURRIED) as client:
        client.initialize()
        result = client.request("tools/call", {"name": "test_run", "arguments": arguments})
        text: str = result["content"][0]["text"]
    assert json.loads(text)["state"] == "paused", text
    return text


def first_replies(folder: Path) -> Iterator[tuple[str, str]]:
    """The name of each example and test, and the first reply about it."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*")
    for settings in sorted(EXAMPLES.glob("*/pytest.ini")):
        name = settings.parent.name
        yield name, first_reply(shutil.copytree(settings.parent, folder / name, ignore=leftovers))
    project = folder / "project"
    write_project(project)
    for nodeid in NODEIDS:
        yield nodeid.rpartition("::")[2], first_reply(project, nodeids=[nodeid])


def main() -> None:
    """Measure all, and print a line for each."""
    ratios = []
    print(f"{'characters of the first reply':34}{'194a763':>8}{'now':>8}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in first_replies(Path(folder).resolve()):
            ratios.append(len(text) / BEFORE[name])
            print(f"{name:34}{BEFORE[name]:8,}{len(text):8,}{ratios[-1]:8.2f}")
    print(f"{'median':50}{statistics.median(ratios):8.2f}  {AIM}")


if __name__ == "__main__":
    main()
