"""The central values: artifacts with their declared and detected metadata, blobs, tombstones, and the caller.

Everything here is immutable, and independent of databases and protocols.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from coatcheck.core.rates import Rates
from coatcheck_client.contract.answers import TokenCount

ENGINE = 15
"""Version of the code that recognises kinds and cuts cards. It is stored with each artifact: metadata that an older
version detected is detected again. Within a version, the same input gives the same card."""
_FORMS: Final = 6
"""The first engine that determines the form of a text (`PayloadForm`)."""
UNDESCRIBED: Final = 0
"""Stored in place of ENGINE while no card was cut from a payload: only the metadata that lists show was detected."""


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
"""The scopes that a key may have: to store, to read, to delete and change, to administer."""


class Caller(Struct, frozen=True):
    """A caller and its rights. The namespace is the tenant; every port call names it.

    The defaults describe the caller without a key, who may do everything.
    """

    namespace: str = "default"
    name: str = "local"
    scopes: frozenset[str] = EVERY_SCOPE
    session_prefix: str | None = None
    """Prefix of the sessions that the caller can see; None: the caller sees all sessions, and artifacts without one."""
    key_id: str | None = None
    """ID of the key that was presented; None: the caller needed no key."""
    rates: Rates | None = None
    """The key's own rate limits; None: the key has none, and the configured limits apply."""
    address: str | None = None
    """The network address of a caller without a key; None for an address of this machine, which all local callers
    share."""

    def sees(self, session: str | None) -> bool:
        """Returns whether this caller can see artifacts of a session; None stands for artifacts without a session."""
        prefix = self.session_prefix
        return prefix is None or (session is not None and session.startswith(prefix))


class PageFetch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a page was fetched, and its title, as far as both are known. Values are verbatim."""

    status: int | None = None
    """The HTTP status of the last answer, 100 to 599."""
    final_url: str | None = None
    """The URL to which redirects led; None if it is `url` or unknown."""
    content_type: str | None = None
    """The content type that the server sent. The payload may be a conversion of that content."""
    fetched_at: datetime | None = None
    url: str | None = None
    """The URL that was requested."""
    title: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the server answered with a status other than 2xx, so that the payload is not the page."""
        return self.status is not None and self.status // 100 != 2  # noqa: PLR2004 - RFC 9110 section 15

    def with_requested_url(self, url: str | None) -> "PageFetch":
        """Returns the fetch of a page for which `url` is known to have been requested.

        First, a `final_url` that equals the fetch's own `url` is dropped. Then, if the fetch has a different `url` and
        no `final_url`, its `url` becomes the `final_url`.
        """
        led_to = None if self.final_url == self.url else self.final_url  # equal to an earlier `url`: no redirect
        if url not in {None, self.url}:
            led_to = led_to or self.url
        return msgspec.structs.replace(self, final_url=led_to)


class DeclaredMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The metadata that the caller declared about a payload."""

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
    """The command that was run, or the tool's arguments; shortened to COMMAND_CHARS characters, possibly several
    lines."""
    compared_to: str | None = None
    """ID of the earlier artifact to compare with; decided when the artifact is created."""
    status: int | None = None
    """This field and the next three say how the page was fetched; see PageFetch."""
    final_url: str | None = None
    content_type: str | None = None
    fetched_at: datetime | None = None

    def merged_over(self, earlier: "DeclaredMetadata") -> "DeclaredMetadata":
        """Returns the declaration of an artifact that was stored with `earlier` and posted again with this one.

        The last declaration replaces the earlier one as a whole. A declaration that sets none of the fields DECLARED
        changes nothing: in that case, `earlier` itself is returned.
        """
        now = self.keeping_first_time_fields(earlier)
        silent = not any(getattr(self, name) for name in DECLARED)
        return earlier if silent or now == earlier else now

    def keeping_first_time_fields(self, earlier: "DeclaredMetadata") -> "DeclaredMetadata":
        """Returns this declaration with the fields of `earlier` that a repeated request never changes.

        They are `labels` and `compared_to`.
        """
        return msgspec.structs.replace(self, labels=earlier.labels, compared_to=earlier.compared_to)


FETCH: Final = ("status", "final_url", "content_type", "fetched_at")
"""Fields that DeclaredMetadata and PageFetch have in common."""
DECLARED: Final = ("media_type", "tool_name", "url", "title", "kind", "failed", "command", *FETCH)
"""Fields that a repeated request may declare anew. Session and tool call ID are part of the artifact's identity."""
COMMAND_CHARS: Final = 4_000
"""Maximum characters of a stored command. Chosen, not measured: a longer command is a script, whose beginning is enough
to recognise it."""


class Measure(Struct, frozen=True, kw_only=True):
    """Sizes of the payload, without content codings.

    A line ends with LF; text behind the last LF counts as a line. CR, U+2028 and the like do not end a line. Every byte
    that is not a UTF-8 continuation byte counts as a character, so that characters of valid UTF-8 are code points.
    """

    size: int
    """Number of bytes that are stored."""
    lines: int
    chars: int
    tokens: TokenCount
    sha256: bytes
    """Digest of the stored bytes, from which the artifact's ID is derived."""
    utf8: bool
    """Whether the stored bytes are valid UTF-8 as a whole."""
    dropped: int = 0
    """Number of bytes that were never stored: the middle of an oversized stream that was stored with `keep_ends`."""
    dropped_at: int = 0
    """Offset in the stored bytes at which the dropped bytes are missing; meaningless if `dropped` is 0."""


class Marker(Struct, frozen=True):
    """A payload's statement about itself, verbatim: an exit code, an original token count, a truncation notice."""

    name: str
    value: str


class Novelty(Struct, frozen=True, array_like=True):
    """How an output differs from an earlier one."""

    new: tuple[tuple[int, float], ...] = ()
    """Offsets at which new lines begin, each with the line's distance from the earlier output, from 0.2 to 1. Only the
    lines with the largest distances are listed."""
    lines: int = 0
    """Number of lines that resemble no line of the earlier output."""
    gone: int = 0
    """Number of lines of the earlier output that resemble no line of this output."""


class GivenCard(Struct, frozen=True, array_like=True):
    """The budget and the query for which the card in a receipt was cut."""

    budget: int
    """Token budget of the card."""
    query: str = ""
    """A digest of the query; empty if there was none."""

    def covers(self, other: "GivenCard") -> bool:
        """Returns whether a reader of this card does not need the other one.

        The other card has then no larger budget, and was cut for the same query or for none.
        """
        return other.budget <= self.budget and other.query in {"", self.query}


class RepeatedCard(Struct, frozen=True, array_like=True):
    """A card that a session received before, for the same bytes under another tool call ID."""

    id: str
    """ID of the artifact whose card it was."""
    card: GivenCard


class Charset(Struct, frozen=True, omit_defaults=True):
    """The charset by which bytes are decoded."""

    name: str
    """Python's name of the codec."""
    rest: str = ""
    """Python's name of the codec for lines that the codec `name` cannot decode; empty: U+FFFD replaces their invalid
    bytes."""
    is_guess: bool = False
    """Whether the charset is only a guess: neither the bytes nor a declaration prove it."""
    mark: int = 0
    """Length of the byte order mark in bytes; the mark is not part of the text."""


class PayloadForm(Struct, frozen=True, omit_defaults=True):
    """How a payload's text is obtained from its bytes. The defaults describe UTF-8 with LF."""

    charset: Charset | None = None
    """The charset of the bytes; None: UTF-8."""
    ends_with_cr: bool = False
    """Whether CR alone ends a line."""
    is_envelope: bool = False
    """Whether the payload is an envelope, such as a JSON object, and the text is taken out of it."""
    nuls: Literal["", "dropped", "line ends"] = ""
    """What becomes of NUL characters in the text: they are dropped, or become line ends; empty: there are none."""
    url: str | None = None
    """The URL that the JSON object gives beside the page; None: the object has none, or there is no object."""


class LineColumn(Struct, frozen=True, array_like=True):
    """A field beside the message: a member of JSON lines, or a column of a table."""

    name: str
    type: Literal["time", "id", "level", "value"]
    """Type of the values. Rendering hides times, words of a column of identifiers, and levels up to `notice`. It shows
    all other values of such columns, and values that differ from `usual`."""
    usual: str = ""
    """The most frequent value; empty if the column is not of the type `value`."""


class LineFields(Struct, frozen=True, omit_defaults=True):
    """The fields that many lines share beside their messages. Rendering hides them; positions remain the payload's."""

    names: tuple[str, ...]
    """The fields in words. If there are no `columns`, these are the types of the columns in front of the message."""
    has_labels: bool = False
    """Whether lines begin with a label, in front of these fields. Rendering shows the label."""
    member: str = ""
    """In JSON lines and logfmt: the member that is the message; empty in other text."""
    columns: tuple[LineColumn, ...] = ()
    """In JSON lines and logfmt: the members beside the message. In a table: the columns before the message."""
    inside: tuple[str, ...] = ()
    """Types of the columns at the beginning of the message itself, in JSON lines, logfmt and tables."""
    delimiter: str = ""
    """The character between the columns of a table; `=` in logfmt; empty in other text."""


class DetectedMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata that the service detects in a payload, once, at ingest. Cards of every budget are made from it."""

    kind: Kind
    form: PayloadForm | None = None
    """How to obtain the text that this metadata describes; None: the payload's bytes are the text."""
    fields: LineFields | None = None
    """The fields that rendering leaves out of each line; None: there are none."""
    json_at: tuple[int, int] | None = None
    """Offsets at which a JSON document begins and ends in a text that also contains something else; None: the text is
    no such mixture."""
    media_type: str | None = None
    title: str | None = None
    url: str | None = None
    """The page's URL as the payload states it, in the page or beside it; None if it states none, or if it states the
    declared URL."""
    fetch: PageFetch | None = None
    """How the page was fetched, if the payload says so: in a fetcher's JSON, or in lines above the page."""
    language: str | None = None
    markers: tuple[Marker, ...] = ()
    shape: tuple[str, ...] = ()
    """Lines that describe the structure, most important first: JSON keys with types, table columns, format."""
    path: str | None = None
    """A JSONPath to the values that a reader most likely wants next. It is inert."""
    sections: tuple[str, ...] = ()
    """Titles of parts that can be read by `section`, largest first."""
    section_lines: tuple[tuple[int, int], ...] = ()
    """For each of `sections`: its first line, and its number of lines."""
    document: bool = False
    """Whether the text is a document with headings, so that its end is hardly the outcome of a program."""
    novelty: Novelty | None = None
    """The lines that are new since the artifact with which the payload was compared; None: nothing was compared.
    Determined once, like `comparison`."""
    given: GivenCard | None = None
    """The card in the first receipt, to which later receipts of the session may refer; None: that receipt had no card
    of its own. Determined once, like `comparison`."""
    repeats: RepeatedCard | None = None
    """The earlier card that the first receipt referred to instead of having one. Determined once, like `comparison`."""
    redacted: str = ""
    """The masked secrets in words; empty if nothing is masked. See core/redact."""
    comparison: tuple[str, ...] = ()
    """Lines that say how the payload differs from the artifact with which it was compared. Determined once, when the
    artifact is created."""

    def keeping_first_time_fields(self, earlier: "DetectedMetadata") -> "DetectedMetadata":
        """Returns this metadata with the fields of `earlier` that were determined when the artifact was created.

        A repeated request never changes these fields. If this metadata has no `fetch`, that of `earlier` is kept.
        """
        fixed_fields = {
            name: getattr(earlier, name) for name in ("redacted", "comparison", "novelty", "given", "repeats")
        }
        return msgspec.structs.replace(self, fetch=self.fetch or earlier.fetch, **fixed_fields)

    def of_form(self, form: PayloadForm | None, declared: DeclaredMetadata) -> "DetectedMetadata":
        """Returns this metadata for a text with `form`, and with the URL that the form gives beside a page, if any."""
        url = form.url if form is not None and form.url and form.url != declared.url else self.url
        return msgspec.structs.replace(self, form=form, url=url).of_fetch(self.fetch, declared)

    def of_fetch(self, fetch: PageFetch | None, declared: DeclaredMetadata) -> "DetectedMetadata":
        """Returns this metadata for a page that was fetched as `fetch` says.

        If this metadata has no title, it gets that of the fetch. If it has no URL and none was declared, it gets the
        URL of the fetch. A declared URL is the requested URL; see `PageFetch.with_requested_url`.
        """
        if fetch is None:
            return self
        fetch, url = fetch.with_requested_url(declared.url), fetch.url if declared.url is None else None
        return msgspec.structs.replace(self, fetch=fetch, title=self.title or fetch.title, url=self.url or url)

    def fetch_of(self, declared: DeclaredMetadata) -> PageFetch:
        """Returns how the page was fetched: the declared values, and those of the payload where none is declared."""
        fetch = self.fetch or PageFetch()
        values: dict[str, Any] = {name: value for name in FETCH if (value := getattr(declared, name)) is not None}
        names = {"url": declared.url or self.url, "title": declared.title or self.title}
        return msgspec.structs.replace(fetch, **names, **values)


class EarlierRun(Struct, frozen=True, kw_only=True):
    """The artifact with which a new artifact is compared, as it was when the new artifact was created."""

    id: str
    sha256: bytes
    """Digest of the artifact's payload."""
    sample: "PayloadSample"
    lines: int
    """Number of lines in the artifact's whole payload."""
    survey: bytes | None
    """The survey of the artifact's payload; None: the sample is the whole payload, or the release that stored it made
    no surveys."""
    shown: "PayloadSample | None" = None
    """The sample with its secrets masked; None: nothing is masked in it."""


Placement = Literal["inline", "file", "s3"]


class Blob(Struct, frozen=True, kw_only=True):
    """Stored bytes, written once under a name that is never reused, and shared by the artifacts of a namespace."""

    id: str
    placement: Placement
    size: int
    """Size of the content in bytes."""
    stored_size: int
    """Size as stored, in bytes, in the Zstandard Seekable Format."""
    sha256: bytes
    """Digest of the content."""
    index: bytes
    """A packed FrameIndex."""
    condemned: bool = False
    """Whether the blob is marked corrupt: its bytes are missing or damaged. No new artifact points at such a blob, and
    posting the payload again replaces it."""


class Artifact(Struct, frozen=True, kw_only=True, rename={"declared": "said"}):
    """A stored payload with its metadata."""

    namespace: str
    id: str
    declared: DeclaredMetadata
    measure: Measure
    facts: DetectedMetadata
    """The detected metadata, as the engine with the number `engine` detected it."""
    blob: Blob
    created_at: datetime
    expires_at: datetime | None
    """The moment from which every route answers `gone`. None: pinned, or kept forever."""
    ttl: int | None
    """Seconds from creation to expiry; None: forever."""
    idle_ttl: int | None
    """Seconds without a read after which the artifact expires; None: reads do not matter. Reads extend `expires_at` in
    steps, off the request path."""
    pinned: bool = False
    """Whether expiry is suspended."""
    engine: int = ENGINE
    """The engine that detected `facts`. Facts of an older engine are detected again."""

    @property
    def lacks_form(self) -> bool:
        """Whether the artifact was stored by an engine that did not determine the form of a text."""
        return self.engine < _FORMS and self.facts.form is None


MAX_KEPT_TEXT: Final = 32 * 1024
"""Maximum characters of a card's text that are stored: about 8,192 tokens of ordinary text, the largest budget."""


class ReceiptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text that a model received in place of a payload, in the answer to the request that stored the payload."""

    engine: int
    """The engine that made the text."""
    sha256: bytes
    """Digest of the text in UTF-8; empty if no model received a text for this payload, as for a search response."""
    tokens: int
    budget: int | None = None
    """Token budget of the card; None: the text was the payload itself, as far as a model may see it."""
    query: str | None = None
    """The query for which the card was cut, or the search query; None: there was none."""
    tools: bool = True
    """Whether the card may name the declared tool."""
    text: str | None = None
    """The card's text, if a policy keeps it; otherwise None."""


class Gone(Struct, frozen=True, kw_only=True):
    """A tombstone: what remains of an artifact that was deleted or has expired."""

    id: str
    reason: Literal["expired", "deleted", "session_deleted", "namespace_deleted", "evicted"]
    at: datetime
    """When the artifact was removed."""
    tool_name: str | None = None
    session: str | None = None
    """The artifact's former session; None if it had none, or the session was not read."""


class PayloadSample(Struct, frozen=True):
    """The part of a payload from which its metadata is detected and its cards are cut, whatever the payload's size.

    If `tail` is empty, `head` is the whole payload. Otherwise `head` is the payload's first bytes and `tail` its last
    bytes; the bytes between them are in neither.
    """

    head: bytes
    tail: bytes
    size: int
    masked: tuple[str, ...] = ()
    """Names of redaction rules. Fillers replace the secrets in the sample, and each filler has the index of its rule in
    this tuple; see core/redact. Empty: nothing is masked."""

    @property
    def whole(self) -> bool:
        """Whether `head` is the entire payload."""
        return len(self.head) == self.size


SAMPLE_BYTES = 256 * 1024
"""Size of a sample's head, and of its tail, in bytes. The sample of a payload of up to twice this size is the whole
payload."""
