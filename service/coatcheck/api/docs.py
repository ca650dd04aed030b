"""What the OpenAPI document says of each route beside what its code says: words, answers, examples.

Values only. A handler names its entry in `opt["doc"]`; a route without one does not start.
"""

from typing import Final

from msgspec import Struct

from coatcheck.api import fields, views
from coatcheck.core.errors import Code
from coatcheck.usecases.json_path import JsonAnswer
from coatcheck.usecases.outline import OutlineAnswer
from coatcheck.usecases.read import ReadAnswer
from coatcheck.usecases.search import SearchAnswer
from coatcheck.usecases.search_results import SearchResultsAnswer
from coatcheck.usecases.windows import WindowsAnswer

JSON: Final = "application/json"


class Answer(Struct, frozen=True, kw_only=True):
    """A response that is no problem."""

    status: int
    description: str
    model: type[Struct] | None = None
    """Schema of its JSON; None: see `schema` and `other`."""
    schema: str | None = None
    """Name of a schema that no type stands for."""
    other: tuple[str, ...] = ()
    """Media types of answers that are no JSON: text, or bytes where it is no text type."""
    headers: tuple[str, ...] = ()


class Doc(Struct, frozen=True, kw_only=True):
    """One operation."""

    operation_id: str
    tag: str
    summary: str
    description: str
    query: type[Struct] = fields.NoAsk
    headers: tuple[str, ...] = ()
    """Names of shared header parameters."""
    body: tuple[tuple[str, str], ...] = ()
    """Media types and the names of their request schemas."""
    answers: tuple[Answer, ...]
    problems: tuple[Code, ...] = ()


TAGS: Final = {
    "Administration": "Keys, namespaces, and what is decided for all payloads. Needs the scope `admin`.",
    "Artifacts": "Look artifacts up, change how long they are kept, delete them.",
    "Contexts": "What a model is sent: made smaller, measured, accounted for.",
    "Hooks": "What hosts of agents call by themselves after each tool call.",
    "Ingest": "Hand over payloads; get back what the model should read instead.",
    "Reading": "Read further: bytes, parts, matches.",
    "Searching": "Web searches within a budget: what to read of a response, what to persist, what is quoted truly.",
    "Service": "Health and description of the service.",
    "Tools": "The tool that a model reads further with: how to declare it, and what a call of it answers.",
}

BODY = (
    Code.UNSUPPORTED_MEDIA_TYPE,
    Code.UNSUPPORTED_ENCODING,
    Code.CORRUPT_ENCODING,
    Code.DECOMPRESSION_LIMIT,
    Code.INVALID_DIGEST,
    Code.DIGEST_MISMATCH,
    Code.TRUNCATED_BODY,
    Code.BODY_TOO_LARGE,
)
_INGEST = (
    Code.PAYLOAD_TOO_LARGE,
    Code.INVALID_IDEMPOTENCY_KEY,
    Code.IDEMPOTENCY_KEY_REUSED,
    Code.ARTIFACT_GONE,
    Code.UPLOAD_FENCED,
    Code.QUOTA_EXCEEDED,
    Code.NAMESPACE_DELETING,
)
_ONE = (Code.INVALID_ARTIFACT_ID, Code.ARTIFACT_NOT_FOUND, Code.ARTIFACT_GONE)
CODED = ("Content-Encoding", "Content-Digest", "Repr-Digest")
_RECEIPTS = (
    Answer(status=201, description="Stored.", model=views.ReceiptView, headers=("Location",)),
    Answer(
        status=200,
        description="This very artifact was there already; what was said of it first stays.",
        model=views.ReceiptView,
        headers=("Location",),
    ),
    Answer(
        status=202,
        description=(
            "Storage did not take it: `stored` is false and a warning says why. The text is good to use, and says "
            "that the payload cannot be read back. It may be stored later, from memory, and counts as stored then only."
        ),
        model=views.ReceiptView,
        headers=("Location",),
    ),
)

STORE: Final = Doc(
    operation_id="storeArtifact",
    tag="Ingest",
    summary="Store a payload",
    description=(
        "Stores the raw output of a tool, a search or a page fetch, and answers with exactly what to put into the "
        "tool result: the payload itself when it is small, otherwise an evidence card.\n\n"
        "The same payload for the same tool call in the same session is the same artifact, with the same ID and the "
        "same card. In a form, the payload is the part with a file name, or named `file` or `content`; `oversize` "
        "must come before it, the other fields may follow it; a file name is the title where there is no other.\n\n"
        "A list of parts, or a provider's whole tool result, becomes one payload. One part of text or of bytes is "
        "that text or those bytes. Several parts of plain text are joined in order, with one line feed between two "
        "of which the first does not end in one. Anything else is kept as a JSON array of the parts, with sorted "
        "keys and without `cache_control` and `prompt_cache_breakpoint`; an object in no known shape is kept as "
        "that object. Whether the result says that the tool failed is kept, too. Halves of surrogate pairs, which no "
        "encoding can hold, become U+FFFD, with the warning `lone_surrogates_replaced`."
    ),
    headers=("Idempotency-Key", *CODED),
    body=((JSON, "StoreRequest"), ("multipart/form-data", "StoreForm")),
    answers=_RECEIPTS,
    problems=(*BODY, *_INGEST, Code.INVALID_JSON, Code.INVALID_CONTENT),
)
STORE_RAW: Final = Doc(
    operation_id="storeRawArtifact",
    tag="Ingest",
    summary="Store the body as it is",
    description=(
        "The body is the payload, streamed; its Content-Type is the media type (`application/x-www-form-urlencoded`, "
        "which curl says of everything, counts as none). `curl --data-binary @build.log "
        "'…/v1/artifacts/raw?tool_name=make'` works. A stream over the limit is refused, or keeps its two ends with "
        "`oversize=keep_ends`."
    ),
    query=fields.RawAsk,
    headers=("Idempotency-Key", *CODED),
    body=(("application/octet-stream", "Bytes"),),
    answers=_RECEIPTS,
    problems=(*(code for code in BODY if code not in {Code.UNSUPPORTED_MEDIA_TYPE, Code.BODY_TOO_LARGE}), *_INGEST),
)
STORE_BATCH: Final = Doc(
    operation_id="storeArtifacts",
    tag="Ingest",
    summary="Store many payloads",
    description=(
        "Each item is the body of a single request and gets its own receipt or its own problem, in the order of the "
        "items. The Idempotency-Key of item n is the given key, `#` and n, counted from 0."
    ),
    headers=("Idempotency-Key", *CODED),
    body=((JSON, "BatchRequest"),),
    answers=(Answer(status=200, description="One result for each item.", model=views.BatchView),),
    problems=(*BODY, Code.INVALID_IDEMPOTENCY_KEY, Code.INVALID_JSON),
)
LIST: Final = Doc(
    operation_id="listArtifacts",
    tag="Artifacts",
    summary="List artifacts",
    description="Live artifacts, newest first; all given conditions hold, and with `q` all of its words are said. What "
    "was stored before the request is found, unless the answer says `partial`. An unknown parameter is an error.",
    query=fields.ListAsk,
    answers=(Answer(status=200, description="A page.", model=views.ListView),),
    problems=(Code.INVALID_CURSOR, Code.OVERLOADED, Code.INTEGRITY),
)
GET: Final = Doc(
    operation_id="getArtifact",
    tag="Artifacts",
    summary="Look an artifact up",
    description="Its metadata and its card, byte for byte the one that ingest answered at the default budget.",
    answers=(Answer(status=200, description="Metadata and card.", model=views.DescribedView),),
    problems=(*_ONE, Code.INTEGRITY),
)
PATCH: Final = Doc(
    operation_id="changeArtifact",
    tag="Artifacts",
    summary="Change how long it is kept, its pin, its labels",
    description="What is left out stays as it is. A new `ttl` counts from creation.",
    body=((JSON, "PatchRequest"), ("application/merge-patch+json", "PatchRequest")),
    headers=CODED,
    answers=(Answer(status=200, description="The artifact as it is now.", model=views.ArtifactView),),
    problems=(*_ONE, *BODY, Code.INVALID_JSON),
)
DELETE: Final = Doc(
    operation_id="deleteArtifact",
    tag="Artifacts",
    summary="Delete an artifact",
    description="From now on every route answers that it is gone; its bytes are removed a little later.",
    answers=(Answer(status=204, description="Deleted."),),
    problems=(*_ONE, Code.HELD),
)
DELETE_SESSION: Final = Doc(
    operation_id="deleteSession",
    tag="Artifacts",
    summary="Delete a session",
    description=(
        "Deletes all artifacts of the session. One that nobody has used has none. Where a hold covers the session, "
        "nothing is deleted; where holds cover some of its artifacts, all others are, and `deleted` of the problem "
        "says how many."
    ),
    answers=(Answer(status=200, description="Deleted.", model=views.DeletedView),),
    problems=(Code.HELD,),
)
CARD: Final = Doc(
    operation_id="getCard",
    tag="Reading",
    summary="Cut the card again",
    description="At another budget, or for another query. As JSON, or as the text alone with `Accept: text/plain`.",
    query=fields.CardAsk,
    answers=(Answer(status=200, description="The card.", model=views.CardView, other=("text/plain",)),),
    problems=(*_ONE, Code.INTEGRITY),
)
READ: Final = Doc(
    operation_id="readArtifact",
    tag="Reading",
    summary="Read a part",
    description=(
        "A span of lines, characters, bytes or tokens, cut to `max_tokens`. Following `next.cursor` until it is null "
        "gives every byte once, also inside a single line of any length; a cursor carries view and section.\n\n"
        "With `view=text` the text view is read, which is made when it is first asked for and kept from then on: its "
        "ranges are citations for as long as the artifact lives. With `section` only that part is read; `window` and "
        "offsets count in the view all the same, but for tokens, which count in the section."
    ),
    query=fields.ReadQuery,
    answers=(Answer(status=200, description="The part, and where to go on.", model=ReadAnswer),),
    problems=(
        *_ONE,
        Code.SECTION_NOT_FOUND,
        Code.VIEW_NOT_AVAILABLE,
        Code.NOT_TEXT,
        Code.INVALID_CURSOR,
        Code.OFFSET_PAST_END,
        Code.COUNT_PENDING,
        Code.INTEGRITY,
    ),
)
SEARCH: Final = Doc(
    operation_id="searchArtifact",
    tag="Reading",
    summary="Search with a pattern",
    description=(
        "Lines that match a regular expression (RE2, linear time) or a literal, with their surroundings. With "
        "`section` nothing outside it is searched or shown; line numbers are those of the view."
    ),
    query=fields.SearchQuery,
    answers=(Answer(status=200, description="The matches, and where to go on.", model=SearchAnswer),),
    problems=(
        *_ONE,
        Code.SECTION_NOT_FOUND,
        Code.VIEW_NOT_AVAILABLE,
        Code.NOT_TEXT,
        Code.INVALID_PATTERN,
        Code.OFFSET_PAST_END,
        Code.INTEGRITY,
    ),
)
WINDOWS: Final = Doc(
    operation_id="findWindows",
    tag="Reading",
    summary="Find the passages that answer a query",
    description=(
        "The sentences and lines that best answer a query, with their surroundings, in document order, each verbatim "
        "under a line that says where it stands. Words are compared without regard to case, accents and endings; "
        "rare words count more. It understands no meaning: a passage that says it in other words is not found. "
        "What a time limit cut off is said (`partial`), and the same call goes on from there."
    ),
    query=fields.WindowsQuery,
    answers=(Answer(status=200, description="The passages.", model=WindowsAnswer),),
    problems=(*_ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.NOT_TEXT, Code.INTEGRITY),
)
OUTLINE: Final = Doc(
    operation_id="outlineArtifact",
    tag="Reading",
    summary="Say what is in it and where",
    description=(
        "Headings, search results or parts (each with its `section`); definitions of source code, files and hunks of a "
        "diff, phases of a log, with their lines; columns of a table; places of a JSON document, each with its `path`. "
        "Lines and bytes are those of the view that the answer names. What a budget cut off is counted, and `next` "
        "goes on; where not all of a large payload was looked at, `partial` says so."
    ),
    query=fields.OutlineQuery,
    answers=(Answer(status=200, description="The entries, and where to go on.", model=OutlineAnswer),),
    problems=(*_ONE, Code.SECTION_NOT_FOUND, Code.OFFSET_PAST_END, Code.INTEGRITY),
)
JSON_PATH: Final = Doc(
    operation_id="readJson",
    tag="Reading",
    summary="Read JSON by path",
    description=(
        "The values that a path finds, one line each, with their normalized paths. A document of JSON lines is an "
        "array of its lines. Names, indices, slices, `*` and filters over records work at any size, one record (at "
        "most 8 MiB) in memory at a time; other paths need the value that their first names and indices lead to in "
        "memory, at most 8 MiB, and are refused otherwise (`json_too_large`). `match` and `search` take linear time. "
        "A call takes about a second; where that was not enough, `total_exact` is false and `next` goes on. One long "
        "value is given from its beginning, and `next` gives the rest. What could not be read of a damaged document "
        "is said (`partial`, `notices`)."
    ),
    query=fields.JsonQuery,
    answers=(Answer(status=200, description="The values, and where to go on.", model=JsonAnswer),),
    problems=(
        *_ONE,
        Code.INVALID_PATH,
        Code.INVALID_CURSOR,
        Code.NOT_JSON,
        Code.JSON_TOO_LARGE,
        Code.INTEGRITY,
    ),
)
CONTENT: Final = Doc(
    operation_id="getContent",
    tag="Reading",
    summary="Fetch the bytes",
    description=(
        "The payload, with ranges and conditions as RFC 9110 has them; with `view=text` its text view, with `section` "
        "a part of that, each with an entity tag of its own. Served inert: as an attachment, not to be sniffed, "
        "sandboxed."
    ),
    query=fields.ContentAsk,
    headers=("Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"),
    answers=(
        Answer(
            status=200,
            description="All of it.",
            other=("application/octet-stream",),
            headers=("ETag", "Accept-Ranges", "Repr-Digest"),
        ),
        Answer(
            status=206,
            description="The ranges that were asked for; several come as multipart/byteranges.",
            other=("application/octet-stream", "multipart/byteranges"),
            headers=("ETag", "Content-Range"),
        ),
        Answer(status=304, description="The caller has it already.", headers=("ETag",)),
    ),
    problems=(
        *_ONE,
        Code.SECTION_NOT_FOUND,
        Code.VIEW_NOT_AVAILABLE,
        Code.PRECONDITION_FAILED,
        Code.RANGE_NOT_SATISFIABLE,
        Code.INTEGRITY,
    ),
)
CONTENT_HEAD: Final = Doc(
    operation_id="headContent",
    tag="Reading",
    summary="Ask about the bytes",
    description="The header fields of `getContent` without a Range, and no body.",
    query=fields.ContentAsk,
    headers=("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"),
    answers=(
        Answer(status=200, description="It is there.", headers=("ETag", "Accept-Ranges", "Repr-Digest")),
        Answer(status=304, description="The caller has it already.", headers=("ETag",)),
    ),
    problems=(*_ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.PRECONDITION_FAILED),
)
SEARCH_RESULTS: Final = Doc(
    operation_id="budgetSearchResults",
    tag="Searching",
    summary="Budget a web search",
    description=(
        "Takes the response of any search provider as it came, stores it as one artifact with a section for each "
        "result (`r1`, `r2`, …), and answers what a model should read this turn (`text`), within hard limits: the "
        "passages of the best results that answer the query, the others by title and address. What is the same is "
        "folded, also what the session has already; everything that was dropped, folded or cut is counted.\n\n"
        "`summary` is what to persist for later turns: verbatim sentences, each with its citation and exact range, "
        "and the sources. Ranges lie in the artifact's text view: read on with `view=text` and `section=r2`. The same "
        "response, query, limits and session before it give the same answer, byte for byte.\n\n"
        "A response that is not understood is kept as it came, with the warning `no_results`. Other warnings: "
        "`search_response` (what the provider says went wrong, and what could not be read), `session_partly_seen` "
        "(earlier sources were not all looked at), `stored_as_other` (the same payload was stored before as something "
        "else, so that sections cannot be read)."
    ),
    headers=("Idempotency-Key", *CODED),
    body=((JSON, "SearchResultsRequest"),),
    answers=(
        Answer(status=201, description="Stored.", model=SearchResultsAnswer, headers=("Location",)),
        Answer(
            status=200,
            description="This very response was there already.",
            model=SearchResultsAnswer,
            headers=("Location",),
        ),
        Answer(
            status=202,
            description="Storage did not take it: `stored` is false, and the text cites sections alone.",
            model=SearchResultsAnswer,
            headers=("Location",),
        ),
    ),
    problems=(*BODY, *_INGEST, Code.ARTIFACT_NOT_FOUND, Code.INVALID_JSON, Code.INVALID_CONTENT, Code.INTEGRITY),
)
VERIFY: Final = Doc(
    operation_id="verifyCitations",
    tag="Searching",
    summary="Check quotations",
    description=(
        "Whether each quotation stands in the text view of what it cites, where exactly, and what is different. "
        "`exact`: to the letter; `normalised`: but for blanks, quotation marks, dashes and an ellipsis; `fuzzy`: most "
        "of its words in order, with the differences; `absent`. `moved` says that it stands outside the section or the "
        "range that was cited. Each quotation is answered by itself: one whose artifact is gone has a `problem`."
    ),
    headers=CODED,
    body=((JSON, "VerifyRequest"),),
    answers=(Answer(status=200, description="One result for each quotation.", model=views.VerifiedView),),
    problems=(*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT),
)
TOOLS: Final = Doc(
    operation_id="getTools",
    tag="Tools",
    summary="Declare the tools",
    description=(
        "The declared tool, `read_artifact`, as each provider wants it. The same for every request and session of a "
        "deployment: it can stand in a cached prompt. Every call on a card is a valid call of it. MCP clients find "
        "the tools at `/mcp` (streamable HTTP) themselves."
    ),
    query=fields.ToolsAsk,
    answers=(Answer(status=200, description="The declarations.", model=views.ToolsView),),
)
CALL_TOOL: Final = Doc(
    operation_id="callTool",
    tag="Tools",
    summary="Execute calls of the tools",
    description=(
        "Takes a name and arguments, or the call object of any provider as it came, alone or in a list (or the "
        "message that holds them), and answers text or that provider's result object, with the call's ID; `format` "
        "asks for another form. Arguments are taken as they were meant; what was ignored is said in the answer. "
        "Whatever a call asks for is answered with 200: a failure is a sentence for the model that names the next "
        "step, marked as an error where the form has a mark for it."
    ),
    query=fields.ToolCallAsk,
    headers=CODED,
    body=((JSON, "ToolCall"),),
    answers=(Answer(status=200, description="The results, in the order of the calls.", schema="ToolResult"),),
    problems=(*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT),
)
LIVE: Final = Doc(
    operation_id="checkLiveness",
    tag="Service",
    summary="Is the process alive?",
    description="Answers as long as the process does. Asks nothing of storage.",
    answers=(Answer(status=200, description="It is.", model=views.HealthView),),
)
READY: Final = Doc(
    operation_id="checkReadiness",
    tag="Service",
    summary="Can it serve?",
    description="Whether the database and the store answer, with this release's schema.",
    answers=(Answer(status=200, description="It can.", model=views.HealthView),),
    problems=(Code.SCHEMA_OUTDATED,),
)
METRICS: Final = Doc(
    operation_id="getMetrics",
    tag="Service",
    summary="Numbers for monitoring",
    description=(
        "Counters and gauges of this process in the text format of Prometheus, or in OpenMetrics where that is "
        "accepted. Needs the scope `admin` unless the administrator has opened it; without keys it is open. No "
        "name in it is a caller's."
    ),
    answers=(Answer(status=200, description="The metrics.", other=("text/plain",)),),
)
DOCUMENT: Final = Doc(
    operation_id="getOpenApi",
    tag="Service",
    summary="This document",
    description="The OpenAPI 3.1 document of this release.",
    answers=(Answer(status=200, description="The document.", model=views.OpenApi),),
)
