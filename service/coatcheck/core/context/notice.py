"""The one message that says what was left out of a history: how much, how the user's words began, what is still stored.

It stands where the first message that was left out stood, as a message of the user's side, which every format allows
there: first in a history, before an assistant's message and before another message of the user. A history that holds
one already gets a new one in its place whose numbers are the sums. Refuses to summarise: it quotes beginnings.
"""

import json
import re
from typing import Final

from msgspec import Struct

from coatcheck.core.context.model import Format, Item, Role
from coatcheck.core.context.shape import Object, Value, as_object
from coatcheck.core.context.signs import ids_in
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.inert import one_line

NOTICE_TOKENS: Final = 640
"""A notice is never larger: a first line, five quotes, sixteen IDs."""
_COUNT: Final = "([0-9][0-9,]{0,19})"
_FIRST: Final = re.compile(
    rf"\[{_COUNT} earlier messages? \({_COUNT} of the user\), {_COUNT} bytes, left out of this history to fit its "
    r"budget; what follows is complete from here on unless it says otherwise\.\]"
)
_QUOTED: Final = "Omitted messages of the user began:"
_IDS: Final = "Tool outputs from there can still be read: "
_OLDER: Final = re.compile(r" \(and ([0-9][0-9,]{0,11}) older\)\Z")
_QUOTES: Final = 5
_QUOTE_TOKENS: Final = 60
_QUOTE_CHARS: Final = 600
_SHOWN_IDS: Final = 16
_LONGEST: Final = 40_000


class Omitted(Struct, frozen=True):
    """What was left out, in numbers and beginnings."""

    messages: int
    prompts: int
    bytes: int
    quotes: tuple[str, ...] = ()
    """Beginnings of the user's messages, oldest first; the first and the newest, each on one line."""
    artifacts: tuple[str, ...] = ()
    """IDs of what is stored of it, oldest first; at most sixteen, the newest."""
    older: int = 0
    """How many more were stored before those."""


def omitted(items: list[tuple[Item, Value]], stored: list[str], tokenizer: Tokenizer) -> Omitted:
    """What leaving these messages out leaves out, with the IDs of what was stored of them just now."""
    prompts = [item for item, _ in items if item.prompt]
    beginnings = [text for item in prompts if (text := "\n".join(item.texts)[:_QUOTE_CHARS])]
    quotes = tuple(fit_text(one_line(text), _QUOTE_TOKENS, tokenizer) for text in beginnings)
    size = 0
    ids: dict[str, None] = {}
    for item, raw in items:
        size += len(json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
        for output in item.outputs:
            for piece in output.pieces:
                ids |= dict.fromkeys(ids_in(piece.text[:_LONGEST])[:1])
    ids |= dict.fromkeys(stored)
    return joined([], Omitted(len(items), len(prompts), size, quotes, tuple(ids)))


def joined(older: list[Omitted], newer: Omitted) -> Omitted:
    """The sum of notices that stood in a history and of what is left out now."""
    parts = [*older, newer]
    ids = tuple(dict.fromkeys(ref for one in parts for ref in one.artifacts))
    quotes = tuple(quote for one in parts for quote in one.quotes)
    return Omitted(
        sum(one.messages for one in parts),
        sum(one.prompts for one in parts),
        sum(one.bytes for one in parts),
        quotes if len(quotes) <= _QUOTES else (quotes[0], *quotes[1 - _QUOTES :]),
        ids[-_SHOWN_IDS:],
        sum(one.older for one in parts) + max(len(ids) - _SHOWN_IDS, 0),
    )


def written(left_out: Omitted) -> str:
    """The notice's text."""
    o = left_out
    first = (
        f"[{o.messages:,} earlier {'message' if o.messages == 1 else 'messages'} ({o.prompts:,} of the user), "
        f"{o.bytes:,} bytes, left out of this history to fit its budget; what follows is complete from here on unless "
        "it says otherwise.]"
    )
    lines = [first]
    if o.quotes:
        lines += [_QUOTED, *(f"- {quote}" for quote in o.quotes)]
    if o.artifacts:
        more = f" (and {o.older:,} older)" if o.older else ""
        lines.append(f"{_IDS}{', '.join(o.artifacts)}{more}")
    return "\n".join(lines)


def read(text: str) -> Omitted | None:
    """What a notice of ours says; None for any other text."""
    first, *lines = text[:_LONGEST].split("\n")
    found = _FIRST.fullmatch(first)
    if found is None:
        return None
    counts = [int(number.replace(",", "")) for number in found.groups()]
    quotes = [line[2:] for line in lines if line.startswith("- ")]
    named = next((line for line in lines if line.startswith(_IDS)), "")
    older = _OLDER.search(named)
    count = int(older[1].replace(",", "")) if older is not None else 0
    return Omitted(counts[0], counts[1], counts[2], tuple(quotes), tuple(ids_in(named)), count)


def notice_in(item: Item) -> Omitted | None:
    """What the notice says that an item is; None when it is none."""
    return read(item.texts[0]) if item.role is Role.USER and len(item.texts) == 1 and not item.media else None


def message(format_: Format, text: str, like: Value) -> Object:
    """The notice as a message of a format; LangChain has two forms, and `like` is a message in the one to use."""
    match format_:
        case Format.OPENAI_RESPONSES:
            return {"type": "message", "role": "user", "content": text}
        case Format.GEMINI:
            return {"role": "user", "parts": [{"text": text}]}
        case Format.LANGCHAIN:
            message: Object = {"content": text, "additional_kwargs": {}, "response_metadata": {}, "type": "human"}
            if "lc" in as_object(like):
                kind = ["langchain", "schema", "messages", "HumanMessage"]
                return {"lc": 1, "type": "constructor", "id": kind, "kwargs": message}
            return {"type": "human", "data": {**message, "name": None, "id": None}}
        case _:
            return {"role": "user", "content": text}
