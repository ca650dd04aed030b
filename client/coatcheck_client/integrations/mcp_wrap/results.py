"""Puts cards in place of the texts in MCP tool results.

Independent of transports and SDKs: blocks are JSON objects.

The texts of a result (text blocks, and the text of small resources) become one card, which takes the place of the first
text. Each large embedded resource becomes an artifact of its own, with a card in its place; so does binary data that is
encoded in a text, with a name in its place. Images, audio and links stay where they are. If anything fails, a result
stays as it is.
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from coatcheck_client import AsyncClient, Receipt
from coatcheck_client.contract.blobs import REFUSED, Blob, large_blobs, with_ids
from coatcheck_client.contract.cards import is_card
from coatcheck_client.contract.json_values import is_among
from coatcheck_client.fallback import is_withheld, limits_of
from coatcheck_client.integrations.parts import Block, resource_of
from coatcheck_client.options import Searches
from coatcheck_client.requests import DeclaredFields

B = TypeVar("B")

MAX_TOKENS: Final = 1_000
"""Default maximum tokens of a result that stays as it is."""
MIN_LIMIT: Final = 64
MAX_LIMIT: Final = 100_000
"""Bounds of that limit, in tokens."""
_LONGEST_COMMAND: Final = 500
"""Maximum characters of the arguments that are declared as a payload's command."""
_LONGEST_LABEL: Final = 128
"""Maximum characters of the label that names the server."""


def text_of(block: Block) -> str | None:
    """Returns what a model reads of a block: its text, or the text of the resource in it; None if it has none."""
    holder: object = block.get("resource") if block.get("type") == "resource" else block
    if not isinstance(holder, Mapping) or not is_among(block.get("type"), {"text", "resource"}):
        return None
    text = cast("Block", holder).get("text")
    return text if isinstance(text, str) else None


def replaceable_texts(blocks: Sequence[Block], but: Collection[int] = ()) -> dict[int, str]:
    """Returns the texts that a card replaces, by the indexes of their blocks.

    Texts that Coatcheck wrote are left out, and so are the blocks with the indexes `but`.
    """
    texts = {at: text_of(block) for at, block in enumerate(blocks) if at not in but}
    return {at: text for at, text in texts.items() if text is not None and not is_card(text)}


def payload_of(blocks: Sequence[Block], structured: object, most: int, but: Collection[int] = ()) -> str | None:
    """Returns the payload to store for a result: its texts, then its structured content unless that is a copy of them.

    Texts that Coatcheck wrote are left out. Returns None if the payload has at most `most` bytes, and so at most `most`
    tokens, or if there are only such texts. `but` are the indexes of further blocks to leave out.
    """
    texts = list(replaceable_texts(blocks, but).values())
    if not texts and any(text_of(block) is not None for at, block in enumerate(blocks) if at not in but):
        return None
    if structured is not None and not is_copy(structured, blocks):
        texts.append(json.dumps(structured, ensure_ascii=False))
    whole = "\n".join(text.removesuffix("\n") for text in texts[:-1]) + "\n" * (len(texts) > 1) + "".join(texts[-1:])
    return whole if len(whole) > most or len(whole.encode("utf-8", "replace")) > most else None


def is_copy(structured: object, blocks: Sequence[Block]) -> bool:
    """Returns whether the structured content is also in the blocks, as text or as JSON.

    Servers often wrap a result into an object with one member to make it structured content. So if it has only one
    member, the value of that member is compared too.
    """
    values: list[object] = [structured]
    if isinstance(structured, Mapping) and len(cast("Block", structured)) == 1:
        values += cast("Block", structured).values()
    texts = [text for block in blocks if (text := text_of(block)) is not None]
    parsed_texts = [_parsed(text) for text in texts]
    copies: list[object] = [parsed_texts, texts, list(blocks), *parsed_texts, *texts]
    return any(value == one for value in values for one in copies)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def store_blobs(client: AsyncClient, payload: str, **declared: Any) -> str:  # noqa: ANN401
    """Stores binary data that is encoded in a payload; returns the payload with names in place of what was stored."""
    text = payload.encode("utf-8", "replace")
    blobs = await asyncio.to_thread(large_blobs, text)
    ids: list[tuple[Blob, str | None]] = []
    for blob in blobs:
        data = await asyncio.to_thread(blob.decode, text)
        fields = cast("DeclaredFields", {**declared, "media_type": blob.media_type})
        receipt = await client.put(data, on_unreachable="ends", **fields)
        if not receipt.stored and not is_withheld(receipt):  # the others could not be stored either
            break
        ids.append((blob, receipt.id or REFUSED))
    return with_ids(text, ids).decode() if ids else payload


async def store_resource(client: AsyncClient, block: Block, most: int, **declared: Any) -> str | None:  # noqa: ANN401
    """Stores an embedded resource whose text or base64 has more than `most` characters.

    Returns what a model reads in place of the resource; None if the block stays as it is.
    """
    resource = await asyncio.to_thread(resource_of, block, most)
    if resource is None:
        return None
    return resource.text_in(await receipt_of(client, resource.data, most, **{**declared, **resource.declared}))


async def receipt_of(
    client: AsyncClient,
    payload: str | bytes,
    max_tokens: int,
    *,
    searches: Searches = "off",
    **declared: Any,  # noqa: ANN401
) -> Receipt:
    """Stores a payload and returns its receipt.

    If the receipt is inline, the result stays as it is: the payload is small, or could not be stored.

    Args:
        client: the client to use.
        payload: what the model would read without a card.
        max_tokens: maximum tokens of a result that stays as it is.
        searches: what a web search's result becomes.
        declared: further fields that a put may declare about a payload.
    """
    fields = cast(
        "DeclaredFields", {**limits_of(max_tokens), **{name: value for name, value in declared.items() if value}}
    )
    return await client.put(payload, on_unreachable="original", searches=searches, **fields)


def declared_of(arguments: object, server: object) -> dict[str, Any]:
    """Returns what a put declares about a call: shortened arguments, their URL, and the server's name as a label."""
    given = cast("Block", arguments if isinstance(arguments, Mapping) else {})
    short = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    label = "".join(one for one in str(server or "") if one.isprintable())[:_LONGEST_LABEL]
    url = given.get("url")
    return {
        "command": (short if len(short) <= _LONGEST_COMMAND else f"{short[: _LONGEST_COMMAND - 1]}…")
        if given
        else None,
        "url": url if isinstance(url, str) and url.startswith(("http://", "https://")) else None,
        "labels": [label] if label else [],
    }


def replace_texts(blocks: Sequence[B], texts: Sequence[int], card: B) -> list[B]:
    """Returns the blocks with a card in place of the first text, and without the other texts.

    `texts` are the indexes of the blocks with text. If there are none, because the result has only structured content,
    the card comes first.
    """
    if not texts:
        return [card, *blocks]
    gone = set(texts[1:])
    return [card if at == texts[0] else block for at, block in enumerate(blocks) if at not in gone]


def with_card(result: Block, card: str) -> dict[str, Any]:
    """Returns a result with a card in place of its payload; everything else stays."""
    blocks: list[Block] = result.get("content") or []
    texts = list(replaceable_texts(blocks))
    smaller = {**result, "content": replace_texts(blocks, texts, {"type": "text", "text": card})}
    smaller.pop("structuredContent", None)  # a copy, which some hosts show in place of the text
    return smaller
