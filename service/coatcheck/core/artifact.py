"""The central values: what was handed over, what is known about it, where its bytes are.

Everything here is immutable, and independent of databases and protocols.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.rates import Rates
from coatcheck_client.contract.answers import TokenCount

ENGINE = 13
"""Version of the code that recognises kinds and cuts cards. Kept with each artifact: what an older version recognised
is recognised again. Within a version, the same input gives the same card."""
_FORMS: Final = 6
"""The first engine that finds the forms of texts."""
UNDESCRIBED: Final = 0
"""Stands in place of ENGINE: only what lists show was recognised of the payload, since no card was cut from it yet."""


class Kind(StrEnum):
    """What a payload is. Decides what its card shows."""

    COMMAND_OUTPUT = "command_output"
    """What a program printed: a build, a test run, a listing."""
    LOG = "log"
    """Lines with times or levels, of a long-running program."""
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
    """A picture; its card states format and size."""
    DOCUMENT = "document"
    """A document written as text: mail, a mailbox, a saved page, rich text."""
    BINARY = "binary"
    """Anything else that is not text: archives, office documents, databases, programs."""
    TEXT = "text"
    """Prose, and text of no other kind."""


EVERY_SCOPE: Final = frozenset({"ingest", "read", "delete", "admin"})
"""What a key may allow: to store, to read, to delete and change, to administer."""


class Caller(Struct, frozen=True):
    """A caller and its rights. The namespace is the tenant; every port call names it.

    The defaults describe the caller without a key, who may do everything.
    """

    namespace: str = "default"
    name: str = "local"
    scopes: frozenset[str] = EVERY_SCOPE
    session_prefix: str | None = None
    """Prefix of the sessions that exist for the caller; None: all sessions, and what is in none."""
    key_id: str | None = None
    """The key that was presented; None: none was needed."""
    rates: Rates | None = None
    """The key's own rate limits; None: it has none."""
    address: str | None = None
    """The network address of a caller without a key; None: it is this machine's own, and tells nobody apart."""

    def sees(self, session: str | None) -> bool:
        """Returns whether what is in a session exists for this caller."""
        prefix = self.session_prefix
        return prefix is None or (session is not None and session.startswith(prefix))


class PageFetch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a page was fetched, and what it is called, as far as it is known. Values are verbatim."""

    status: int | None = None
    """The HTTP status of the last answer, 100 to 599."""
    final_url: str | None = None
    """Where redirects led, if not to `url`."""
    content_type: str | None = None
    """What the server called the page's content, of which the payload may be a conversion."""
    fetched_at: datetime | None = None
    url: str | None = None
    """The address that was asked for."""
    title: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the server answered with something other than the page: a status that is not 2xx."""
        return self.status is not None and self.status // 100 != 2  # noqa: PLR2004 - RFC 9110 section 15

    def with_requested_url(self, url: str | None) -> "PageFetch":
        """Returns this for a page of which is known that `url` was asked for: the one stated is then where it led."""
        led_to = None if self.final_url == self.url else self.final_url  # equal: from an earlier `url`
        if url not in {None, self.url}:
            led_to = led_to or self.url
        return msgspec.structs.replace(self, final_url=led_to)


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
    """Whether the provider's result around the payload says that the tool failed."""
    command: str | None = None
    """What was run, or the tool's arguments, shortened: at most COMMAND_CHARS characters, possibly of several lines."""
    compared_to: str | None = None
    """ID of the earlier artifact to compare with; decided when the artifact is created."""
    status: int | None = None
    """This and the next three: how the page was fetched, as in PageFetch."""
    final_url: str | None = None
    content_type: str | None = None
    fetched_at: datetime | None = None

    def merged_over(self, earlier: "DeclaredMetadata") -> "DeclaredMetadata":
        """Returns the declaration of an artifact stored with `earlier`, after it was posted again with this one.

        The last declaration counts, as a whole. One that declares none of DECLARED changes nothing, and returns
        `earlier` itself.
        """
        now = self.keeping_first_time_fields(earlier)
        silent = not any(getattr(self, name) for name in DECLARED)
        return earlier if silent or now == earlier else now

    def keeping_first_time_fields(self, earlier: "DeclaredMetadata") -> "DeclaredMetadata":
        """Returns this with what a repeated request never changes: labels and comparison of `earlier`."""
        return msgspec.structs.replace(self, labels=earlier.labels, compared_to=earlier.compared_to)


FETCH: Final = ("status", "final_url", "content_type", "fetched_at")
"""What DeclaredMetadata and PageFetch both have."""
DECLARED: Final = ("media_type", "tool_name", "url", "title", "kind", "failed", "command", *FETCH)
"""What a repeated request may declare anew; session and tool call ID are part of the artifact's identity."""
COMMAND_CHARS: Final = 4_000
"""Maximum characters of a kept command. Chosen, not measured: a longer one is a script, whose beginning names it."""


class Measure(Struct, frozen=True, kw_only=True):
    """Sizes of the payload, without content codings.

    A line ends with LF; a last piece without LF counts as a line. CR, U+2028 and the like do not end a line. A
    character starts at every byte that is not a UTF-8 continuation byte, which for valid UTF-8 is a code point.
    """

    size: int
    """Bytes that were kept."""
    lines: int
    chars: int
    tokens: TokenCount
    sha256: bytes
    """Digest of these bytes, from which the artifact's ID is derived."""
    utf8: bool
    """Whether all of them are valid UTF-8."""
    dropped: int = 0
    """Bytes of the original that were never kept: the middle of an oversized stream stored with `keep_ends`."""
    dropped_at: int = 0
    """Offset in the kept bytes where those are missing; meaningful if `dropped` is not 0."""


class Marker(Struct, frozen=True):
    """A payload's statement about itself, verbatim: an exit code, an original token count, a truncation notice."""

    name: str
    value: str


class Novelty(Struct, frozen=True, array_like=True):
    """How an output differs from an earlier one."""

    new: tuple[tuple[int, float], ...] = ()
    """Where new lines begin, with their distance from what was there before, from 0.2 to 1; those with the largest."""
    lines: int = 0
    """Lines that resemble none of the earlier output."""
    gone: int = 0
    """Lines of the earlier output that resemble none of this one."""


class GivenCard(Struct, frozen=True, array_like=True):
    """What the card in a receipt was cut for."""

    budget: int
    """In tokens."""
    query: str = ""
    """A digest of the query; empty if there was none."""

    def covers(self, other: "GivenCard") -> bool:
        """Returns whether a reader of this card has no use for the other one: it is no larger and no other answer."""
        return other.budget <= self.budget and other.query in {"", self.query}


class RepeatedCard(Struct, frozen=True, array_like=True):
    """A card that a session was given before, for the same bytes under another tool call ID."""

    id: str
    """The artifact that it was a card of."""
    card: GivenCard


class Charset(Struct, frozen=True, omit_defaults=True):
    """How bytes are decoded."""

    name: str
    """Python's name of the codec."""
    rest: str = ""
    """Python's name of the codec for lines that this one does not decode; empty: their bytes are replaced."""
    is_guess: bool = False
    """Whether neither the bytes nor a declaration prove it."""
    mark: int = 0
    """Bytes of the byte order mark, which is no text."""


class PayloadForm(Struct, frozen=True, omit_defaults=True):
    """What lies between a payload's bytes and its text. The defaults are those of UTF-8 with LF."""

    charset: Charset | None = None
    """None: UTF-8."""
    ends_with_cr: bool = False
    """Whether CR alone ends a line."""
    is_envelope: bool = False
    """Whether the text is in a JSON object around it."""
    nuls: Literal["", "dropped", "line ends"] = ""
    """What NULs between the characters of a text become."""
    url: str | None = None
    """The URL that stands beside a page in that object."""


class LineColumn(Struct, frozen=True, array_like=True):
    """A member of JSON lines, or a column of a table, beside the message."""

    name: str
    type: Literal["time", "id", "level", "value"]
    """Times and identifiers are not shown; of levels, warnings and worse; of values, those that are not `usual`."""
    usual: str = ""


class LineFields(Struct, frozen=True, omit_defaults=True):
    """The columns that many lines share beside what they say. They are not shown; positions stay the payload's."""

    names: tuple[str, ...]
    """What they are, in words; without `columns`, the types of what stands in front of the message."""
    has_labels: bool = False
    """Whether a label in front of these stays."""
    member: str = ""
    """In JSON lines: the member that is the message."""
    columns: tuple[LineColumn, ...] = ()
    """In JSON lines, the members beside the message; in a table, the columns before it."""
    inside: tuple[str, ...] = ()
    """Types of the columns in front of that message."""
    delimiter: str = ""
    """Between the columns of a table."""


class DetectedMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was recognised once, at ingest, by the engine of that time; cards at any budget are made from it."""

    kind: Kind
    form: PayloadForm | None = None
    """How the text is made that kind and facts are those of; None: the payload's bytes are its text."""
    fields: LineFields | None = None
    """What rendering leaves out of each line; None: nothing."""
    json_at: tuple[int, int] | None = None
    """Where the JSON document begins and ends in a text that has something else around it."""
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    """The page's URL, if the payload names one that differs from the declared one: beside the page, or in it."""
    fetch: PageFetch | None = None
    """How the page was fetched, if the payload says it: in a fetcher's JSON, or in lines above the page."""
    language: str | None = None
    markers: tuple[Marker, ...] = ()
    shape: tuple[str, ...] = ()
    """Lines that describe the structure, most important first: JSON keys with types, table columns, format."""
    path: str | None = None
    """A JSONPath to the values that a reader most likely wants next."""
    sections: tuple[str, ...] = ()
    """Titles of parts that can be read by `section`, largest first."""
    section_lines: tuple[tuple[int, int], ...] = ()
    """The first line of each of these, and its number of lines."""
    document: bool = False
    """Whether it has headings, so that what it says at its end is hardly how a run ended."""
    novelty: Novelty | None = None
    """What is new since the artifact that it was compared with. Determined once, like `comparison`."""
    given: GivenCard | None = None
    """The card that the first receipt had, which later ones of the session may refer to; None: it had none of its own.
    Determined once, like `comparison`."""
    repeats: RepeatedCard | None = None
    """The earlier card that the first receipt referred to instead of having one. Determined once, like `comparison`."""
    redacted: str = ""
    """What is masked in it, in words; empty if nothing is. See core/redact."""
    comparison: tuple[str, ...] = ()
    """Lines that say how it differs from the artifact it was compared with. Determined once, when the artifact is
    created."""

    def keeping_first_time_fields(self, earlier: "DetectedMetadata") -> "DetectedMetadata":
        """Returns this with what a repeated request never changes: what `earlier` determined when it was created."""
        fixed_fields = {
            name: getattr(earlier, name) for name in ("redacted", "comparison", "novelty", "given", "repeats")
        }
        return msgspec.structs.replace(self, fetch=self.fetch or earlier.fetch, **fixed_fields)

    def of_form(self, form: PayloadForm | None, declared: DeclaredMetadata) -> "DetectedMetadata":
        """Returns this as facts of a text of that form, with the URL that stands beside a page."""
        url = form.url if form is not None and form.url and form.url != declared.url else self.url
        return msgspec.structs.replace(self, form=form, url=url).of_fetch(self.fetch, declared)

    def of_fetch(self, fetch: PageFetch | None, declared: DeclaredMetadata) -> "DetectedMetadata":
        """Returns this as facts of a page that was fetched so, which may have the only title and URL of it.

        Where another URL was declared, that is the one that was asked for, and the payload's own is where it led.
        """
        if fetch is None:
            return self
        fetch, url = fetch.with_requested_url(declared.url), fetch.url if declared.url is None else None
        return msgspec.structs.replace(self, fetch=fetch, title=self.title or fetch.title, url=self.url or url)

    def fetch_of(self, declared: DeclaredMetadata) -> PageFetch:
        """Returns how the page was fetched: what was declared of it, and what the payload says beyond that."""
        fetch = self.fetch or PageFetch()
        values: dict[str, Any] = {name: value for name in FETCH if (value := getattr(declared, name)) is not None}
        names = {"url": declared.url or self.url, "title": declared.title or self.title}
        return msgspec.structs.replace(fetch, **names, **values)


class EarlierRun(Struct, frozen=True, kw_only=True):
    """The artifact that a new one is compared with, as it was when the new one was created."""

    id: str
    sha256: bytes
    """Digest of its payload."""
    sample: "PayloadSample"
    lines: int
    """Number of lines in its whole payload."""
    survey: bytes | None
    """None: the sample is all of it, or its release made no survey."""
    shown: "PayloadSample | None" = None
    """The sample with its secrets masked; None: none are."""


Placement = Literal["inline", "file", "s3"]


class Blob(Struct, frozen=True, kw_only=True):
    """Stored bytes. Written once under a name that is never reused; shared by artifacts of one namespace."""

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
    """Whether its bytes were found missing or damaged: nothing new points at it, and posting the payload again replaces
    it."""


class Artifact(Struct, frozen=True, kw_only=True, rename={"declared": "said"}):
    """A stored payload with its metadata."""

    namespace: str
    id: str
    declared: DeclaredMetadata
    measure: Measure
    facts: DetectedMetadata
    """What `engine` recognised."""
    blob: Blob
    created_at: datetime
    expires_at: datetime | None
    """The moment from which every route answers `gone`. None: pinned, or kept forever."""
    ttl: int | None
    """Seconds from creation to expiry; None: forever."""
    idle_ttl: int | None
    """Seconds without a read after which it expires; extended in steps, off the request path."""
    pinned: bool = False
    """Whether it is kept, although it would expire."""
    engine: int = ENGINE
    """The engine that recognised the facts: an older one's are recognised again."""

    @property
    def lacks_form(self) -> bool:
        """Whether its text may have a form that nobody looked for when it was stored."""
        return self.engine < _FORMS and self.facts.form is None


MAX_KEPT_TEXT: Final = 32 * 1024
"""Most characters of a card's text that are kept: those of 8,192 tokens, the largest budget, of ordinary text."""


class ReceiptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the answer to the request that stored a payload put in its place, for a model to read."""

    engine: int
    """The engine that made it."""
    sha256: bytes
    """Digest of the text, in UTF-8; empty if no model got one of this payload, as of a search response."""
    tokens: int
    budget: int | None = None
    """Token budget of the card; None: the text was the payload itself, as far as a model may see it."""
    query: str | None = None
    """What the card was cut for, or what was searched for."""
    tools: bool = True
    """Whether the card may name the declared tool."""
    text: str | None = None
    """The card's text, if a policy keeps it."""


class Gone(Struct, frozen=True, kw_only=True):
    """A tombstone: what remains of an artifact that was deleted or has expired."""

    id: str
    reason: Literal["expired", "deleted", "session_deleted", "namespace_deleted", "evicted"]
    at: datetime
    """When it was removed."""
    tool_name: str | None = None
    session: str | None = None
    """The artifact's former session, if it was looked up."""


class PayloadSample(Struct, frozen=True):
    """The part of a payload that recognising and cutting may use, whatever the payload's size.

    `head` is the payload's first bytes, or all of it if `tail` is empty. Otherwise `tail` is its last bytes, and what
    is in between is in neither.
    """

    head: bytes
    tail: bytes
    size: int
    masked: tuple[str, ...] = ()
    """Names of the rules, by number, whose fillers replace secrets in it; see core/redact. Empty: there are none."""

    @property
    def whole(self) -> bool:
        """Whether `head` is the entire payload."""
        return len(self.head) == self.size


SAMPLE_BYTES = 256 * 1024
"""Bytes of head and of tail in a sample. A payload of up to twice this is sampled whole."""
