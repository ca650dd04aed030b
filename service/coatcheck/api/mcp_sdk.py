"""Tells whether MCP can be served, without importing its SDK, which is an extra and takes a second to import."""

from importlib.util import find_spec
from typing import Final

MISSING: Final = "MCP needs the protocol's SDK, version 2.3 or later: pip install 'coatcheck[mcp]'."


def is_installed() -> bool:
    """Returns whether the SDK is installed in a supported version: earlier ones have no `mcp_types`."""
    return find_spec("mcp_types") is not None
