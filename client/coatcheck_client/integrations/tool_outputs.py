"""Turns a tool's result into what the model reads; the hooks of all agent frameworks share this.

A hook must not break an agent: a failure here is logged, and the result stays as it is. Frameworks start and end event
loops at any time, and an asynchronous client would be bound to one. So the client is a blocking one, and asynchronous
code calls it from a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast

from coatcheck_client import Client, is_card
from coatcheck_client.contract.blobs import REFUSED, Blob, large_blobs, with_ids
from coatcheck_client.contract.cards import is_own
from coatcheck_client.contract.searches import search_fields
from coatcheck_client.contract.tools import READ
from coatcheck_client.fallback import is_withheld, limits_of, sentence
from coatcheck_client.integrations.parts import Block, is_media, resource_of, texts_of, with_card
from coatcheck_client.options import OnUnreachable, Searches
from coatcheck_client.payload import EncodedJson, Payload, payload_of
from coatcheck_client.requests import DeclaredFields, Json

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_TOKENS: Final = 1_000
"""Default maximum tokens of a result that stays as it is."""


class ToolOutputOptions(TypedDict, total=False):
    """How tool results are replaced; every integration accepts these."""

    max_tokens: int
    """Maximum tokens of a result that stays as it is, by default 1,000; a longer one becomes a card (at most 600)."""
    exempt_tools: Collection[str]
    """Names of tools whose results stay as they are."""
    session: str | None
    """The session that payloads belong to; None for the client's own."""
    searches: Searches
    """What a web search's result becomes: the `summary` with all sources, the `passages`, or, with `off`, a card like
    any other. The default is `summary`, because a tool's result stays in the conversation in all later turns."""
    search_tools: Collection[str]
    """Names of tools that search the web. Tools whose name or result shows that they do need not be listed."""
    on_unreachable: OnUnreachable
    """What a bulky result becomes if the service fails: the `original` (the default), or only its two `ends`."""


class ToolOutputs:
    """Puts cards in place of bulky tool results. Safe to share between threads and event loops."""

    def __init__(self, client: Client | None = None, **options: "Unpack[ToolOutputOptions]") -> None:
        """Sends nothing yet.

        Args:
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            options: see ToolOutputOptions.
        """
        max_tokens = options.get("max_tokens", _MAX_TOKENS)
        session = options.get("session")
        self.client = client or Client()
        self._exempt = frozenset(options.get("exempt_tools", ()))
        self._limits = limits_of(max_tokens)
        if session is not None:
            self._limits["session"] = session
        self._most = max_tokens
        self._searches: Searches = options.get("searches", "summary")
        self._search_tools = frozenset(options.get("search_tools", ()))
        self._on_unreachable: OnUnreachable = options.get("on_unreachable", "original")

    @classmethod
    def of_agent(cls, tools: Iterable[str], client: Client | None, options: ToolOutputOptions) -> "ToolOutputs":
        """Returns the ToolOutputs for an agent's hooks.

        An agent is wrapped only once: the options of a second call would have no effect.

        Args:
            tools: names of the agent's tools.
            client: the client to use; None for the default one.
            options: see ToolOutputOptions.

        Raises:
            ValueError: the agent already has `read_artifact`.
        """
        if "read_artifact" in tools:
            raise ValueError("the agent has read_artifact already: wrap it once, with all options")
        return cls(client, **options)

    def card(
        self,
        result: Any,  # noqa: ANN401 - tools return values of any type
        tool_name: str,
        tool_call_id: str | None = None,
        session: str | None = None,
        arguments: object = None,
    ) -> Any:  # noqa: ANN401 - as above
        """Returns the result itself, or what the model reads in its place; never raises.

        A bulky text becomes a card. In a list of parts, the texts become one card, and everything else, such as images,
        stays. A list of only images stays as it is. Any other value becomes a card if its JSON is bulky.

        Args:
            result: what the tool returned: text, parts in any provider's form, or any other value.
            tool_name: the tool's name. Coatcheck's own tools are exempt.
            tool_call_id: the provider's ID of the call.
            session: the session of the payload, if the framework knows it; None: the one given to the constructor.
            arguments: the call's arguments, or their JSON; those of a web search contain its query.
        """
        if tool_name in self._exempt or is_own(tool_name):
            return result
        try:
            call_fields = {"tool_name": tool_name, "tool_call_id": tool_call_id, "session": session}
            return self._card_result(result, {**call_fields, **search_fields(tool_name, arguments, self._search_tools)})
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            log.warning("the result of %s stays as it is: %s", tool_name, e)
            return result

    async def acard(
        self,
        result: Any,  # noqa: ANN401 - as above
        tool_name: str,
        tool_call_id: str | None = None,
        session: str | None = None,
        arguments: object = None,
    ) -> Any:  # noqa: ANN401
        """Like `card`, but works in a thread, so that it does not block an event loop."""
        return await asyncio.to_thread(self.card, result, tool_name, tool_call_id, session, arguments)

    def read(self, arguments: object) -> str:
        """Answers a model's call of `read_artifact`; never raises. See answer_read."""
        return answer_read(self.client, arguments)

    def card_resources(self, blocks: Iterable[Block], tool_name: str) -> dict[int, str]:
        """Stores each large embedded resource of an MCP result as an artifact of its own; never raises.

        Args:
            blocks: the result's blocks, as JSON objects.
            tool_name: the tool's name, as for `card`.

        Returns:
            What the model reads in place of each stored resource, by the index of the resource's block.
        """
        cards: dict[int, str] = {}
        if tool_name in self._exempt or is_own(tool_name):
            return cards
        try:
            for at, block in enumerate(blocks):
                if (resource := resource_of(block, self._most)) is None:
                    continue
                declared = cast("DeclaredFields", {**self._limits, "tool_name": tool_name, **resource.declared})
                receipt = self.client.put(resource.data, on_unreachable=self._on_unreachable, **declared)
                if (text := resource.text_in(receipt)) is not None:
                    cards[at] = text
        except Exception as e:  # noqa: BLE001 - a failure must not stop the agent
            log.warning("embedded resources of %s stay as they are: %s", tool_name, e)
        return cards

    def _card_result(self, result: object, declared: dict[str, str | None]) -> object:
        texts = texts_of(result)
        if texts is None and is_media(result):
            return result
        texts = None if texts is None else [text for text in texts if not is_card(text)]
        payload = payload_of(result) if texts is None else "".join(texts)
        if _size(payload) <= self._most or (texts is None and isinstance(payload, str) and is_card(payload)):
            return result
        fields = cast("DeclaredFields", {name: value for name, value in declared.items() if value is not None})
        given = texts or ([result] if isinstance(result, str) else [])
        named = [self._name_blobs(text, fields) for text in given]
        receipt = self.client.put(
            (named[0] if named else result) if texts is None else [{"type": "text", "text": text} for text in named],
            on_unreachable=self._on_unreachable,
            searches=self._searches,
            **{**self._limits, **fields},
        )
        if receipt.inline and named == given:
            return result
        if texts is None:
            return receipt.text
        try:
            return with_card(cast("list[Any]", result), receipt.text)
        except Exception as e:  # noqa: BLE001 - such as parts that cannot be changed
            # The result itself must not come back: it may have been refused for a secret in it.
            log.warning("of the result of %s only the card is shown: %s", fields.get("tool_name"), e)
            return receipt.text

    def _name_blobs(self, text: str, declared: DeclaredFields) -> str:
        """Stores binary data that is encoded in a text, and returns the text with names in place of what was stored."""
        data = text.encode("utf-8", "replace")
        ids: list[tuple[Blob, str | None]] = []
        for blob in large_blobs(data):
            fields: DeclaredFields = {**self._limits, **declared, "media_type": blob.media_type}
            receipt = self.client.put(blob.decode(data), on_unreachable="ends", **fields)
            if not receipt.stored and not is_withheld(receipt):  # the others could not be stored either
                break
            ids.append((blob, receipt.id or REFUSED))
        return with_ids(data, ids).decode() if ids else text


def answer_read(client: Client, arguments: object) -> str:
    """Answers a model's call of `read_artifact`; never raises.

    Args:
        client: the client to use.
        arguments: what the model wrote, an object or its JSON. The service judges it: it takes other names of the ID,
            and says what is wrong.
    """
    try:
        call = {"name": READ.name, "arguments": cast("Json", arguments)}
        return str(cast("dict[str, Json]", client.call(call, form="text"))["text"])
    except Exception as e:  # noqa: BLE001 - a model can act on a sentence, not on an exception
        return sentence(e)


def read_payload(read: Callable[[], T], tool_name: str) -> T | None:
    """Returns the payload that `read` takes from a result; if `read` fails, logs that and returns None."""
    try:
        return read()
    except Exception as e:  # noqa: BLE001 - a result may run code of its own, and a failure must not stop the agent
        log.warning("the result of %s stays as it is: %s: %s", tool_name, type(e).__name__, e)
        return None


def _size(payload: Payload) -> int:
    """Returns the payload's bytes, which are at least as many as its tokens: a token has at least one byte."""
    if isinstance(payload, EncodedJson):
        return len(payload.data)
    return len(payload if isinstance(payload, bytes) else payload.encode("utf-8", "replace"))
