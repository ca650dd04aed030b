"""Any MCP server behind Coatcheck: `python -m coatcheck_client.integrations.mcp_wrap -- COMMAND`.

A host starts this in the server's place. Every message passes unchanged, in both directions, in either version of the
protocol, except for the list of tools, to which `read_artifact` is added, and results of tools that are too large.
`coatcheck mcp-wrap`, which the service's own distribution includes, also takes a URL.
"""

from coatcheck_client.integrations.mcp_wrap.child import ChildServer
from coatcheck_client.integrations.mcp_wrap.proxy import WrapOptions
from coatcheck_client.integrations.mcp_wrap.relay import Server, wrap

__all__ = ["ChildServer", "Server", "WrapOptions", "wrap"]
