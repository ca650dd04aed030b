"""An MCP server with the tools of every stack."""

import base64

from mcp.server import MCPServer
from mcp.server.mcpserver import Image

from scenario import LOG, PICTURE, TOOLS

server = MCPServer("workers")
for tool in TOOLS.values():
    server.add_tool(tool)


@server.tool()
def get_pictured_log() -> list[str | Image]:
    """Get the log and a picture of it."""
    return [LOG, Image(data=base64.b64decode(PICTURE), format="png")]


if __name__ == "__main__":
    server.run()
