"""The methods that both clients have: every operation of the service, written once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from msgspec import UNSET, UnsetType

from coatcheck_client import answers, fallback, fields, requests, results
from coatcheck_client.bytes import RememberedPieces, ends_of_file, said_of_file, size_of
from coatcheck_client.client_method import client_method
from coatcheck_client.connection import Connection, pieces_of
from coatcheck_client.errors import ServiceError
from coatcheck_client.fallback import Ends
from coatcheck_client.options import Options, new_key
from coatcheck_client.requests import Content, DeclaredFields, Json, Ttl, get, post
from coatcheck_client.results import Members, Receipt
from coatcheck_client.sender import Sender

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ClientMethods:
    """What a client does, over a connection that blocks or one that is awaited."""

    def __init__(self, setup: Options, connection: Connection) -> None:
        self._setup = setup
        self._connection = connection
        self._sender = Sender(setup, connection)

    @client_method
    async def close(self) -> None:
        """Closes the connections."""
        await self._connection.close()

    # -------------------------------------------------------------------------------------------- handing over

    @client_method
    async def put(
        self, content: Content, *, idempotency_key: str | None = None, **declared: Unpack[DeclaredFields]
    ) -> Receipt:
        """Stores text, bytes, a list of parts, or a tool result in any provider's shape; returns its receipt."""
        whole = self._declared(declared)
        ask = requests.put(content, whole, idempotency_key or new_key())
        return await self._stored(
            self._sender.send(ask), whole, lambda room: self._connection.call(fallback.ends_of, content, room)
        )

    @client_method
    async def put_file(
        self, path: str | Path, *, idempotency_key: str | None = None, **declared: Unpack[DeclaredFields]
    ) -> Receipt:
        """Hand over a file, streamed; its name is the title and tells the media type, unless `declared` does."""
        file = Path(path)
        whole = said_of_file(file, self._declared(declared))
        ask = requests.raw(None, whole, idempotency_key or new_key())

        async def attempt() -> Receipt:
            with await self._connection.call(file.open, "rb") as opened:
                return await self._sender.once(ask, pieces_of(opened, self._connection), size_of(opened))

        return await self._stored(
            self._sender.repeat(attempt, again=lambda: True),
            whole,
            lambda room: self._connection.call(ends_of_file, file, room),
        )

    async def _put_stream(
        self,
        payload: BinaryIO | Iterable[bytes] | AsyncIterable[bytes],
        idempotency_key: str | None,
        declared: DeclaredFields,
    ) -> Receipt:
        whole = self._declared(declared)
        ask = requests.raw(None, whole, idempotency_key or new_key())
        watched = RememberedPieces(pieces_of(payload, self._connection), fallback.asked(whole).room)
        return await self._stored(
            self._sender.repeat(lambda: self._sender.once(ask, watched), again=lambda: watched.ends.size == 0),
            whole,
            lambda _: watched.drained(),
        )

    async def _stored(
        self, sending: Awaitable[Receipt], declared: DeclaredFields, ends: Callable[[int], Awaitable[Ends]]
    ) -> Receipt:
        """The receipt of a put, or an excerpt where one answers in the service's place.

        Args:
            sending: the put.
            declared: of the payload.
            ends: of the payload, when they are needed; its argument is how many bytes of each.

        Raises:
            ServiceError: how the put ended, where no excerpt answers.
        """
        try:
            return await sending
        except ServiceError as e:
            if self._setup.on_unreachable == "raise" or not answers.stands_in(e):
                raise
            budgets = fallback.asked(declared)
            return fallback.receipt(await ends(budgets.room), budgets, e.code, e.detail)

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

    # -------------------------------------------------------------------------------------------- reading on

    @client_method
    async def describe(self, artifact_id: str) -> results.Described:
        """Returns an artifact's metadata and card."""
        return await self._sender.send(get(requests.at(artifact_id), results.Described))

    @client_method
    async def card(
        self,
        artifact_id: str,
        *,
        tokens: int | None = None,
        query: str | None = None,
        tools: Literal["read_artifact", "none"] | None = None,
    ) -> results.CardText:
        """Returns an artifact's card at another budget, with excerpts for a question, or with `tools="none"`."""
        parameters = {"tokens": tokens, "query": query, "tools": tools}
        return await self._sender.send(get(requests.at(artifact_id, "/card"), results.CardText, parameters))

    @client_method
    async def read(self, artifact_id: str, **parameters: Unpack[fields.ReadParameters]) -> results.Read:
        """Returns lines, characters, bytes or tokens of an artifact; pass `next.cursor` of an answer to continue."""
        return await self._sender.send(get(requests.at(artifact_id, "/read"), results.Read, parameters))

    @client_method
    async def search(
        self, artifact_id: str, pattern: str, **parameters: Unpack[fields.SearchParameters]
    ) -> results.Found:
        """Returns the lines of an artifact that match a regular expression (RE2)."""
        params = {"pattern": pattern, **parameters}
        return await self._sender.send(get(requests.at(artifact_id, "/search"), results.Found, params))

    @client_method
    async def windows(
        self, artifact_id: str, query: str, **parameters: Unpack[fields.PassageParameters]
    ) -> results.Passages:
        """Returns the passages of an artifact that answer a question."""
        params = {"query": query, **parameters}
        return await self._sender.send(get(requests.at(artifact_id, "/windows"), results.Passages, params))

    @client_method
    async def json(self, artifact_id: str, path: str, **parameters: Unpack[fields.ValueParameters]) -> results.Values:
        """Returns values of a JSON artifact by JSONPath (RFC 9535) or JSON Pointer (RFC 6901)."""
        params = {"path": path, **parameters}
        return await self._sender.send(get(requests.at(artifact_id, "/json"), results.Values, params))

    @client_method
    async def outline(self, artifact_id: str, **parameters: Unpack[fields.OutlineParameters]) -> results.Outline:
        """Returns the parts of an artifact, and where they are."""
        return await self._sender.send(get(requests.at(artifact_id, "/outline"), results.Outline, parameters))

    @client_method
    async def artifacts(self, **parameters: Unpack[fields.ListParameters]) -> results.Listing:
        """Returns a page of artifacts, newest first."""
        return await self._sender.send(get("/v1/artifacts", results.Listing, parameters))

    def _content(self, artifact_id: str, view: str | None, section: str | None) -> AsyncGenerator[bytes]:
        params = requests.params({"view": view, "section": section})
        return self._sender.stream(requests.at(artifact_id, "/content"), params)

    @client_method
    async def content(self, artifact_id: str, *, view: str | None = None, section: str | None = None) -> bytes:
        """Returns the exact bytes of an artifact, in memory."""
        return b"".join([piece async for piece in self._content(artifact_id, view, section)])

    @client_method
    async def download(
        self, artifact_id: str, target: str | Path, *, view: str | None = None, section: str | None = None
    ) -> int:
        """Writes the exact bytes of an artifact to a file; returns how many."""
        size = 0
        with await self._connection.call(Path(target).open, "wb") as file:
            async with aclosing(self._content(artifact_id, view, section)) as pieces:
                async for piece in pieces:
                    size += await self._connection.call(file.write, piece)
        return size

    @client_method
    async def verify_citations(
        self, quotes: Iterable[Mapping[str, Any]], *, citation: str | None = None
    ) -> tuple[results.Verdict, ...]:
        """Checks that quotations (`quote`, `citation`, `range`) stand in what they cite; answers in the order given."""
        body = {"quotes": [dict(one) for one in quotes]} | ({} if citation is None else {"citation": citation})
        return answers.verdicts(await self._sender.send(post("/v1/citations/verify", body, Members)))

    # -------------------------------------------------------------------------------------------- for models

    @client_method
    async def tools(
        self, form: str = "json-schema", *, strict: bool = False, listing: bool = False
    ) -> tuple[Members, ...]:
        """Returns what to put into the `tools` of a request, in a provider's form."""
        parameters = {"format": form, "strict": strict or None, "listing": listing or None}
        return answers.declared(await self._sender.send(get("/v1/tools", Members, parameters)))

    @client_method
    async def call(self, call: Json, *, form: str | None = None, max_tokens: int | None = None) -> Json:
        """Executes one or several tool calls as the provider wrote them; returns results in the provider's form."""
        parameters = {"format": form, "max_tokens": max_tokens}
        return await self._sender.send(post("/v1/tools/call", call, cast("type[Json]", Any), parameters))

    @client_method
    async def compact(self, body: Json, **parameters: Unpack[fields.CompactParameters]) -> results.Compacted:
        """Returns the request body with cards and markers in place of what was large, and a report."""
        whole = {"body": body, **requests.members(self._in_session(parameters))}
        return await self._sender.send(post("/v1/context/compact", whole, results.Compacted))

    @client_method
    async def measure(self, body: Json, **parameters: Unpack[fields.MeasureParameters]) -> Members:
        """Returns how full a context is, with persisted and in-flight tokens apart."""
        whole = {"body": body, **requests.members(self._in_session(parameters))}
        return await self._sender.send(post("/v1/context/measure", whole, Members))

    @client_method
    async def answer_hook(self, event: Json, **parameters: Unpack[fields.HookParameters]) -> Members:
        """Returns the answer to Claude Code's PostToolUse hook: the response with cards; empty if nothing changes."""
        return await self._sender.send(post("/v1/hooks/claude-code", event, Members, parameters))

    # -------------------------------------------------------------------------------------------- changing

    @client_method
    async def patch(
        self,
        artifact_id: str,
        *,
        ttl: Ttl | UnsetType = UNSET,
        idle_ttl: Ttl | UnsetType = UNSET,
        pin: bool | UnsetType = UNSET,
        labels: Sequence[str] | UnsetType = UNSET,
    ) -> results.Artifact:
        """Changes an artifact's expiry, pin or labels; what is left out stays."""
        declared = {"ttl": ttl, "idle_ttl": idle_ttl, "pin": pin, "labels": labels}
        changes = {name: value for name, value in declared.items() if value is not UNSET}
        return await self._sender.send(post(requests.at(artifact_id), changes, results.Artifact, method="PATCH"))

    @client_method
    async def delete(self, artifact_id: str) -> None:
        """Deletes an artifact; does nothing if it is gone already."""
        try:
            await self._sender.send(requests.delete(requests.at(artifact_id), type(None)))
        except ServiceError as e:
            if not answers.is_gone(e):
                raise

    @client_method
    async def delete_session(self, session: str) -> int:
        """Deletes all artifacts of a session; returns how many were live."""
        path = f"/v1/sessions/{requests.segment(session)}"
        return int((await self._sender.send(requests.delete(path, Members)))["deleted"])

    @client_method
    async def ready(self) -> bool:
        """Returns whether the service serves requests now."""
        try:
            await self._sender.send(get("/health/ready", Members, again=False))
        except ServiceError:
            return False
        return True

    # -------------------------------------------------------------------------------------------- helping

    def _declared(self, declared: DeclaredFields) -> DeclaredFields:
        return {**self._setup.said, **declared}

    def _in_session(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"session": self._setup.said.get("session"), **parameters}
