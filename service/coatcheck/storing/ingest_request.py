"""A caller's request to store a payload, and the receipt with which an ingest answers."""

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
    """A caller's request to store a payload: everything that the ingest needs to know besides the bytes."""

    declared: DeclaredMetadata = DeclaredMetadata()
    query: str | None = None
    """The query of the agent, by which the card's excerpts are chosen; None: there is none."""
    ttl: int | None | UnsetType = UNSET
    """Seconds that the artifact is kept; None: forever; unset: the default of the policy or the service."""
    idle_ttl: int | None | UnsetType = UNSET
    """Seconds without a read after which the artifact expires; None: it does not expire for lack of reads; unset: the
    policy's default."""
    pinned: bool = False
    """Whether the artifact never expires."""
    card_tokens: int | None = None
    """Token budget of the card; None: the default of the policy or the service."""
    inline_tokens: int | None = None
    """Maximum tokens of a payload that is returned without a card; None: the default of the policy or the service."""
    keep_ends: bool = False
    """Whether the two ends of a payload over the limit are stored; otherwise such a payload is refused."""
    extracted: ExtractedText | None = None
    """The text view, if the caller has made it already; None: it has not."""
    redacted: str = ""
    """A description of the secrets that were masked in the payload before it was stored; empty if there were none."""
    compare_to: str | None = None
    """The artifact to compare with: an ID, or `previous`, which `storing/compare.py` explains; None: no comparison."""
    earlier: EarlierRun | None = None
    """The artifact that `compare_to` names; None until it is found."""
    tools: bool = True
    """Whether the model has tools to read on. If not, the card names none."""
    with_card: bool = True
    """Whether anybody reads the card. If not, no card is cut."""
    standalone: bool | UnsetType = UNSET
    """True: the card refers to no earlier card, and no later card refers to this one, because its reader may not have
    seen earlier cards and may get a smaller card later. Otherwise the field is unset and not False, because a
    fingerprint includes every field that is set."""
    always_cut: bool | UnsetType = UNSET
    """True: no payload is returned whole, not even an answer to a read, because the text must fit `card_tokens`.
    Otherwise unset, for the same reason as `standalone`."""
    key: str | None = None
    """The idempotency key; None: the request has none."""
    notices: tuple[Notice, ...] = ()
    """Notices of changes that the interface made to the request to accept it. The receipt contains them."""


class Receipt(Struct, frozen=True, kw_only=True):
    """The answer of an ingest."""

    id: str
    created: bool
    """Whether the request created the artifact; false: the artifact existed already."""
    replayed: bool = False
    """Whether a request with the same idempotency key had been answered before, so that this is the same answer."""
    stored: bool = True
    """Whether the payload is stored. If storage refused it, a warning says so, and the receipt still has its card."""
    expires_at: datetime | None
    """The moment at which the artifact expires; None: it is kept forever, pinned, or not stored."""
    inline: bool
    """Whether `text` is the payload itself, byte for byte."""
    text: str
    """The exact text to put into the tool result."""
    tokens: int
    """Number of tokens of `text`."""
    same_as: str | None = None
    """The artifact with the same bytes to whose card the two lines of `text` refer; None: `text` refers to no card."""
    card: Card
    pictures: Pictures | None = None
    """The pictures that go beside `text` in the tool result; None: there are none."""
    warnings: tuple[Notice, ...] = ()


def fingerprint(identity: bytes, request: IngestRequest) -> bytes:
    """Returns a digest that identifies a request: of the artifact's identity and all parameters of the request."""
    # `compared_to` is left out, because `previous` may stand for another artifact when the request is repeated.
    declared = msgspec.structs.replace(request.declared, compared_to=None)
    words = msgspec.structs.replace(request, declared=declared, extracted=None, earlier=None)
    return hashlib.sha256(identity + msgspec.json.encode(words)).digest()
