"""Experiments: a run of pytest in which something is other than in the user's files.

`python -m pytest_cideldill.experiments` takes the place of `python -m pytest`. The front end shares
these names; they are imported before pytest, so nothing else is here.
"""

from __future__ import annotations

MODULE = "pytest_cideldill.experiments"

PATCHES = "CIDELDILL_PATCHES"
"""A variable that names a file with JSON: `[{"file": PATH, "text": WHOLE_TEXT}, ...]`. Without it
nothing is patched."""

START = "CIDELDILL_START"
"""A variable with a script that takes the place of `-m pytest`, or `-m` and the name of another
module. A script has its own folder in `sys.path`, and a module the current one."""
