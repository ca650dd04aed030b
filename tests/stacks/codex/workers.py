"""An MCP server with the tools of every stack."""

from mcp.server import MCPServer

from scenario import TOOLS

server = MCPServer("workers")
for tool in TOOLS.values():
    server.add_tool(tool)

if __name__ == "__main__":
    server.run()
