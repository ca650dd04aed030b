"""Client methods for the tool calls of a model, and for changing a request before the model gets it."""

from typing import TYPE_CHECKING, Any, Final, cast

from coatcheck_client import fallback, fields, requests, results
from coatcheck_client.client_base import ClientBase
from coatcheck_client.client_method import client_method
from coatcheck_client.contract.declare import described
from coatcheck_client.contract.tools import READ
from coatcheck_client.requests import Json, post
from coatcheck_client.results import Members

if TYPE_CHECKING:
    from typing_extensions import Unpack

ANSWER: Final = cast("type[Json]", Any)
"""The type of an answer that may be any JSON value."""


class ModelMethods(ClientBase):
    """Operations that an agent waits for between two turns. Each takes at most the client's deadline."""

    @client_method
    @described(READ)
    async def read_artifact(
        self,
        artifact_id: str,
        outline: bool | None = None,
        section: str | None = None,
        offset: int | str | None = None,
        limit: int | None = None,
        pattern: str | None = None,
        query: str | None = None,
        path: str | None = None,
        context: int | None = None,
        view: str | None = None,
    ) -> str:
        """Answers a model's call; never raises. The decorator replaces this docstring with the tool's description."""
        given = {
            "artifact_id": artifact_id,
            "outline": outline,
            "section": section,
            "offset": offset,
            "limit": limit,
            "pattern": pattern,
            "query": query,
            "path": path,
            "context": context,
            "view": view,
        }
        try:
            call = {"name": READ.name, "arguments": {name: one for name, one in given.items() if one is not None}}
            answer = await self._sender.send_soon(post("/v1/tools/call", call, Members, {"format": "text"}))
            return str(answer["text"])
        except Exception as e:  # noqa: BLE001 - a model can act on a sentence, not on an exception
            return fallback.sentence(e)

    @client_method
    async def call(self, call: Json, *, form: str | None = None, max_tokens: int | None = None) -> Json:
        """Executes one or several tool calls as a provider writes them; returns results in its form, or in `form`.

        Raises:
            ServiceError: there is no call, or the service fails. A call that is wrong gets an answer, not an error.
        """
        parameters = {"format": form, "max_tokens": max_tokens}
        return await self._sender.send_soon(post("/v1/tools/call", call, ANSWER, parameters))

    @client_method
    async def compact(self, body: Json, **parameters: "Unpack[fields.CompactParameters]") -> results.Compacted:
        """Returns the request body with cards and markers in place of its large contents, and a report."""
        whole = {"body": body, **requests.members(self._in_session(parameters))}
        return await self._sender.send_soon(post("/v1/context/compact", whole, results.Compacted))

    @client_method
    async def measure(self, body: Json, **parameters: "Unpack[fields.MeasureParameters]") -> Members:
        """Returns how full a context is; persisted and in-flight tokens are counted separately."""
        whole = {"body": body, **requests.members(self._in_session(parameters))}
        return await self._sender.send_soon(post("/v1/context/measure", whole, Members))

    @client_method
    async def answer_hook(self, event: Json, **parameters: "Unpack[fields.HookParameters]") -> Members:
        """Returns the answer to Claude Code's PostToolUse hook: the response with cards; empty if nothing changes."""
        return await self._sender.send_soon(post("/v1/hooks/claude-code", event, Members, parameters))
