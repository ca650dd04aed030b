"""`coatcheck mcp-wrap`: any MCP server behind Coatcheck, whether it is a command or has a URL."""
