"""`python -m pytest_cideldill` is the console script `cideldill`."""

from __future__ import annotations

import sys

from pytest_cideldill.cli import main

if __name__ == "__main__":
    sys.exit(main())
