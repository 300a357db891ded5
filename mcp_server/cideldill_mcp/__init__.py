"""The front end of pytest-cideldill: an MCP server that runs tests in child processes.

It never evaluates user code and never unpickles anything; it survives every crash of the tests.
"""

from __future__ import annotations
