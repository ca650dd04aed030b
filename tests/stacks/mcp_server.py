"""An MCP server whose tool answers the log, a picture of it, and the log once more as structured content."""

import base64

from mcp.server import MCPServer
from mcp.server.mcpserver import Image

from scenario import LOG, PICTURE

server = MCPServer("logs")


@server.tool()
def get_served_log() -> list[str | Image]:
    """Get the log and a picture of it."""
    return [LOG, Image(data=base64.b64decode(PICTURE), format="png")]


if __name__ == "__main__":
    server.run()
