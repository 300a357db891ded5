"""What users extend in a `conftest.py` or a plugin.

pytest knows these hooks whether we are switched on or not, so that nobody's conftest is refused;
so this module imports next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest


def pytest_cideldill_redact(config: pytest.Config) -> Mapping[str, Iterable[str]] | None:
    """Tell what else is a secret: `{"names": ["customer_id"], "patterns": [r"CUST-\\d+"]}`.

    Each implementation is called once in every process of a run (each xdist worker, and xdist's
    controller), on the main thread, as soon as its `conftest.py` or plugin is loaded; command-line
    options of other conftests may not be parsed yet. What it tells is hidden from then on, in this
    process and in the texts that the server itself finds (the last words of a crash). Not called
    where nothing is debugged or recorded, or with `--cideldill-no-redact`. An exception becomes a
    warning.

    Args:
        config: pytest's.

    Returns:
        Any of `names`, in any spelling, also as parts of longer names; and `patterns`, regular
        expressions of which the whole match is a secret. None for nothing.
    """
