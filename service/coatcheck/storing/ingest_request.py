"""What a caller asks with a payload, and what an ingest answers."""

import hashlib
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coatcheck.core.artifact import DeclaredMetadata, EarlierRun
from coatcheck.core.card import Card
from coatcheck.core.pictures import Pictures
from coatcheck.core.views.view import ExtractedText


class IngestRequest(Struct, frozen=True, kw_only=True):
    """What a caller asks with a payload."""

    said: DeclaredMetadata = DeclaredMetadata()
    query: str | None = None
    """What the agent was looking for; excerpts follow it."""
    ttl: int | None | UnsetType = UNSET
    """Seconds; None keeps for ever; unset takes the service's default."""
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool = False
    card_tokens: int | None = None
    inline_tokens: int | None = None
    keep_ends: bool = False
    extracted: ExtractedText | None = None
    """The text view, where the caller made it already."""
    redacted: str = ""
    """What was masked of it before it was stored, in words."""
    compare_to: str | None = None
    """An artifact ID, or `previous`: what it is to be compared with. See `storing/compare.py`."""
    earlier: EarlierRun | None = None
    """What that is, once it is known."""
    tools: bool = True
    """False: the model has no tool to read on with, and the card names none."""
    carded: bool = True
    """False: nobody reads the card, and it is not cut."""
    key: str | None = None
    """The Idempotency-Key."""
    notices: tuple["Notice", ...] = ()
    """What the face had to change to accept the request; passed on to the caller."""


class Notice(Struct, frozen=True):
    """Something the caller should know although the request succeeded. The code is permanent."""

    code: str
    message: str


class Receipt(Struct, frozen=True, kw_only=True):
    """What an ingest answers."""

    id: str
    created: bool
    """False: this very artifact was there already."""
    replayed: bool = False
    """Whether this very request had been answered before, as its Idempotency-Key says."""
    stored: bool = True
    """False: storage refused the payload, as a warning says; the card stands for it all the same."""
    expires_at: datetime | None
    """The moment from which it answers `gone`; None: kept for ever, pinned, or not stored."""
    inline: bool
    """Whether `text` is the payload itself, byte for byte."""
    text: str
    """Exactly what to put into the tool result."""
    tokens: int
    """Of `text`."""
    card: Card
    pictures: Pictures | None = None
    """What stands beside `text` in the tool result."""
    warnings: tuple[Notice, ...] = ()


def fingerprint(identity: bytes, request: IngestRequest) -> bytes:
    """What makes a request that request: the artifact's identity and everything asked with it."""
    said = msgspec.structs.replace(request.said, compared_to=None)  # what `previous` is may be another one by now
    words = msgspec.structs.replace(request, said=said, extracted=None, earlier=None)
    return hashlib.sha256(identity + msgspec.json.encode(words)).digest()
