"""`python mcp_server` in a checkout is `cideldill-mcp` with both packages of that checkout.

Never installed: a package of this folder's name would shadow that of many projects.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

sys.path[:0] = [str(HERE), str(HERE.parent)]

from cideldill_mcp.cli import main  # noqa: E402 - found through the line above

if __name__ == "__main__":
    sys.exit(main())
