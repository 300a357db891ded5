"""`python -m pytest_cideldill`: the commands of `cideldill` for recorded runs, and no others."""

from __future__ import annotations

import sys

from pytest_cideldill.cli import main

if __name__ == "__main__":
    sys.exit(main())
