"""The values of a compaction: payloads that can be taken out of a body, their places, and large values that stay.

Bytes that are encoded inside an output (`find_encoded`) are payloads of their own. They are stored before the output,
which then contains their names in their place.
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
    """The place of a text to replace, and the kind of its replacement."""

    at: Pointer
    inside: Pointer = ()
    shows: Literal["card", "marker", "whole", "given", "passage", "ends"] = "card"
    """The kind of replacement. `whole`: the card inside an object, or a marker in place of all arguments, at `at`.
    `given`: the payload's own `replacement_text`. `passage`: a sign that the text is elsewhere. `ends`: both ends of
    the text."""
    characters: int = 0
    """Characters of the text at this place."""
    is_counted: bool = True
    """Whether the text counts as tokens. False for a further copy of a call's arguments, which no provider receives."""


class ReplaceablePayload(Struct, frozen=True, kw_only=True, gc=False):
    """A payload in a body, and the places from which it can be taken."""

    kind: Kind
    why: Why
    message: int
    """Number of the payload's message in the body's list."""
    sites: tuple[ReplacementSite, ...]
    content: Value = None
    """The content as ingest accepts it: a text, one part, or a list of parts. None if nothing is stored."""
    tool: str | None = None
    call_id: str | None = None
    command: str | None = None
    """The call's command: its arguments in a short form, or the path of the file that it writes; None if unknown."""
    failed: bool = False
    media: Media | None = None
    call_at: Pointer | None = None
    """The first copy of the call's arguments, if the payload is a part of arguments; otherwise None."""
    tokens: int
    replacement_text: str | None = None
    """The replacement if nothing is stored: the line for a read, the summary of a search."""
    artifact_id: str | None = None
    """ID of the artifact that was read, if nothing is stored."""

    @property
    def becomes_card(self) -> bool:
        """Whether a card replaces the payload; otherwise the replacement needs only its ID."""
        return self.kind == "output" and not (self.sites and self.sites[0].shows == "marker")


class ReplacementCandidate(ReplaceablePayload, frozen=True, kw_only=True, gc=False):
    """One possible replacement."""

    ready: int
    """Number of messages after which the payload and the outputs of its call are complete."""
    saves: int
    """Minimum tokens that the replacement saves, however long its card will be."""
    pressed: bool = False
    """Whether it is replaced only while the window is under pressure."""
    file: bool = False
    """Whether the payload is the text of a file that the model asked to read. Then a longer text may stay when it
    arrives."""

    def is_transient(self, policy: CompactionPolicy) -> bool:
        """Returns whether it is tool payload that the policy replaces as soon as its turn is over."""
        waits = self.pressed or policy.is_quiet
        return self.kind == "search" or (self.kind in {"output", "media", "read"} and not waits)


class Replacement(Struct, frozen=True, gc=False):
    """The decision to replace a candidate."""

    candidate: int
    same: int | None = None
    """Number of an earlier replaced candidate with the same content; None if there is none."""


class PlannedPayload(ReplaceablePayload, frozen=True, kw_only=True):
    """A payload that a plan replaces, leaves out or stores."""

    key: str
    """The payload's name among the stored ones; it is the same in every plan of the same body under the same policy."""
    role: str
    left_out: bool = False
    """Whether the payload's message is left out of the history. Nothing replaces the payload then; it is stored so that
    the notice can name it."""
    title: str | None = None
    same_as: str | None = None
    """Key of an earlier payload with the same content; None if there is none."""

    @property
    def is_stored(self) -> bool:
        """Whether to store it. False if an artifact has it already, or if it is a message that is left out whole."""
        return self.content is not None and not (self.left_out and self.kind == "message" and self.sites)

    @property
    def needs_card(self) -> bool:
        """Whether a card is needed to replace it; otherwise its ID is enough."""
        return self.becomes_card and not self.left_out

    @property
    def pointers(self) -> tuple[str, ...]:
        """The payload's places in the body, as pointers of RFC 6901."""
        return tuple(render(place.at) for place in self.sites)


class UnreplacedItem(Struct, frozen=True):
    """Something large that stays, and why."""

    pointer: str
    """Pointer into the given body."""
    tokens: int
    why: str
    message: int | None = None
    """Number of the item's message; None if it is outside the messages."""


class EncodedOutput(Struct, frozen=True):
    """An output that contains encoded bytes."""

    payload: PlannedPayload
    text: bytes
    blobs: list[Blob]
    payloads: list[PlannedPayload]
    """The payload to store for each of `blobs`."""

    def name(self, ids: Mapping[str, str | None]) -> PlannedPayload:
        """Returns the output with names in place of the blobs that were stored; `ids` has their IDs by payload key."""
        names = [(blob, ids.get(payload.key)) for blob, payload in zip(self.blobs, self.payloads, strict=True)]
        content = with_ids(self.text, names).decode("utf-8", "replace")
        return structs.replace(self.payload, content=content) if any(ids.values()) else self.payload


def find_encoded(payloads: Sequence[PlannedPayload]) -> list[EncodedOutput]:
    """Returns the outputs among `payloads` with encoded bytes that are worth artifacts of their own."""
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
    """Returns whether a payload is a text, or consists of texts that are stored as one."""
    if not isinstance(content, list):
        return is_text(content)
    return all(item.get("type") == "text" for item in cast("list[Object]", content))


def _payload(output: PlannedPayload, text: bytes, number: int, blob: Blob) -> PlannedPayload:
    code = base64.b64encode(blob.decode(text)).decode()
    resource = {"uri": "", "mimeType": blob.media_type or "application/octet-stream", "blob": code}
    content = [{"type": "resource", "resource": resource}]
    return structs.replace(output, kind="media", key=f"{output.key}.{number}", content=content, same_as=None)
