"""The values of a compaction: payloads that can be taken out of a body, their places, and large things that stay.

Bytes that are encoded in an output (`find_encoded`) are payloads of their own, stored before the output, which then has
names in their place.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from msgspec import Struct, structs

from coatcheck.core.context.body.encoding import Object, Value, plain
from coatcheck.core.context.body.model import Media
from coatcheck.core.context.body.splice import Pointer, render
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.parts.blobs import identify_blobs
from coatcheck.core.text.long_text import LongText, is_text
from coatcheck.core.views import parts
from coatcheck_client.contract.blobs import Blob, with_ids

Kind = Literal["output", "arguments", "media", "read", "search", "message"]
Why = Literal[
    "oversized",
    "short output",
    "many parts",
    "completed call",
    "media",
    "can be read again",
    "has a summary",
    "long message",
    "left out",
]


class ReplacementSite(Struct, frozen=True, gc=False):
    """The place of a text to replace, and its replacement."""

    at: Pointer
    inside: Pointer = ()
    shows: Literal["card", "marker", "whole", "given", "passage", "ends"] = "card"
    """`whole`: the card in an object, or the marker in all of the arguments, at `at`. `given`: the payload's own
    `replacement_text`. `passage`: a sign that the text is elsewhere. `ends`: both ends of the text."""
    characters: int = 0
    """Characters of the text there."""
    is_counted: bool = True
    """False for another copy of a call's arguments, which no provider is sent."""


class ReplaceablePayload(Struct, frozen=True, kw_only=True, gc=False):
    """A payload in a body, and the places from which it can be taken."""

    kind: Kind
    why: Why
    message: int
    """The number of its message in the body's list."""
    sites: tuple[ReplacementSite, ...]
    content: Value = None
    """As ingest accepts it: text, one part, or a list of parts. None if nothing is stored."""
    tool: str | None = None
    call_id: str | None = None
    command: str | None = None
    """The arguments of its call, shortened, if it is a call's output."""
    failed: bool = False
    media: Media | None = None
    call_at: Pointer | None = None
    """The first copy of the arguments that it is a part of, if it is one."""
    tokens: int
    replacement_text: str | None = None
    """The replacement if nothing is stored: the line of a read, the summary of a search."""
    artifact_id: str | None = None
    """The artifact that it was read from, if nothing is stored."""

    @property
    def becomes_card(self) -> bool:
        """Whether a card replaces it; otherwise its ID is enough."""
        return self.kind == "output" and not (self.sites and self.sites[0].shows == "marker")


class ReplacementCandidate(ReplaceablePayload, frozen=True, kw_only=True, gc=False):
    """One possible replacement."""

    ready: int
    """The number of messages after which all that belongs to it has arrived: up to its own, or its last output's."""
    saves: int
    """Minimum tokens that the replacement saves, whatever the length of a card turns out to be."""
    pressed: bool = False
    """Whether it is replaced only under pressure on the window."""
    file: bool = False
    """Whether the model asked for this file's text, so that more of it is left alone when it arrives."""

    def is_transient(self, policy: CompactionPolicy) -> bool:
        """Returns whether it is tool payload that a policy replaces as soon as its turn is over."""
        waits = self.pressed or policy.is_quiet
        return self.kind == "search" or (self.kind in {"output", "media", "read"} and not waits)


class Replacement(Struct, frozen=True, gc=False):
    """A candidate that is replaced."""

    candidate: int
    same: int | None = None
    """The earlier replaced candidate that has the same content, if any."""


class PlannedPayload(ReplaceablePayload, frozen=True, kw_only=True):
    """A payload to be stored."""

    key: str
    """Its name among what is stored; the same in every plan of the same body."""
    role: str
    left_out: bool = False
    """Whether its message is left out of the history: it is stored so that the notice can name it, and nothing replaces
    it."""
    title: str | None = None
    same_as: str | None = None
    """Key of an earlier payload that is identical."""

    @property
    def is_stored(self) -> bool:
        """Whether it is to be stored; not if it is already in an artifact, or is text that is left out as a whole."""
        return self.content is not None and not (self.left_out and self.kind == "message" and self.sites)

    @property
    def needs_card(self) -> bool:
        """Whether a card replaces it; otherwise its ID is enough."""
        return self.becomes_card and not self.left_out

    @property
    def pointers(self) -> tuple[str, ...]:
        """Its places in the body, as RFC 6901."""
        return tuple(render(place.at) for place in self.sites)


class UnreplacedItem(Struct, frozen=True):
    """Something large that stays, and why."""

    pointer: str
    """In the given body."""
    tokens: int
    why: str
    message: int | None = None
    """The number of its message."""


class EncodedOutput(Struct, frozen=True):
    """An output with encoded bytes in it."""

    payload: PlannedPayload
    text: bytes
    blobs: list[Blob]
    payloads: list[PlannedPayload]
    """What to store of each."""

    def name(self, ids: Mapping[str, str | None]) -> PlannedPayload:
        """Returns the output with names in place of what is stored; `ids` are by the keys of the payloads."""
        names = [(blob, ids.get(payload.key)) for blob, payload in zip(self.blobs, self.payloads, strict=True)]
        content = with_ids(self.text, names).decode("utf-8", "replace")
        return structs.replace(self.payload, content=content) if any(ids.values()) else self.payload


def find_encoded(payloads: Sequence[PlannedPayload]) -> list[EncodedOutput]:
    """Returns the outputs among payloads that have encoded bytes worth an artifact of their own."""
    out: list[EncodedOutput] = []
    for payload in payloads:
        if payload.kind != "output" or not _is_plain_text(payload.content):
            continue
        content = payload.content
        text = content.data if isinstance(content, LongText) else parts.payload(plain(content)).data
        blobs = identify_blobs(text)
        if blobs:
            out.append(
                EncodedOutput(payload, text, blobs, [_payload(payload, text, n, b) for n, b in enumerate(blobs)])
            )
    return out


def _is_plain_text(content: Value) -> bool:
    """Returns whether a payload is text, or several texts that are stored as one."""
    if not isinstance(content, list):
        return is_text(content)
    return all(item.get("type") == "text" for item in cast("list[Object]", content))


def _payload(output: PlannedPayload, text: bytes, number: int, blob: Blob) -> PlannedPayload:
    code = base64.b64encode(blob.decode(text)).decode()
    resource = {"uri": "", "mimeType": blob.media_type or "application/octet-stream", "blob": code}
    content = [{"type": "resource", "resource": resource}]
    return structs.replace(output, kind="media", key=f"{output.key}.{number}", content=content, same_as=None)
