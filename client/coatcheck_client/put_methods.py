"""The methods that store. They raise nothing except what the caller's own file or stream raises."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from coatcheck_client import fallback, fields, requests, results
from coatcheck_client.bytes import RememberedPieces, declare_file, ends_of_file, size_of
from coatcheck_client.client_base import ClientBase
from coatcheck_client.client_method import client_factory, client_method
from coatcheck_client.connection import pieces_of
from coatcheck_client.contract.cards import is_card, is_own
from coatcheck_client.errors import UNEXPECTED, ServiceError
from coatcheck_client.options import OnUnreachable, Searches, new_key
from coatcheck_client.payload import payload_of
from coatcheck_client.requests import DeclaredFields, Json, post
from coatcheck_client.results import Receipt

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger("coatcheck_client")


class PutMethods(ClientBase):
    """The operations that store something."""

    @client_method
    async def put(
        self,
        content: object,
        *,
        idempotency_key: str | None = None,
        on_unreachable: OnUnreachable | None = None,
        searches: Searches = "off",
        **declared: Unpack[DeclaredFields],
    ) -> Receipt:
        """Stores what a tool returned, and returns its receipt; never raises, and takes at most the client's deadline.

        Args:
            content: text, bytes, a list of parts, a tool result in any provider's form, or any other value: what JSON
                can represent is sent as JSON, everything else as the text that Python shows for it.
            idempotency_key: identifies a repeated put; None for a new one.
            on_unreachable: what `text` is if the service fails or refuses; None: the client's own setting.
            searches: what `text` is for a web search's response: by its tool's name, its form, or the declared kind
                `search_response`. `query` in `declared` is what was searched for.
            declared: metadata of the payload.
        """
        return await self._put(content, idempotency_key, on_unreachable, declared, searches)

    async def _put(
        self,
        content: object,
        idempotency_key: str | None,
        on_unreachable: OnUnreachable | None,
        declared: DeclaredFields,
        searches: Searches = "off",
    ) -> Receipt:
        payload, whole = payload_of(content), self._declared(declared)
        key = idempotency_key or new_key()

        async def sending() -> Receipt:
            ask = None if searches == "off" else await self._connection.call(requests.search_put, payload, whole, key)
            if ask is not None:
                try:
                    return results.receipt_of_search(await self._sender.send_soon(ask), searches)
                except ServiceError as e:
                    if e.status is None or e.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        raise
                    log.info("a search's response is stored as it is [%s]: %s", e.code, e.detail)
            return await self._sender.send_soon(requests.put(payload, whole, key))

        async def instead(error: ServiceError) -> Receipt:
            mode = on_unreachable or self._setup.on_unreachable
            return await self._connection.call(fallback.instead_of, payload, whole, mode, error)

        return await self._stored(sending(), instead)

    @client_method
    async def put_file(
        self, path: str | Path, *, idempotency_key: str | None = None, **declared: Unpack[DeclaredFields]
    ) -> Receipt:
        """Stores a file, streamed; its name is the title and determines the media type, unless `declared` does.

        If the service fails, the receipt has both ends of the file. An attempt fails after the deadline without any
        progress, however long the file takes in total.

        Raises:
            OSError: if the file cannot be read.
        """
        file = Path(path)
        whole = declare_file(file, self._declared(declared))

        async def sending() -> Receipt:
            ask = requests.raw(None, whole, idempotency_key or new_key())

            async def attempt() -> Receipt:
                with await self._connection.call(file.open, "rb") as opened:
                    pieces = pieces_of(opened, self._connection)
                    return await self._sender.once(ask, pieces, size_of(opened), self._setup.deadline)

            return await self._sender.repeat(attempt, again=lambda: True, soon=True)

        async def instead(error: ServiceError) -> Receipt:
            budgets = fallback.asked(whole)
            return fallback.receipt(await self._connection.call(ends_of_file, file, budgets.room), budgets, error)

        return await self._stored(sending(), instead)

    @client_method
    async def put_stream(
        self,
        payload: BinaryIO | Iterable[bytes] | AsyncIterable[bytes],
        *,
        idempotency_key: str | None = None,
        **declared: Unpack[DeclaredFields],
    ) -> Receipt:
        """Stores a stream that can be read once. It is sent again only if none of it was read yet.

        If the service fails, the receipt has both ends of the stream, which is read to its end for that.

        Raises:
            Exception: whatever the stream raises.
        """
        whole = self._declared(declared)
        budgets = fallback.asked(whole)
        remembered_pieces = RememberedPieces(pieces_of(payload, self._connection), budgets.room)

        async def sending() -> Receipt:
            ask = requests.raw(None, whole, idempotency_key or new_key())
            return await self._sender.repeat(
                lambda: self._sender.once(ask, remembered_pieces, seconds=self._setup.deadline),
                again=lambda: remembered_pieces.ends.size == 0,
                soon=True,
            )

        async def instead(error: ServiceError) -> Receipt:
            return fallback.receipt(await remembered_pieces.drained(), budgets, error)

        return await self._stored(sending(), instead)

    async def _stored(
        self, sending: Awaitable[Receipt], instead: Callable[[ServiceError], Awaitable[Receipt]]
    ) -> Receipt:
        """Returns the receipt of a put, or what replaces the service's answer; the log says why."""
        try:
            return await sending
        except ServiceError as e:
            error = e
        except Exception as e:  # noqa: BLE001 - an agent is worth more than whatever this is
            error = ServiceError(UNEXPECTED, f"A put failed: {type(e).__name__}: {e}.")
        receipt = await instead(error)
        log.warning("a payload was not stored [%s]: %s", receipt.warnings[0].code, receipt.warnings[0].message)
        return receipt

    @client_factory
    def carder(
        self, max_tokens: int = 1_000, *, on_unreachable: OnUnreachable = "original", **declared: Unpack[DeclaredFields]
    ) -> Callable[..., Coroutine[Any, Any, str]]:
        """Returns a function that takes a tool's text and returns what the model reads: the text, or its card.

        Call it with a text, and `tool_name`, `tool_call_id` or whatever else a put declares. It never raises. Text that
        cannot have more than `max_tokens` is not sent; cards, answers of `read_artifact`, and anything but text come
        back unchanged.

        Args:
            max_tokens: the most that comes back while the service is there; longer text is stored, and becomes a card.
            on_unreachable: what comes back if the service fails or refuses.
            declared: metadata of every payload.
        """
        limits: DeclaredFields = {
            "inline_tokens": max_tokens,
            "card_tokens": min(max_tokens, fallback.asked(self._declared({})).card),
        }

        async def card(text: str, **call_fields: Unpack[DeclaredFields]) -> str:
            if not _is_worth_a_card(text, max_tokens, call_fields):
                return text
            receipt = await self._put(text, None, on_unreachable, {**limits, **declared, **call_fields})
            return text if receipt.inline else receipt.text

        return card

    @client_method
    async def search_results(
        self,
        response: Json,
        *,
        idempotency_key: str | None = None,
        **parameters: Unpack[fields.SearchResultsParameters],
    ) -> results.SearchResults:
        """Stores a search provider's response; returns what to read of it, and what to persist."""
        body = {"response": response, **requests.members(self._in_session(parameters))}
        key = idempotency_key or new_key()
        return await self._sender.send(post("/v1/search-results", body, results.SearchResults, key=key))


def _is_worth_a_card(text: object, max_tokens: int, fields: DeclaredFields) -> bool:
    """Returns whether something is text, may have more tokens than that (each has at least a byte), and is not ours."""
    if not issubclass(type(text), str) or is_own(fields.get("tool_name")):
        return False
    plain = str.__str__(cast("str", text))
    return not is_card(plain) and (len(plain) > max_tokens or len(plain.encode("utf-8", "replace")) > max_tokens)
