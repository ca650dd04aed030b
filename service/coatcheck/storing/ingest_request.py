"""A caller's request to store a payload, and the answer of an ingest."""

import hashlib
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coatcheck.core.artifact import DeclaredMetadata, EarlierRun
from coatcheck.core.card import Card
from coatcheck.core.pictures import Pictures
from coatcheck.core.views.view import ExtractedText
from coatcheck_client.contract.answers import Notice


class IngestRequest(Struct, frozen=True, kw_only=True, rename={"declared": "said", "with_card": "carded"}):
    """A caller's request about a payload."""

    declared: DeclaredMetadata = DeclaredMetadata()
    query: str | None = None
    """What the agent was looking for; excerpts follow it."""
    ttl: int | None | UnsetType = UNSET
    """Seconds; None: forever; unset: the service's default."""
    idle_ttl: int | None | UnsetType = UNSET
    pinned: bool = False
    card_tokens: int | None = None
    inline_tokens: int | None = None
    keep_ends: bool = False
    extracted: ExtractedText | None = None
    """The text view, if the caller made it already."""
    redacted: str = ""
    """What was masked in it before it was stored, in words."""
    compare_to: str | None = None
    """What to compare it with: an artifact ID, or `previous`. See `storing/compare.py`."""
    earlier: EarlierRun | None = None
    """What `compare_to` names, once it is known."""
    tools: bool = True
    """False: the model has no tool to read on with, so the card names none."""
    with_card: bool = True
    """False: nobody reads the card, so it is not cut."""
    standalone: bool | UnsetType = UNSET
    """True: whoever reads the card may not have seen earlier ones, and may yet get a smaller one. So no two lines refer
    to an earlier card, and no later ones to this. Unset otherwise, as fingerprints contain what is set."""
    key: str | None = None
    """The Idempotency-Key."""
    notices: tuple[Notice, ...] = ()
    """What the interface had to change to accept the request; passed on to the caller."""


class Receipt(Struct, frozen=True, kw_only=True):
    """The answer of an ingest."""

    id: str
    created: bool
    """False: this artifact existed already."""
    replayed: bool = False
    """Whether this request had been answered before, according to its Idempotency-Key."""
    stored: bool = True
    """False: storage refused the payload, as a warning says; the card represents it nevertheless."""
    expires_at: datetime | None
    """The moment from which it answers `gone`; None: kept forever, pinned, or not stored."""
    inline: bool
    """Whether `text` is the payload itself, byte for byte."""
    text: str
    """Exactly what to put into the tool result."""
    tokens: int
    """Tokens of `text`."""
    same_as: str | None = None
    """The artifact of the same bytes whose card `text` refers to, in two lines; None: `text` is a card or payload."""
    card: Card
    pictures: Pictures | None = None
    """What goes beside `text` in the tool result."""
    warnings: tuple[Notice, ...] = ()


def fingerprint(identity: bytes, request: IngestRequest) -> bytes:
    """Returns what identifies a request: the artifact's identity and all its parameters."""
    declared = msgspec.structs.replace(request.declared, compared_to=None)  # `previous` may mean another one by now
    words = msgspec.structs.replace(request, declared=declared, extracted=None, earlier=None)
    return hashlib.sha256(identity + msgspec.json.encode(words)).digest()
