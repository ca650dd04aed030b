"""The client for code on an event loop: as the other one, method for method."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, Unpack

import httpx
from msgspec import UNSET, UnsetType

from coatcheck.client import answers, fallback, requests
from coatcheck.client.bytes import ends_of_file, said_of_file, size_of
from coatcheck.client.bytes_async import AsyncRememberedPieces, async_pieces_of
from coatcheck.client.errors import ServiceError
from coatcheck.client.fields import (
    CompactParameters,
    HookParameters,
    ListParameters,
    MeasureParameters,
    OutlineParameters,
    PassageParameters,
    ReadParameters,
    SearchResultsParameters,
    ValueParameters,
)
from coatcheck.client.fields import SearchParameters as FindAsk
from coatcheck.client.options import OnUnreachable, new_key, options
from coatcheck.client.requests import Content, DeclaredFields, Json, Ttl
from coatcheck.client.results import (
    Artifact,
    CardText,
    Compacted,
    Described,
    Found,
    Listing,
    Members,
    Outline,
    Passages,
    Read,
    Receipt,
    SearchResults,
    Values,
    Verdict,
)
from coatcheck.client.retry import Retries
from coatcheck.client.sender_async import AsyncSender


class AsyncClient:
    """Talks to one Coatcheck service from one event loop. Close it, or use it in an `async with` block.

    Errors and excerpts are those of `Client`. Files are read and written in threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        card_tokens: int | None = None,
        inline_tokens: int | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        on_unreachable: OnUnreachable = "excerpt",
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: where the service is; None: `COATCHECK_URL`, or else http://127.0.0.1:8321.
            key: to present, where the service asks for one; None: `COATCHECK_KEY`, if that is set.
            session: said of every payload, unless a put says otherwise.
            card_tokens: the same.
            inline_tokens: the same.
            timeout: seconds without any progress after which a request counts as failed.
            retries: how often and how long to try again.
            on_unreachable: what a put does when the service fails.
            transport: how to reach it, instead of by TCP without a proxy.
            sleep: waits, between attempts.

        Raises:
            ValueError: for what is no URL of a service, or no key.
        """
        said = {"session": session, "card_tokens": card_tokens, "inline_tokens": inline_tokens}
        self._setup = options(url, key, timeout=timeout, retries=retries, on_unreachable=on_unreachable, said=said)
        self._line = AsyncSender(self._setup, transport, sleep)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._line.close()

    # -------------------------------------------------------------------------------------------- handing over

    async def put(
        self, content: Content, *, idempotency_key: str | None = None, **said: Unpack[DeclaredFields]
    ) -> Receipt:
        """Hand over text, bytes, a list of parts, or a tool result in any provider's shape."""
        whole = self._said(said)
        ask = requests.put(content, whole, idempotency_key or new_key())
        try:
            return await self._line.send(ask)
        except ServiceError as e:
            self._excuse(e)
            budgets = fallback.asked(whole)
            return fallback.receipt(fallback.ends_of(content, budgets.room), budgets, e.code, e.detail)

    async def put_file(
        self, path: str | Path, *, idempotency_key: str | None = None, **said: Unpack[DeclaredFields]
    ) -> Receipt:
        """Hand over a file, streamed; its name is the title and tells the media type, unless `said` does."""
        file = Path(path)
        whole = said_of_file(file, self._said(said))
        ask = requests.raw(None, whole, idempotency_key or new_key())

        async def attempt() -> Receipt:
            with await asyncio.to_thread(file.open, "rb") as opened:
                return await self._line.once(ask, async_pieces_of(opened), size_of(opened))

        try:
            return await self._line.repeat(attempt, again=True)
        except ServiceError as e:
            self._excuse(e)
            budgets = fallback.asked(whole)
            return fallback.receipt(ends_of_file(file, budgets.room), budgets, e.code, e.detail)

    async def put_stream(
        self,
        payload: BinaryIO | Iterable[bytes] | AsyncIterable[bytes],
        *,
        idempotency_key: str | None = None,
        **said: Unpack[DeclaredFields],
    ) -> Receipt:
        """Hand over what can be read once. It is sent again only if none of it was read yet."""
        whole = self._said(said)
        ask = requests.raw(None, whole, idempotency_key or new_key())
        budgets = fallback.asked(whole)
        watched = AsyncRememberedPieces(async_pieces_of(payload), budgets.room)
        try:
            return await self._line.once_read(ask, watched)
        except ServiceError as e:
            self._excuse(e)
            return fallback.receipt(await watched.drained(), budgets, e.code, e.detail)

    async def search_results(
        self,
        response: Json,
        *,
        idempotency_key: str | None = None,
        **asked: Unpack[SearchResultsParameters],
    ) -> SearchResults:
        """Hand over a search provider's response; answers what to read of it, and what to persist."""
        said = {"session": self._setup.said.get("session"), **asked}
        return await self._line.send(requests.search_results(response, said, idempotency_key or new_key()))

    # -------------------------------------------------------------------------------------------- reading on

    async def describe(self, artifact_id: str) -> Described:
        """An artifact's metadata and card."""
        return await self._line.send(requests.describe(artifact_id))

    async def card(
        self,
        artifact_id: str,
        *,
        tokens: int | None = None,
        query: str | None = None,
        tools: Literal["read_artifact", "none"] | None = None,
    ) -> CardText:
        """Its card at another budget, with excerpts that follow a question, or naming no tool (`tools="none"`)."""
        return await self._line.send(requests.card(artifact_id, tokens, query, tools))

    async def read(self, artifact_id: str, **asked: Unpack[ReadParameters]) -> Read:
        """Lines, characters, bytes or tokens of it; `next.cursor` of an answer goes on."""
        return await self._line.send(requests.read(artifact_id, asked))

    async def search(self, artifact_id: str, pattern: str, **asked: Unpack[FindAsk]) -> Found:
        """Its lines that match a regular expression (RE2)."""
        return await self._line.send(requests.search(artifact_id, {"pattern": pattern, **asked}))

    async def windows(self, artifact_id: str, query: str, **asked: Unpack[PassageParameters]) -> Passages:
        """Its passages that answer a question."""
        return await self._line.send(requests.windows(artifact_id, {"query": query, **asked}))

    async def json(self, artifact_id: str, path: str, **asked: Unpack[ValueParameters]) -> Values:
        """Its values by JSONPath (RFC 9535) or JSON Pointer (RFC 6901)."""
        return await self._line.send(requests.values(artifact_id, {"path": path, **asked}))

    async def outline(self, artifact_id: str, **asked: Unpack[OutlineParameters]) -> Outline:
        """What is in it, and where."""
        return await self._line.send(requests.outline(artifact_id, asked))

    async def artifacts(self, **asked: Unpack[ListParameters]) -> Listing:
        """A page of artifacts, newest first."""
        return await self._line.send(requests.listing(asked))

    def stream(self, artifact_id: str, *, view: str | None = None, section: str | None = None) -> AsyncIterator[bytes]:
        """Its exact bytes in pieces. A connection that breaks is taken up where it broke; the digest is compared."""
        return self._line.stream(requests.content_path(artifact_id), requests.content_params(view, section))

    async def content(self, artifact_id: str, *, view: str | None = None, section: str | None = None) -> bytes:
        """Its exact bytes, in memory."""
        return b"".join([piece async for piece in self.stream(artifact_id, view=view, section=section)])

    async def download(
        self, artifact_id: str, target: str | Path, *, view: str | None = None, section: str | None = None
    ) -> int:
        """Write its exact bytes to a file; answers how many."""
        size = 0
        with await asyncio.to_thread(Path(target).open, "wb") as file:
            async for piece in self.stream(artifact_id, view=view, section=section):
                size += await asyncio.to_thread(file.write, piece)
        return size

    async def verify_citations(
        self, quotes: Iterable[Mapping[str, Any]], *, citation: str | None = None
    ) -> tuple[Verdict, ...]:
        """Whether quotations (`quote`, `citation`, `range`) stand in what they cite, in the order given."""
        return answers.verdicts(await self._line.send(requests.verify(quotes, citation)))

    # -------------------------------------------------------------------------------------------- for models

    async def tools(
        self, form: str = "json-schema", *, strict: bool = False, listing: bool = False
    ) -> tuple[Members, ...]:
        """What to put into the `tools` of a request, in a provider's form."""
        return answers.declared(await self._line.send(requests.tools(form, strict=strict, listing_too=listing)))

    async def call(self, call: Json, *, form: str | None = None, max_tokens: int | None = None) -> Json:
        """Execute a model's call, or several, as the provider wrote them; answers results in the same form."""
        return await self._line.send(requests.call(call, form, max_tokens))

    async def compact(self, body: Json, **asked: Unpack[CompactParameters]) -> Compacted:
        """The same request body with cards and markers where it was large, and a report."""
        return await self._line.send(requests.compact(body, {"session": self._setup.said.get("session"), **asked}))

    async def measure(self, body: Json, **asked: Unpack[MeasureParameters]) -> Members:
        """How full a context is, persisted and in flight apart."""
        return await self._line.send(requests.measure(body, {"session": self._setup.said.get("session"), **asked}))

    async def answer_hook(self, event: Json, **asked: Unpack[HookParameters]) -> Members:
        """What answers Claude Code's PostToolUse hook: the tool's response with cards; empty where nothing changes."""
        return await self._line.send(requests.hook(event, asked))

    # -------------------------------------------------------------------------------------------- changing

    async def patch(
        self,
        artifact_id: str,
        *,
        ttl: Ttl | UnsetType = UNSET,
        idle_ttl: Ttl | UnsetType = UNSET,
        pin: bool | UnsetType = UNSET,
        labels: Sequence[str] | UnsetType = UNSET,
    ) -> Artifact:
        """Change how long it is kept, or its labels; what is left out stays."""
        return await self._line.send(requests.patch(artifact_id, ttl, idle_ttl, pin, labels))

    async def delete(self, artifact_id: str) -> None:
        """Delete it. Gone already is fine."""
        try:
            await self._line.send(requests.delete(artifact_id))
        except ServiceError as e:
            if not answers.is_gone(e):
                raise

    async def delete_session(self, session: str) -> int:
        """Delete all of a session; answers how many artifacts were live."""
        return int((await self._line.send(requests.delete_session(session)))["deleted"])

    async def ready(self) -> bool:
        """Whether the service serves requests at this moment."""
        try:
            await self._line.send(requests.ready())
        except ServiceError:
            return False
        return True

    # -------------------------------------------------------------------------------------------- helping

    def _said(self, said: DeclaredFields) -> DeclaredFields:
        return {**self._setup.said, **said}

    def _excuse(self, error: ServiceError) -> None:
        """Nothing where an excerpt answers in the service's place; otherwise the error."""
        if self._setup.on_unreachable == "raise" or not answers.stands_in(error):
            raise error
