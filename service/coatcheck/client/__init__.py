"""A thin client of the service: hand over payloads, read on, compact histories.

    from coatcheck.client import Client

    with Client() as coatcheck:
        receipt = coatcheck.put(output, tool_name="bash", tool_call_id=call_id, session=thread)
        tool_result = receipt.text

Knows HTTP and nothing of the server: importing it loads httpx and msgspec.
"""

from typing import TYPE_CHECKING

from coatcheck.client.errors import ServiceError
from coatcheck.client.results import Compacted, Receipt
from coatcheck.client.retry import Retries
from coatcheck.client.sync import Client

if TYPE_CHECKING:
    from coatcheck.client.async_client import AsyncClient

__all__ = ["AsyncClient", "Client", "Compacted", "Receipt", "Retries", "ServiceError"]


def __getattr__(name: str) -> object:
    """`AsyncClient`, when somebody asks for it: asyncio takes as long to import as the rest."""
    if name == "AsyncClient":
        from coatcheck.client.async_client import AsyncClient  # noqa: PLC0415 - see above

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
