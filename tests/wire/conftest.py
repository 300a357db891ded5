"""Links that tests of several files share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.linked import DEADLINE_S, FileLinked


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[FileLinked]:
    made = FileLinked(tmp_path / "part")
    yield made
    made.link.close(DEADLINE_S)
