"""The common base of a client's methods: its options, its connection, and the sender of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coatcheck_client.client_method import client_method
from coatcheck_client.connection import Connection
from coatcheck_client.options import Options
from coatcheck_client.requests import DeclaredFields
from coatcheck_client.sender import Sender


class ClientBase:
    """A client without operations, over a blocking or an asynchronous connection."""

    def __init__(self, setup: Options, connection: Connection) -> None:
        self._setup = setup
        self._connection = connection
        self._sender = Sender(setup, connection)

    @client_method
    async def close(self) -> None:
        """Closes the connections."""
        await self._connection.close()

    @client_method
    async def ready(self) -> bool:
        """Returns whether the service answers now. Sends one request, and gives up after a second without progress.

        A service whose storage is away is ready too, because it still answers `put` with cards.
        """
        return await self._sender.is_ready()

    def _declared(self, declared: DeclaredFields) -> DeclaredFields:
        whole: DeclaredFields = {**self._setup.defaults, **declared}
        if not whole.get("compare_to", True):
            del whole["compare_to"]  # the receipt of a run that was not stored has an empty ID
        return whole

    def _in_session(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"session": self._setup.defaults.get("session"), **parameters}
