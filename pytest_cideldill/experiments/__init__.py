"""Experiments: a run of pytest in which something is other than in the user's files.

`python -m pytest_cideldill.experiments` takes the place of `python -m pytest`.
"""

from __future__ import annotations
