"""Imports of our own modules past pytest's hook."""

from __future__ import annotations

import gc
import sys

import pytest

from pytest_cideldill.importing import plainly


@pytest.mark.parametrize("collects", [True, False])
def test_finders_and_collector_are_as_they_were_afterwards(
    pytestconfig: pytest.Config, collects: bool
) -> None:
    """Whatever happens inside, and whoever had switched the collector off."""
    hook, finders = pytestconfig.pluginmanager.rewrite_hook, list[object](sys.meta_path)
    assert hook in finders
    was_enabled = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        with pytest.raises(ImportError), plainly(pytestconfig):  # noqa: PT012 - looks inside
            assert hook not in list[object](sys.meta_path)
            assert not gc.isenabled()
            raise ImportError
        assert sys.meta_path == finders
        assert gc.isenabled() is collects
    finally:
        gc.enable() if was_enabled else gc.disable()
