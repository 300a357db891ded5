"""Measurements, run by hand; each prints ratios and medians with all samples.

The processes that they start have compiled modules, as users do whose pip compiled them: a checkout
has none where the environment forbids Python to write them, and would compile us at every start.
"""

from __future__ import annotations

import os

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
