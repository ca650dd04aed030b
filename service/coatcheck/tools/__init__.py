"""The face for models: one table of tools; declarations, calls in every provider's form, and MCP are made from it."""
