"""The one notice about the messages left out of a history: how many, where stored, what was said and concluded.

It takes the place of the first message that was left out. Strict servers refuse two messages of the user in a row, so
the notice is added to the end of a user's message beside that place, as a part of its own if the message has no text.
If there is no such message, the notice is a message of its own. The messages left out are one artifact with a message
per line, including earlier notices. If a history already contains a notice, the next notice replaces it and has the
sums of both. Nothing is summarised: the user and the model are quoted.
"""

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.context.body.encoding import Object, Value, as_object
from coatcheck.core.context.body.model import Format, Item, Piece, Role
from coatcheck.core.ids import is_id
from coatcheck.core.text.excerpt import fit_text
from coatcheck.core.text.long_text import Text, head_of, tail_of
from coatcheck.core.tokens import Tokenizer
from coatcheck_client.contract.inert import one_line

_COUNT: Final = "([0-9][0-9,]{0,19})"
_FIRST: Final = re.compile(
    rf"\[{_COUNT} earlier messages? \({_COUNT} of the user\), {_COUNT} bytes, left out of this history to fit its "
    r"budget; what follows is complete from here on unless it says otherwise\.\]"
)
_ALL_OF: Final = re.compile(
    r"They are stored as (art_[0-9]{18}), one on each line(?:: read_artifact\([^\n]{1,120}\) reads the first)?\. "
    r"What they said must be read again, not remembered\."
)
_QUOTED: Final = "The user said, first and last:"
_CONCLUDED: Final = "You concluded, newest first:"
_IDS: Final = "Outputs and texts from there that can still be read, each with the call that made it:"
_OLDER: Final = re.compile(r"\(and ([0-9][0-9,]{0,11}) older\)")
_QUOTES_TOKENS: Final = 400
"""Maximum tokens of all quotes of the user in one notice. Chosen, not measured."""
_QUOTE_TOKENS, _WHOLE_TOKENS = 60, 120
"""Tokens to which a quote of the user is cut, and tokens up to which the user's words are quoted in full."""
_QUOTE_CHARS: Final = 600
"""Characters of a user's text that are used for its quote: five for each of `_WHOLE_TOKENS`."""
_CONCLUSION_TOKENS, _CONCLUSIONS_TOKENS = 40, 400
"""Maximum tokens of one conclusion of the model, and of all conclusions."""
_MAX_CONCLUSIONS: Final = 100
"""Maximum conclusions that are examined when messages are left out. Chosen, not measured."""
_MIN_CONCLUSION_CHARS: Final = 24
"""Characters below which a text is too short to conclude anything."""
_JOINT: Final = "\n\n"
"""Separates a user's words from a notice after them; a notice has no empty line itself."""
_MAX_IDS: Final = 24
"""Maximum IDs that a notice names, the newest ones; the others are only counted. Chosen, not measured."""
_ID_TOKENS: Final = 40
"""Maximum tokens of the description of one ID. Chosen, not measured."""
_NOTICE_CHARS: Final = 40_000
"""Maximum characters that are read of a text that may be a notice or a conclusion. None of our notices is longer, since
it has at most `_MAX_NOTICE_TOKENS`."""
_MIN_NOTICE_TOKENS, _MAX_NOTICE_TOKENS = 400, 2_000
"""Minimum and maximum tokens of a notice; between them, a notice may have an eighth of the target. Chosen, not
measured."""


def notice_tokens(target: int) -> int:
    """Returns the maximum tokens of a notice in a body that is reduced to `target` tokens."""
    return min(max(target // 8, _MIN_NOTICE_TOKENS), _MAX_NOTICE_TOKENS)


class OmittedArtifact(Struct, frozen=True):
    """A part of what was left out that is stored separately."""

    id: str
    about: str
    """The tool, command and size of its call on one line, as far as they are known."""


class OmittedHistory(Struct, frozen=True):
    """A description of the messages left out: how many they are, what was said in them, and where they are stored."""

    messages: int
    prompts: int
    bytes: int
    """Bytes of the messages as they were received, written as compact JSON."""
    quotes: tuple[str, ...] = ()
    """The user's messages or their beginnings, each on one line: the first one and the newest, oldest first."""
    artifacts: tuple[OmittedArtifact, ...] = ()
    """Artifacts in the messages left out, oldest first; only the newest ones if there is no room for all."""
    older: int = 0
    """Number of artifacts that are older than `artifacts` and not named."""
    stored_as: str | None = None
    """The artifact of the messages themselves, one per line; None if they could not be stored."""
    conclusions: tuple[str, ...] = ()
    """The model's last paragraphs in the blocks left out, newest first, each on one line."""


def describe_omission(
    items: list[tuple[Item, int]], blocks: list[list[Item]], artifacts: list[OmittedArtifact], tokenizer: Tokenizer
) -> OmittedHistory:
    """Describes the messages that are left out: how many they are, and what they said.

    Args:
        items: the messages, each with its size in bytes.
        blocks: the same messages in the blocks that were left out together, oldest first.
        artifacts: the artifacts that contain parts of the messages.
        tokenizer: counts the tokens of quotes.
    """
    prompts = [item for item, _ in items if item.prompt]
    prompt_texts = [
        prompt_text
        for item in prompts
        if (prompt_text := "\n".join(head_of(one, _QUOTE_CHARS) for one in words_of(item)))
    ]
    quotes = tuple(_fit_quote(one_line(text[:_QUOTE_CHARS]), tokenizer) for text in prompt_texts)
    conclusions = [text for block in reversed(blocks) if (text := _conclusion(block)) is not None]
    return OmittedHistory(
        len(items),
        len(prompts),
        sum(size for _, size in items),
        quotes,
        tuple(artifacts),
        conclusions=tuple(fit_text(text, _CONCLUSION_TOKENS, tokenizer) for text in conclusions[:_MAX_CONCLUSIONS]),
    )


def _fit_quote(text: str, tokenizer: Tokenizer) -> str:
    whole = tokenizer.count(text) <= _WHOLE_TOKENS
    return text if whole else fit_text(text, _QUOTE_TOKENS, tokenizer)


def _conclusion(block: list[Item]) -> str | None:
    """Returns the last paragraph that the model wrote in a block; None if it is too short to conclude anything."""
    texts = [head_of(text, _NOTICE_CHARS) for item in block if item.role is Role.ASSISTANT for text in item.texts]
    paragraph = one_line(texts[-1].strip().rpartition("\n\n")[2][: 4 * _QUOTE_CHARS]) if texts else ""
    return paragraph if len(paragraph) >= _MIN_CONCLUSION_CHARS else None


def about(tool: str | None, command: str | None, size: str) -> str:
    """Returns the description of an ID on one line: tool, command and size."""
    subject = ": ".join(one_line(part[:200]) for part in (tool, command) if part)
    return " · ".join(part for part in (subject, size) if part)


def merge_notices(older: list[OmittedHistory], newer: OmittedHistory) -> OmittedHistory:
    """Returns the sum of a history's earlier notices and of what is left out now."""
    parts = [*older, newer]
    artifacts = {one.id: one for part in reversed(parts) for one in part.artifacts}
    order = dict.fromkeys(one.id for part in parts for one in part.artifacts)
    return OmittedHistory(
        sum(one.messages for one in parts),
        sum(one.prompts for one in parts),
        sum(one.bytes for one in parts),
        tuple(quote for one in parts for quote in one.quotes),
        tuple(artifacts[ref] for ref in order),
        sum(one.older for one in parts),
        newer.stored_as,
        tuple(text for one in reversed(parts) for text in one.conclusions),
    )


def _within(texts: tuple[str, ...], tokens: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Returns as many of the first texts as have at most `tokens` tokens together."""
    count = 0
    for number, text in enumerate(texts):
        count += tokenizer.count(text)
        if count > tokens:
            return texts[:number]
    return texts


def fit_notice(left_out: OmittedHistory, tokens: int, tokenizer: Tokenizer, *, can_read: bool) -> OmittedHistory:
    """Returns as much of an omission as fits into a notice of at most `tokens`.

    Until the notice fits, the longest of three lists loses its oldest element: artifacts, conclusions, or quotes.
    Removed artifacts are still counted in `older`, and the first quote is removed last.
    """
    # Each list has its own limit first, so that many IDs cannot displace every quote.
    lines = tuple(
        OmittedArtifact(one.id, fit_text(one.about, _ID_TOKENS, tokenizer)) for one in left_out.artifacts[-_MAX_IDS:]
    )
    # The user's first message says what everything is about, so it is dropped last.
    newest = _within(left_out.quotes[:1] + left_out.quotes[:0:-1], _QUOTES_TOKENS, tokenizer)
    omission = replace(
        left_out,
        artifacts=lines,
        quotes=newest[:1] + newest[:0:-1],
        conclusions=_within(left_out.conclusions, _CONCLUSIONS_TOKENS, tokenizer),
        older=left_out.older + max(len(left_out.artifacts) - _MAX_IDS, 0),
    )
    # Then drop one element at a time from the longest list.
    while tokenizer.count(render_notice(omission, can_read=can_read)) > tokens:
        artifacts, conclusions, quotes = omission.artifacts, omission.conclusions, omission.quotes
        most = max(len(artifacts), len(conclusions), len(quotes))
        if most == 0:
            break
        if len(artifacts) == most:
            omission = replace(omission, artifacts=artifacts[1:], older=omission.older + 1)
        elif len(conclusions) == most:
            omission = replace(omission, conclusions=conclusions[:-1])
        else:
            omission = replace(omission, quotes=(*quotes[:1], *quotes[2:]) if most > 1 else ())
    return omission


def render_notice(left_out: OmittedHistory, *, can_read: bool) -> str:
    """Returns the notice's text. It contains a call of `read_artifact` only if the model can make it."""
    o = left_out
    first = (
        f"[{o.messages:,} earlier {'message' if o.messages == 1 else 'messages'} ({o.prompts:,} of the user), "
        f"{o.bytes:,} bytes, left out of this history to fit its budget; what follows is complete from here on unless "
        "it says otherwise.]"
    )
    lines = [first]
    # The place of the messages comes before quotes from them: a model that needs more reads the messages.
    if o.stored_as is not None:
        call = f': read_artifact(artifact_id="{o.stored_as}", offset=1, limit=1) reads the first' if can_read else ""
        lines.append(
            f"They are stored as {o.stored_as}, one on each line{call}. What they said must be read again, not "
            "remembered."
        )
    if o.quotes:
        lines += [_QUOTED, *(f"- {quote}" for quote in o.quotes)]
    if o.conclusions:
        lines += [_CONCLUDED, *(f"- {text}" for text in o.conclusions)]
    if o.artifacts:
        lines += [_IDS, *(f"- {one.id} · {one.about}" if one.about else f"- {one.id}" for one in o.artifacts)]
    if o.older:
        lines.append(f"(and {o.older:,} older)")
    return "\n".join(lines)


def read(text: str) -> OmittedHistory | None:
    """Returns the content of one of our notices; None for any other text, and for a notice that was changed."""
    # At the end, the content is rendered again and compared with the text: a text of the user that only looks like a
    # notice must not be taken for one.
    first, *lines = text[:_NOTICE_CHARS].split("\n")
    match = _FIRST.fullmatch(first)
    if match is None:
        return None
    counts = [int(number.replace(",", "")) for number in match.groups()]
    whole = _ALL_OF.fullmatch(lines[0]) if lines else None
    sections: dict[str, list[str]] = {_QUOTED: [], _CONCLUDED: [], _IDS: []}
    section: list[str] = []
    # Lines that begin with a dash belong to the heading above them.
    for line in lines:
        section = sections.get(line, section)
        if line.startswith("- "):
            section.append(line)
    refs = [line[2:].partition(" · ") for line in sections[_IDS]]
    older = _OLDER.fullmatch(lines[-1]) if lines else None
    omission = OmittedHistory(
        counts[0],
        counts[1],
        counts[2],
        tuple(line[2:] for line in sections[_QUOTED]),
        tuple(OmittedArtifact(ref, words) for ref, _, words in refs if is_id(ref)),
        int(older[1].replace(",", "")) if older is not None else 0,
        whole[1] if whole is not None and is_id(whole[1]) else None,
        tuple(line[2:] for line in sections[_CONCLUDED]),
    )
    return omission if any(render_notice(omission, can_read=can_read) == text for can_read in (True, False)) else None


class Carrier(Struct, frozen=True):
    """A text of the user with a notice at its end, or that is only a notice."""

    piece: Piece
    words: str
    """The user's own words before the notice; empty if the message is only a notice."""
    notice: OmittedHistory


def carrier_of(item: Item) -> Carrier | None:
    """Returns the notice at the end of a user's message, with the words before it; None if there is none."""
    if item.role is not Role.USER or not item.pieces:
        return None
    piece = item.pieces[-1]
    # A user's text may be very long, but no notice is.
    end = tail_of(piece.text, _NOTICE_CHARS + len(_JOINT))
    _, joint, last = end.rpartition(_JOINT)
    is_whole = bool(joint) or len(end) == len(piece.text)
    notice = read(last) if is_whole and last.startswith("[") else None
    if notice is None:
        return None
    return Carrier(piece, str(piece.text)[: len(piece.text) - len(joint) - len(last)], notice)


def notice_in(item: Item) -> OmittedHistory | None:
    """Returns the content of a message that is only a notice; None for any other message."""
    carrier = carrier_of(item)
    if carrier is None or carrier.words or len(item.pieces) > 1 or item.media or item.data or item.outputs:
        return None
    return carrier.notice


def words_of(item: Item) -> list[Text]:
    """Returns what a user said in a message, without a notice at its end."""
    carrier = carrier_of(item)
    return item.texts if carrier is None else [*item.texts[:-1], carrier.words]


def append_notice(words: str, notice: str) -> str:
    """Returns a user's text with a notice at its end; if the text is empty, the notice alone."""
    return f"{words}{_JOINT}{notice}" if words else notice


def text_part(format_: Format, text: str) -> Value:
    """Returns a text as one part of a user's message that is a list of parts."""
    match format_:
        case Format.OPENAI_RESPONSES:
            return {"type": "input_text", "text": text}
        case Format.GEMINI | Format.BEDROCK:
            return {"text": text}
        case Format.PYDANTIC_AI:
            return text
        case _:
            return {"type": "text", "text": text}


def message(format_: Format, text: str, like: Value) -> Object:
    """Returns the notice as a message of a format.

    LangChain has three forms of messages: `like` is an example of the form to use.
    """
    match format_:
        case Format.OPENAI_RESPONSES:
            return {"type": "message", "role": "user", "content": text}
        case Format.GEMINI:
            return {"role": "user", "parts": [{"text": text}]}
        case Format.LANGCHAIN:
            fields: Object = {"content": text, "additional_kwargs": {}, "response_metadata": {}, "type": "human"}
            return wrap_langchain("HumanMessage", fields, {"name": None, "id": None}, like)
        case Format.BEDROCK:
            return {"role": "user", "content": [{"text": text}]}
        case Format.PYDANTIC_AI:
            return {"parts": [{"content": text, "part_kind": "user-prompt"}], "kind": "request"}
        case _:
            return {"role": "user", "content": text}


def wrap_langchain(name: str, fields: Object, further: Object, like: Value) -> Object:
    """Returns a LangChain message in the same form as `like`; `further` fields are added in the form with `data`."""
    if as_object(like).get("lc") == 1:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields}
    return {"type": fields["type"], "data": fields | further} if "data" in as_object(like) else fields
