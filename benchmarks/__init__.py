"""Measurements, run by hand; each prints ratios and medians with all samples."""

from __future__ import annotations
