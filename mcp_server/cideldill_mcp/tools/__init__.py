"""The MCP tools: one module per section of the contract, schemas beside handlers."""
