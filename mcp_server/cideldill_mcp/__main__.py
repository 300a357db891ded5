"""`python -m cideldill_mcp`: the console script `cideldill-mcp`."""

from __future__ import annotations

import sys

from cideldill_mcp.cli import main

if __name__ == "__main__":
    sys.exit(main())
