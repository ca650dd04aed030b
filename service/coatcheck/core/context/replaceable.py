"""The values of a compaction: payloads that can be taken out of a body, their places, and large things that stay."""

from typing import Literal

from msgspec import Struct

from coatcheck.core.context.body.model import Media
from coatcheck.core.context.body.pointer import Pointer
from coatcheck.core.context.body.shape import Value
from coatcheck.core.context.policy import CompactionPolicy

Kind = Literal["output", "arguments", "media", "read", "search", "message"]
Why = Literal[
    "oversized",
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
    `shown`. `passage`: a sign that the text is elsewhere. `ends`: both ends of the text."""
    characters: int = 0
    """Characters of the text there."""
    counted: bool = True
    """False for another copy of a call's arguments, which no provider is sent."""


class ReplaceablePayload(Struct, frozen=True, kw_only=True, gc=False):
    """A payload in a body, and the places from which it can be taken."""

    kind: Kind
    why: Why
    message: int
    """The number of its message in the body's list."""
    places: tuple[ReplacementSite, ...]
    content: Value = None
    """As ingest accepts it: text, one part, or a list of parts. None if nothing is stored."""
    tool: str | None
    call_id: str | None
    command: str | None = None
    """The arguments of its call, shortened, if it is a call's output."""
    failed: bool = False
    media: Media | None = None
    tokens: int
    shown: str | None = None
    """The replacement if nothing is stored: the line of a read, the summary of a search."""
    artifact_id: str | None = None
    """The artifact that it was read from, if nothing is stored."""


class ReplacementCandidate(ReplaceablePayload, frozen=True, kw_only=True, gc=False):
    """One possible replacement."""

    ready: int
    """The number of messages after which all that belongs to it has arrived: up to its own, or its last output's."""
    saves: int
    """Minimum tokens that the replacement saves."""
    pressed: bool = False
    """Whether it is replaced only under pressure on the window."""
    file: bool = False
    """Whether the model asked for this file's text, so that it is replaced last."""

    @property
    def can_be_had_again(self) -> bool:
        """Whether the same call gives the same answer, so that it need not wait once its turn is over."""
        return self.kind in {"read", "search"}

    def is_transient(self, policy: CompactionPolicy) -> bool:
        """Returns whether it is tool payload that a policy replaces as soon as its turn is over."""
        return self.can_be_had_again or (self.kind in {"output", "media"} and not policy.is_quiet)


class Left(Struct, frozen=True):
    """Something large that stays, and why."""

    pointer: str
    """In the given body."""
    tokens: int
    why: str
    message: int | None = None
    """The number of its message."""
