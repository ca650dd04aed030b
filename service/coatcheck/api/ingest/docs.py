"""What the OpenAPI document says of storing payloads. Values only; see `docs`."""

from typing import Final

from coatcheck.api import parameters as fields
from coatcheck.api.artifacts import wire as views
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

INGEST = (
    Code.PAYLOAD_TOO_LARGE,
    Code.INVALID_IDEMPOTENCY_KEY,
    Code.IDEMPOTENCY_KEY_REUSED,
    Code.INVALID_ARTIFACT_ID,
    Code.COMPARED_NOT_FOUND,
    Code.ARTIFACT_GONE,
    Code.UPLOAD_FENCED,
    Code.QUOTA_EXCEEDED,
    Code.NAMESPACE_DELETING,
)
_RECEIPTS = (
    DocumentedAnswer(status=201, description="Stored.", model=views.ReceiptView, headers=("Location",)),
    DocumentedAnswer(
        status=200,
        description=(
            "This very artifact was there already. What this request declares of it (media type, tool name, command, "
            "URL, title, kind) replaces what was declared before, as a whole; a request that declares nothing changes "
            "nothing. Labels, expiry, pin and `compare_to` stay as they were first asked for: where this request asks "
            "for something else, the warning `said_before` names them."
        ),
        model=views.ReceiptView,
        headers=("Location",),
    ),
    DocumentedAnswer(
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
        "The same payload for the same tool call in the same session is the same artifact, with the same ID, and with "
        "the same card where the same is declared of it. In a form, the payload is the part with a file name, or named "
        "`file` or `content`; `oversize` must come before it, the other fields may follow it; a file name is the title "
        "where there is no other.\n\n"
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
    problems=(*BODY, *INGEST, Code.INVALID_JSON, Code.INVALID_CONTENT),
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
    query=fields.RawQuery,
    headers=("Idempotency-Key", *CODED),
    body=(("application/octet-stream", "Bytes"),),
    answers=_RECEIPTS,
    problems=(*(code for code in BODY if code not in {Code.UNSUPPORTED_MEDIA_TYPE, Code.BODY_TOO_LARGE}), *INGEST),
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
    answers=(DocumentedAnswer(status=200, description="One result for each item.", model=views.BatchView),),
    problems=(*BODY, Code.INVALID_IDEMPOTENCY_KEY, Code.INVALID_JSON),
)
