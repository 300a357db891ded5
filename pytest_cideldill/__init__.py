"""Debug failing pytest tests from an AI agent, or from any MCP client.

The package is the pytest side: a plugin (`plugin.py`) and the engine that lives in the process
under test. Importing it costs nothing: it imports nothing.

PYTEST_DONT_REWRITE: an experiment imports it before pytest, which would warn that it is too late to
rewrite its assertions. It has none.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"
