"""Progress of long runs, in both families of protocol versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.together.workbench import workbench

QUICK = """
    import time
    import pytest
    @pytest.mark.parametrize("n", range(600))
    def test_quick(n): time.sleep(0.002)
"""


@pytest.mark.full
@pytest.mark.sample("auto")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_long_run_reports_how_many_tests_are_done_of_how_many(tmp_path: Path, mode: str) -> None:
    """The spine, part 5: progress notifications (tests done of total)."""
    with workbench(tmp_path / "project", mode=mode) as bench:
        reply = bench.test(QUICK)
        assert reply["outcomes"] == {"passed": 600, "failed": 0}
        reported = bench.agent.progress
    done = [progress for progress, _, _ in reported]
    assert len(done) >= 2
    assert done == sorted(done)
    assert {total for _, total, _ in reported if total is not None} == {600}
    assert all(0 <= progress <= 600 for progress in done)
    assert any("test_it.py::test_quick[" in (message or "") for _, _, message in reported)
