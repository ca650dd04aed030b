"""A thin client of the service: stores payloads, reads more of them, compacts request bodies.

    from coatcheck_client import Client

    with Client() as coatcheck:
        receipt = coatcheck.put(output, tool_name="bash", tool_call_id=call_id, session=thread)
        tool_result = receipt.text

The client speaks HTTP and needs nothing of the server's code. A public name is imported only when it is used. This
has two reasons: the service shares the package `contract` with its clients and needs no HTTP for it, and importing
asyncio takes as long as importing all the rest.
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

__version__ = "0.12.0"

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
"""The module that defines each public name."""


def __getattr__(name: str) -> object:
    """Returns a public name, from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
