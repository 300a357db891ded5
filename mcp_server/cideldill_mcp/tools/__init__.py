"""The MCP tools: one module per group of tools, with their schemas beside the handlers."""
