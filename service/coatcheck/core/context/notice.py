"""The one message that says what was left out of a history: how much, where it is stored, how the user's words began.

It replaces the first message that was left out, as a message of the user, which every format allows there: first in a
history, before an assistant's message and before another message of the user. What was left out is one artifact with a
message per line, including earlier notices. If a history already contains a notice, it is replaced by one with the
summed numbers. Nothing is summarised: beginnings are quoted.
"""

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.context.body.model import Format, Item, Role
from coatcheck.core.context.body.shape import Object, Value, as_object
from coatcheck.core.ids import is_id
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.text.long_text import head_of
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.inert import one_line

_COUNT: Final = "([0-9][0-9,]{0,19})"
_FIRST: Final = re.compile(
    rf"\[{_COUNT} earlier messages? \({_COUNT} of the user\), {_COUNT} bytes, left out of this history to fit its "
    r"budget; what follows is complete from here on unless it says otherwise\.\]"
)
_ALL_OF: Final = re.compile(
    r"They are stored as (art_[0-9]{18}), one on each line: read_artifact\([^\n]{1,120}\) reads them\."
)
_QUOTED: Final = "Omitted messages of the user began:"
_IDS: Final = "Outputs and texts from there that can still be read:"
_ID: Final = re.compile(r"- (art_[0-9]{18})(?: · ([^\n]*))?")
_OLDER: Final = re.compile(r"\(and ([0-9][0-9,]{0,11}) older\)")
_QUOTES: Final = 5
_QUOTE_TOKENS: Final = 60
_QUOTE_CHARS: Final = 600
_SHOWN_IDS: Final = 24
_ID_TOKENS: Final = 40
_LONGEST: Final = 40_000
_LEAST, _MOST = 400, 1_600


def notice_tokens(settle: int) -> int:
    """Returns the maximum tokens of a notice in a body that is reduced to `settle` tokens."""
    return min(max(settle // 4, _LEAST), _MOST)


class OmittedArtifact(Struct, frozen=True):
    """A part of what was left out that is stored separately."""

    id: str
    about: str
    """Its tool, command and size on one line, as far as known."""


class Omitted(Struct, frozen=True):
    """What was left out, in numbers and beginnings."""

    messages: int
    prompts: int
    bytes: int
    """Bytes of the messages as JSON, as they came."""
    quotes: tuple[str, ...] = ()
    """Beginnings of the user's messages, oldest first; the first one and the newest, each on one line."""
    artifacts: tuple[OmittedArtifact, ...] = ()
    """Artifacts of parts, oldest first; only the newest if there is no room for all."""
    older: int = 0
    """Number of artifacts stored before those."""
    stored_as: str | None = None
    """The artifact of the messages themselves, one per line; None if they could not be stored."""


def omitted(items: list[tuple[Item, int]], stored: list[OmittedArtifact], tokenizer: Tokenizer) -> Omitted:
    """Describes what leaving out these messages leaves out.

    Args:
        items: the messages, each with its bytes.
        stored: parts of them that were just stored separately.
        tokenizer: counts quotes.
    """
    prompts = [item for item, _ in items if item.prompt]
    beginnings = [
        text for item in prompts if (text := "\n".join(head_of(one, _QUOTE_CHARS) for one in item.texts)[:_QUOTE_CHARS])
    ]
    quotes = tuple(fit_text(one_line(text), _QUOTE_TOKENS, tokenizer) for text in beginnings)
    return Omitted(len(items), len(prompts), sum(size for _, size in items), quotes, tuple(stored))


def about(tool: str | None, command: str | None, size: str) -> str:
    """Returns the description of an ID on one line: tool, command and size."""
    named = ": ".join(one_line(part[:200]) for part in (tool, command) if part)
    return " · ".join(part for part in (named, size) if part)


def joined(older: list[Omitted], newer: Omitted) -> Omitted:
    """Returns the sum of notices that were in a history and of what is left out now."""
    parts = [*older, newer]
    artifacts = {one.id: one for part in reversed(parts) for one in part.artifacts}
    order = dict.fromkeys(one.id for part in parts for one in part.artifacts)
    return Omitted(
        sum(one.messages for one in parts),
        sum(one.prompts for one in parts),
        sum(one.bytes for one in parts),
        _few(tuple(quote for one in parts for quote in one.quotes)),
        tuple(artifacts[ref] for ref in order),
        sum(one.older for one in parts),
        newer.stored_as,
    )


def _few(quotes: tuple[str, ...]) -> tuple[str, ...]:
    return quotes if len(quotes) <= _QUOTES else (quotes[0], *quotes[1 - _QUOTES :])


def fitted(left_out: Omitted, tokens: int, tokenizer: Tokenizer) -> Omitted:
    """Returns what a notice of at most `tokens` can include: older IDs are only counted, then quotes are dropped."""
    lines = tuple(
        OmittedArtifact(one.id, fit_text(one.about, _ID_TOKENS, tokenizer)) for one in left_out.artifacts[-_SHOWN_IDS:]
    )
    said = replace(left_out, artifacts=lines, older=left_out.older + max(len(left_out.artifacts) - _SHOWN_IDS, 0))
    while tokenizer.count(written(said)) > tokens and (said.artifacts or said.quotes):
        if said.artifacts and len(said.artifacts) * 2 >= len(said.quotes):
            said = replace(said, artifacts=said.artifacts[1:], older=said.older + 1)
        else:
            said = replace(said, quotes=(*said.quotes[:1], *said.quotes[2:]) if len(said.quotes) > 1 else ())
    return said


def written(left_out: Omitted) -> str:
    """Returns the notice's text."""
    o = left_out
    first = (
        f"[{o.messages:,} earlier {'message' if o.messages == 1 else 'messages'} ({o.prompts:,} of the user), "
        f"{o.bytes:,} bytes, left out of this history to fit its budget; what follows is complete from here on unless "
        "it says otherwise.]"
    )
    lines = [first]
    if o.stored_as is not None:
        call = f'read_artifact(artifact_id="{o.stored_as}", offset=1, limit=1)'
        lines.append(f"They are stored as {o.stored_as}, one on each line: {call} reads them.")
    if o.quotes:
        lines += [_QUOTED, *(f"- {quote}" for quote in o.quotes)]
    if o.artifacts:
        lines += [_IDS, *(f"- {one.id} · {one.about}" if one.about else f"- {one.id}" for one in o.artifacts)]
    if o.older:
        lines.append(f"(and {o.older:,} older)")
    return "\n".join(lines)


def read(text: str) -> Omitted | None:
    """Returns the content of one of our notices; None for any other text."""
    first, *lines = text[:_LONGEST].split("\n")
    found = _FIRST.fullmatch(first)
    if found is None:
        return None
    counts = [int(number.replace(",", "")) for number in found.groups()]
    whole = _ALL_OF.fullmatch(lines[0]) if lines else None
    refs = [ref for line in lines if (ref := _ID.fullmatch(line)) is not None and is_id(ref[1])]
    quotes = [line[2:] for line in lines if line.startswith("- ") and _ID.fullmatch(line) is None]
    older = _OLDER.fullmatch(lines[-1]) if lines else None
    return Omitted(
        counts[0],
        counts[1],
        counts[2],
        tuple(quotes),
        tuple(OmittedArtifact(ref[1], ref[2] or "") for ref in refs),
        int(older[1].replace(",", "")) if older is not None else 0,
        whole[1] if whole is not None and is_id(whole[1]) else None,
    )


def notice_in(item: Item) -> Omitted | None:
    """Returns the content of the notice that an item is; None if it is none."""
    return (
        read(head_of(item.said[0].text, _LONGEST))
        if item.role is Role.USER and len(item.said) == 1 and not item.media
        else None
    )


def message(format_: Format, text: str, like: Value) -> Object:
    """Returns the notice as a message of a format.

    For LangChain's two forms, `like` is an example of the one to use.
    """
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
