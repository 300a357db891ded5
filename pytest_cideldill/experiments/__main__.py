"""`python -m pytest_cideldill.experiments`: pytest, with some source files patched in memory."""

from __future__ import annotations

from pytest_cideldill.experiments.start import main

if __name__ == "__main__":
    main()
