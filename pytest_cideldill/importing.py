"""Imports of our own modules while pytest runs: quickly, since the tests wait for them.

pytest rewrites the assertions of all modules that a plugin's distribution has installed; ours have
none, and to look for them takes as long as all else. Where the environment forbids Python to write
compiled files, as in many containers, pytest even compiles each module anew.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest


@contextmanager
def plainly(config: pytest.Config) -> Iterator[None]:
    """Import what is ours inside: it is not rewritten, and meanwhile no garbage is looked for.

    What is imported stays, so each look through it finds nothing, and takes a fifth of the time.
    """
    hook, finders = config.pluginmanager.rewrite_hook, cast("list[object]", sys.meta_path)
    place = finders.index(hook) if hook in finders else None  # --assert=plain: there is none
    was_enabled = gc.isenabled()
    gc.disable()
    if place is not None:
        del finders[place]
    try:
        yield
    finally:
        if place is not None:
            finders.insert(place, hook)
        if was_enabled:
            gc.enable()
