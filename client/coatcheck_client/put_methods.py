"""Client methods that store. They raise only what the caller's file or stream raises, except `search_results`."""

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
    """Operations that store something. Only `search_results` raises `ServiceError`."""

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
        """Stores what a tool returned; returns its receipt. Never raises, and takes at most the client's deadline.

        Args:
            content: text, bytes, a list of parts, a tool result in any provider's form, or any other value. A value
                that JSON can represent is sent as JSON, any other value as the text that Python shows for it.
            idempotency_key: identifies the put if it is repeated; None: it gets a new key.
            on_unreachable: what the receipt's `text` is if the service fails or refuses; None: as in the client's
                options.
            searches: what the receipt's `text` is for a web search's response. Such a response is recognised by its
                tool's name, by its form, or by the declared kind `search_response`. The declared `query` is what was
                searched for. A response that the service refuses as a search's is stored like any payload, for which
                the deadline begins again.
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
                    # Only a failing service ends the put. A response that was refused as a search's is still a payload.
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
        """Stores a file, which is streamed. Unless declared, title and media type follow from the file's name.

        If the service fails, the receipt contains both ends of the file. An attempt fails after the deadline without
        any progress, however long the file takes in total.

        Raises:
            OSError: the file cannot be read.
        """
        file = Path(path)
        whole = declare_file(file, self._declared(declared))

        async def sending() -> Receipt:
            ask = requests.raw(None, whole, idempotency_key or new_key())

            async def attempt() -> Receipt:
                with await self._connection.call(file.open, "rb") as opened:
                    pieces = pieces_of(opened, self._connection)
                    return await self._sender.once(ask, pieces, size_of(opened), self._setup.deadline)

            return await self._sender.repeat(attempt, again=lambda _: True, soon=True)

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
        """Stores a stream that can be read only once. It is sent again only if nothing of it was read yet.

        If the service fails, the stream is read to its end, and the receipt contains both of its ends.

        Raises:
            TypeError: a piece of the stream is not bytes, such as None from a stream that does not wait for data.
            Exception: whatever the stream raises.
        """
        whole = self._declared(declared)
        budgets = fallback.asked(whole)
        remembered_pieces = RememberedPieces(pieces_of(payload, self._connection), budgets.room)

        async def sending() -> Receipt:
            ask = requests.raw(None, whole, idempotency_key or new_key())
            return await self._sender.repeat(
                lambda: self._sender.once(ask, remembered_pieces, seconds=self._setup.deadline),
                again=lambda _: remembered_pieces.ends.size == 0,
                soon=True,
            )

        async def instead(error: ServiceError) -> Receipt:
            return fallback.receipt(await remembered_pieces.drained(), budgets, error)

        return await self._stored(sending(), instead)

    async def _stored(
        self, sending: Awaitable[Receipt], instead: Callable[[ServiceError], Awaitable[Receipt]]
    ) -> Receipt:
        """Returns the receipt of a put. If the put fails, returns what `instead` makes, and the log says why."""
        try:
            return await sending
        except ServiceError as e:
            error = e
        except Exception as e:  # noqa: BLE001 - the agent must go on, whatever the error is
            error = ServiceError(UNEXPECTED, f"A put failed: {type(e).__name__}: {e}.")
        receipt = await instead(error)
        log.warning("a payload was not stored [%s]: %s", receipt.warnings[0].code, receipt.warnings[0].message)
        return receipt

    @client_factory
    def carder(
        self, max_tokens: int = 1_000, *, on_unreachable: OnUnreachable = "original", **declared: Unpack[DeclaredFields]
    ) -> Callable[..., Coroutine[Any, Any, str]]:
        """Returns a function that takes a tool's text and returns what the model reads: the text, or its card.

        Call the function with a text, and with `tool_name`, `tool_call_id` or whatever else a put declares. It never
        raises. Text of at most `max_tokens` bytes cannot have more tokens, and is not sent. Cards, answers of
        `read_artifact`, and anything but text are returned unchanged.

        Args:
            max_tokens: the most that is returned while the service answers; longer text is stored, and becomes a card.
                A card has at least 64 tokens, and text of more than 100,000 becomes one in any case.
            on_unreachable: what is returned if the service fails or refuses.
            declared: metadata of every payload.
        """
        limits = fallback.limits_of(max_tokens, fallback.asked(self._declared({})).card)

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
        """Stores a search provider's response; returns a text to read in this turn, and a summary for later turns."""
        body = {"response": response, **requests.members(self._in_session(parameters))}
        key = idempotency_key or new_key()
        return await self._sender.send(post("/v1/search-results", body, results.SearchResults, key=key))


def _is_worth_a_card(text: object, max_tokens: int, fields: DeclaredFields) -> bool:
    """Returns whether something is text, is not Coatcheck's own, and may have more than `max_tokens` tokens.

    A token has at least one byte, so text with fewer bytes than that cannot have more tokens.
    """
    if not issubclass(type(text), str) or is_own(fields.get("tool_name")):
        return False
    plain = str.__str__(cast("str", text))
    return not is_card(plain) and (len(plain) > max_tokens or len(plain.encode("utf-8", "replace")) > max_tokens)
