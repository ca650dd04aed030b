"""The tools for models: their declarations, their calls, and MCP."""
