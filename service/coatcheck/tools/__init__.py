"""The tools for models: one table, from which declarations, calls in every provider's form, and MCP are made."""
