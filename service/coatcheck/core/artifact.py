"""The nouns: what was handed over, what is known of it, where its bytes are.

Values only. Everything here is immutable and says nothing about a database or a protocol.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.rates import Rates

ENGINE = 5
"""Version of the code that recognises kinds and cuts cards. Kept with each artifact: what an older one recognised is
recognised again. Within a version the same input gives the same card."""
UNDESCRIBED: Final = 0
"""In the place of ENGINE: of the payload only what lists show was recognised, since no card was cut from it yet."""


class Kind(StrEnum):
    """What a payload is. Decides what its card shows."""

    COMMAND_OUTPUT = "command_output"
    """What a program printed: a build, a test run, a listing."""
    LOG = "log"
    """Lines with times or levels, of a program that runs on."""
    CODE_OR_FILE = "code_or_file"
    """Source code, configuration or another file that somebody wrote."""
    DIFF = "diff"
    """A patch, or the history of a repository with patches."""
    JSON = "json"
    """A JSON document, or JSON lines."""
    TABLE = "table"
    """Rows and columns: CSV, TSV, an aligned table."""
    WEB_PAGE = "web_page"
    """HTML."""
    SEARCH_RESULTS = "search_results"
    """A search provider's response, or a list of results."""
    IMAGE = "image"
    """A picture; its card says format and size."""
    BINARY = "binary"
    """Anything else that is no text: archives, documents, databases, programs."""
    TEXT = "text"
    """Prose, and text that is nothing of the above."""


EVERY_SCOPE: Final = frozenset({"ingest", "read", "delete", "admin"})
"""What a key may allow: to store, to read, to delete and change, to administer."""


class Caller(Struct, frozen=True):
    """Who asks, and what they may. The namespace is the tenant; every port call names it.

    The defaults are the caller without a key, who may do everything.
    """

    namespace: str = "default"
    name: str = "local"
    scopes: frozenset[str] = EVERY_SCOPE
    session_prefix: str | None = None
    """Only sessions whose names begin with this exist for the caller; None: all, and what is in no session."""
    key_id: str | None = None
    """Which key was presented; None: none was needed."""
    rates: Rates | None = None
    """What the key says of how much it may be used; None: nothing."""

    def sees(self, session: str | None) -> bool:
        """Whether what is in a session exists for this caller."""
        prefix = self.session_prefix
        return prefix is None or (session is not None and session.startswith(prefix))


class DeclaredMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the caller declared about a payload."""

    media_type: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    session: str | None = None
    url: str | None = None
    title: str | None = None
    kind: Kind | None = None
    labels: tuple[str, ...] = ()
    failed: bool = False
    """The provider's result around the payload says that the tool failed."""
    command: str | None = None
    """What was run, or the tool's arguments in short: at most COMMAND_CHARS characters, of any number of lines."""
    compared_to: str | None = None
    """ID of the earlier artifact that this one is compared with; decided when the artifact is created."""

    def following(self, earlier: "DeclaredMetadata") -> "DeclaredMetadata":
        """Returns what is declared of an artifact that `earlier` is stored of, after it was posted again with this.

        The last declaration counts, as a whole. A request that declares none of DECLARED changes nothing, and returns
        `earlier` itself.
        """
        now = self.beside(earlier)
        silent = not any(getattr(self, name) for name in DECLARED)
        return earlier if silent or now == earlier else now

    def beside(self, stored: "DeclaredMetadata") -> "DeclaredMetadata":
        """Returns this with what no repeated request changes: labels and comparison of what is stored."""
        return msgspec.structs.replace(self, labels=stored.labels, compared_to=stored.compared_to)


DECLARED: Final = ("media_type", "tool_name", "url", "title", "kind", "failed", "command")
"""What a repeated request may declare anew; session and tool call ID are part of which artifact it is."""
COMMAND_CHARS: Final = 4_000


class Tokens(Struct, frozen=True):
    """A token count in one encoding. `exact` is false for an estimate, which is shown with `~`."""

    count: int
    exact: bool
    encoding: str = "o200k_base"


class Measure(Struct, frozen=True, kw_only=True):
    """Sizes of the payload's identity representation.

    A line ends with LF; a last piece without LF counts as a line. CR, U+2028 and the like end no line. A
    character starts at every byte that is not a UTF-8 continuation byte, which for valid UTF-8 is a code point.
    """

    size: int
    lines: int
    chars: int
    tokens: Tokens
    sha256: bytes
    utf8: bool
    dropped: int = 0
    """Bytes of the original that were never kept: the middle of an oversized stream taken with `keep_ends`."""
    dropped_at: int = 0
    """Offset in the kept bytes where those are missing; meaningful when `dropped` is not 0."""


class Marker(Struct, frozen=True):
    """Something the payload says of itself, verbatim: an exit code, an original token count, a truncation notice."""

    name: str
    value: str


class Novelty(Struct, frozen=True, array_like=True):
    """How an output differs from an earlier one."""

    new: tuple[tuple[int, float], ...] = ()
    """Where lines begin that are new, with their distance from what was there before, from 0.2 to 1; the farthest."""
    lines: int = 0
    """Lines that none of the earlier output is like."""
    gone: int = 0
    """Lines of the earlier output that none of this one is like."""


class DetectedMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was recognised once, at ingest, by the engine of that day; cards at any budget are cut from it."""

    kind: Kind
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    """Canonical URL, where the payload names one that differs from what the caller said."""
    language: str | None = None
    markers: tuple[Marker, ...] = ()
    shape: tuple[str, ...] = ()
    """Lines that describe the structure, most important first: JSON keys with types, table columns, format."""
    path: str | None = None
    """A JSONPath to the values that a reader is most likely to want next."""
    sections: tuple[str, ...] = ()
    """Titles of parts that can be read by `section`, the largest first."""
    novelty: Novelty | None = None
    """What is new since the artifact that it was compared with. Made once, as `comparison` is."""
    redacted: str = ""
    """What is masked of it, in words; empty where nothing is. See core/redact."""
    comparison: tuple[str, ...] = ()
    """Lines that say what differs from the artifact it was compared with. Made once, when the artifact is created."""

    def beside(self, stored: "DetectedMetadata") -> "DetectedMetadata":
        """Returns this with what no repeated request changes: what was redacted and compared of what is stored."""
        return msgspec.structs.replace(
            self, redacted=stored.redacted, comparison=stored.comparison, novelty=stored.novelty
        )


class EarlierRun(Struct, frozen=True, kw_only=True):
    """The artifact that a new one is compared with, as it is when the new one is created."""

    id: str
    sha256: bytes
    """Of its payload."""
    sample: "PayloadSample"
    lines: int
    survey: bytes | None
    """None: the sample is all of it, or it was stored by a release that made none."""


Placement = Literal["inline", "file", "s3"]


class Blob(Struct, frozen=True, kw_only=True):
    """Stored bytes. Written once under a name that is never used again; shared by artifacts of one namespace."""

    id: str
    placement: Placement
    size: int
    """Bytes of content."""
    stored_size: int
    """Bytes as stored, in the Zstandard Seekable Format."""
    sha256: bytes
    """Of the content."""
    index: bytes
    """A packed FrameIndex."""
    condemned: bool = False
    """Its bytes were found missing or damaged: nothing new points at it, and posting the payload again replaces it."""


class Artifact(Struct, frozen=True, kw_only=True):
    """A stored payload with its metadata."""

    namespace: str
    id: str
    said: DeclaredMetadata
    measure: Measure
    facts: DetectedMetadata
    blob: Blob
    created_at: datetime
    expires_at: datetime | None
    """The moment from which every route answers `gone`. None: pinned, or kept for ever."""
    ttl: int | None
    """Seconds from creation to expiry; None keeps for ever."""
    idle_ttl: int | None
    """Seconds without a read after which it expires; extended in steps, off the request path."""
    pinned: bool = False
    engine: int = ENGINE


class Gone(Struct, frozen=True, kw_only=True):
    """A tombstone: what is left of an artifact that was deleted or has expired."""

    id: str
    reason: Literal["expired", "deleted", "session_deleted", "namespace_deleted", "evicted"]
    at: datetime
    tool_name: str | None = None
    session: str | None = None
    """Where it was looked up: the session that it was in. Otherwise nobody asked."""


class PayloadSample(Struct, frozen=True):
    """The part of a payload that recognising and cutting may look at, whatever the payload's size.

    `head` is the payload's first bytes; when `tail` is empty it is the whole payload. Otherwise `tail` is its last
    bytes, and what lies between is in neither.
    """

    head: bytes
    tail: bytes
    size: int
    masked: tuple[str, ...] = ()
    """Names of the rules, by number, whose fillers are in it in place of secrets; see core/redact. Empty: none are."""

    @property
    def whole(self) -> bool:
        """Whether `head` is the entire payload."""
        return len(self.head) == self.size


SAMPLE_BYTES = 256 * 1024
"""Bytes of head and of tail in a Sample. A payload of up to twice this is sampled whole."""
