"""Runs any MCP server behind Coatcheck: `python -m coatcheck_client.integrations.mcp_wrap -- COMMAND`.

A host starts this command instead of the server. Messages pass unchanged in both directions and in both versions of
the protocol, with two exceptions: the list of tools gets `read_artifact` and loses output schemas, and tool results
that are too large become cards. `coatcheck mcp-wrap`, which comes with the service's package, also accepts a server's
URL.
"""

from coatcheck_client.integrations.mcp_wrap.child import ChildServer
from coatcheck_client.integrations.mcp_wrap.proxy import WrapOptions
from coatcheck_client.integrations.mcp_wrap.relay import Server, wrap

__all__ = ["ChildServer", "Server", "WrapOptions", "wrap"]
