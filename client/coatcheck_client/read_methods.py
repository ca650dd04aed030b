"""Client methods that read artifacts, check quotations of them, change how long they are kept, and delete them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from coatcheck_client import answers, citations, fields, requests, results
from coatcheck_client.bytes import WholeFile
from coatcheck_client.client_base import ClientBase
from coatcheck_client.client_method import client_iterator, client_method
from coatcheck_client.errors import ServiceError
from coatcheck_client.requests import Ttl, get, post
from coatcheck_client.results import Members, MembersPage

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ReadMethods(ClientBase):
    """Operations on stored artifacts. They raise `ServiceError`, unless their description says otherwise."""

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
        """Returns an artifact's card at another budget, or with excerpts for a question.

        With `tools="none"`, the card names no tool.
        """
        parameters = {"tokens": tokens, "query": query, "tools": tools}
        return await self._sender.send(get(requests.at(artifact_id, "/card"), results.CardText, parameters))

    @client_method
    async def read(self, artifact_id: str, **parameters: Unpack[fields.ReadParameters]) -> results.Read:
        """Returns lines, characters, bytes or tokens of an artifact; to continue, pass `next.cursor` as `cursor`."""
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
        """Returns the values in a JSON artifact that a JSONPath (RFC 9535) or JSON Pointer (RFC 6901) selects."""
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

    @client_iterator
    def each_artifact(self, **parameters: Unpack[fields.ListParameters]) -> AsyncGenerator[results.Artifact]:
        """Yields artifacts, newest first, from all pages; `limit` is the number of artifacts on a page."""
        return self._sender.items("/v1/artifacts", parameters, results.Listing)

    @client_iterator
    def events(self, *, session: str | None = None, artifact_id: str | None = None) -> AsyncGenerator[Members]:
        """Yields the reads, searches and compactions in a session, or of an artifact, latest first."""
        of = {"session": session, "artifact_id": artifact_id}
        return self._sender.items("/v1/events", of, MembersPage, "before")

    @client_iterator
    async def stream(
        self, artifact_id: str, *, view: str | None = None, section: str | None = None
    ) -> AsyncGenerator[bytes]:
        """Yields the exact bytes of an artifact in pieces. Resumes after a broken connection, and checks the digest."""
        async with aclosing(self._content(artifact_id, view, section)) as pieces:
            async for piece in pieces:
                yield piece

    def _content(self, artifact_id: str, view: str | None, section: str | None) -> AsyncGenerator[bytes]:
        params = requests.params({"view": view, "section": section})
        return self._sender.stream(requests.at(artifact_id, "/content"), params)

    @client_method
    async def content(self, artifact_id: str, *, view: str | None = None, section: str | None = None) -> bytes:
        """Returns the exact bytes of an artifact. All of them are in memory at once."""
        return b"".join([piece async for piece in self._content(artifact_id, view, section)])

    @client_method
    async def download(
        self, artifact_id: str, target: str | Path, *, view: str | None = None, section: str | None = None
    ) -> int:
        """Writes the exact bytes of an artifact to a file; returns their number.

        A file that exists is replaced when all bytes have arrived and fit the digest; until then it stays as it is.
        """
        size = 0
        with await self._connection.call(WholeFile, Path(target)) as file:
            async with aclosing(self._content(artifact_id, view, section)) as pieces:
                async for piece in pieces:
                    size += await self._connection.call(file.write, piece)
        return size

    @client_method
    async def verify_citations(
        self, quotes: Iterable[Mapping[str, Any]], *, citation: str | None = None
    ) -> tuple[results.Verdict, ...]:
        """Checks whether quotations (`quote`, `citation`, `range`) appear in the artifacts that they cite.

        Returns one result for each quotation, in the given order.
        """
        body = {"quotes": [dict(one) for one in quotes]} | ({} if citation is None else {"citation": citation})
        return answers.verdicts(await self._sender.send(post("/v1/citations/verify", body, Members)))

    @client_method
    async def check_answer(
        self, answer: str, sources: Iterable[str], *, deadline: float = 10.0
    ) -> citations.AnswerReport:
        """Checks whether each URL, quotation and artifact ID in a model's answer appears in what the model read.

        `sources` are the texts of tool results, as the model read them. If the service fails, nothing is raised: what
        could not be examined is `unchecked`. The check takes about `deadline` seconds at most.
        """
        ends, given = time.monotonic() + deadline, [sources] if isinstance(sources, str) else list(sources)
        check = await self._connection.call(citations.AnswerCheck, answer, given, deadline / 2)
        while quotes := check.next_quotes():
            if (seconds := ends - time.monotonic()) <= 0:
                return check.report("time ran out")
            try:
                request = post("/v1/citations/verify", {"quotes": quotes}, Members)
                check.take(answers.verdicts(await self._sender.send_soon(request, seconds)))
            except (ServiceError, LookupError, ValueError) as e:  # the last two: another release answers differently
                return check.report(str(e))
        return check.report()

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
        """Changes an artifact's expiry, pin or labels. Arguments that are left out change nothing."""
        declared = {"ttl": ttl, "idle_ttl": idle_ttl, "pin": pin, "labels": labels}
        changes = {name: value for name, value in declared.items() if value is not UNSET}
        return await self._sender.send(post(requests.at(artifact_id), changes, results.Artifact, method="PATCH"))

    @client_method
    async def delete(self, artifact_id: str) -> None:
        """Deletes an artifact; does nothing if it does not exist."""
        try:
            await self._sender.send(requests.delete(requests.at(artifact_id), type(None)))
        except ServiceError as e:
            if not answers.is_gone(e):
                raise

    @client_method
    async def delete_session(self, session: str) -> int:
        """Deletes all artifacts of a session; returns how many of them were live."""
        path = f"/v1/sessions/{requests.segment(session)}"
        return int((await self._sender.send(requests.delete(path, Members)))["deleted"])
