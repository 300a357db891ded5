"""Declares the hooks that users implement in a `conftest.py` or a plugin.

They are registered also while the plugin is not switched on, so that pytest refuses no conftest
that implements one. So this module imports next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest


def pytest_cideldill_redact(config: pytest.Config) -> Mapping[str, Iterable[str]] | None:
    """Return further secrets: `{"names": ["customer_id"], "patterns": [r"CUST-\\d+"]}`.

    Each implementation is called once in every process of a run (each xdist worker, and xdist's
    controller), on the main thread, as soon as its `conftest.py` or plugin is loaded; command-line
    options of other conftests may not be parsed yet. The secrets are hidden from then on, in this
    process and in texts that the server reads itself (the last output of a crash). It is not called
    if nothing is debugged or recorded, or with `--cideldill-no-redact`. An exception becomes a
    warning.

    Args:
        config: The pytest configuration.

    Returns:
        `names` of secrets, in any spelling, which count in longer names too; `patterns`, regular
        expressions whose whole match is a secret. Both may be left out. None: no further secrets.
    """
