"""A thin client of the service: hand over payloads, read on, compact histories.

    from coatcheck_client import Client

    with Client() as coatcheck:
        receipt = coatcheck.put(output, tool_name="bash", tool_call_id=call_id, session=thread)
        tool_result = receipt.text

Knows HTTP and nothing of the server. What is named here is imported when it is used: the service shares `contract`
with its clients and needs no HTTP for that, and asyncio takes as long to import as the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coatcheck_client.async_client import AsyncClient
    from coatcheck_client.contract.cards import is_card
    from coatcheck_client.contract.declare import declarations
    from coatcheck_client.embedded_service import EmbeddedError, embedded
    from coatcheck_client.errors import ServiceError
    from coatcheck_client.results import Compacted, Receipt
    from coatcheck_client.retry import Retries
    from coatcheck_client.sync import Client

__all__ = [
    "AsyncClient",
    "Client",
    "Compacted",
    "EmbeddedError",
    "Receipt",
    "Retries",
    "ServiceError",
    "declarations",
    "embedded",
    "is_card",
]

_HOMES: Final = {
    "AsyncClient": "async_client",
    "Client": "sync",
    "Compacted": "results",
    "EmbeddedError": "embedded_service",
    "Receipt": "results",
    "Retries": "retry",
    "ServiceError": "errors",
    "declarations": "contract.declare",
    "embedded": "embedded_service",
    "is_card": "contract.cards",
}


def __getattr__(name: str) -> object:
    """Returns a public name, from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
