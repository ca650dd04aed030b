"""What requests say: the fields of every route, with their bounds, as the OpenAPI document shows them.

Names, IDs, labels and URLs may hold any text but control characters, which have no business in them and would be
reflected into logs and terminals; a title's control characters become spaces, because titles come from pages. What
reads like a path (`../`) or runs right to left is data like any other: nothing here becomes a path or a header.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from coatcheck.api.durations import MAX_SECONDS
from coatcheck.core.artifact import COMMAND_CHARS, Kind
from coatcheck.core.fulltext import MAX_QUERY_CHARS
from coatcheck.core.ids import ID_LENGTH, SECTION_LENGTH
from coatcheck.core.jsonpath.parse import PATH_LIMIT
from coatcheck.core.jsonpath.render import MIN_TOKENS as JSON_MIN_TOKENS
from coatcheck.core.outline.render import MIN_TOKENS as OUTLINE_MIN_TOKENS
from coatcheck.core.window import Unit
from coatcheck.usecases.json_path import MAX_FIELDS
from coatcheck.usecases.json_path import MAX_LIMIT as JSON_MAX_LIMIT
from coatcheck.usecases.outline import MAX_LIMIT as OUTLINE_MAX_LIMIT
from coatcheck.usecases.passages import MIN_TOKENS as PASSAGES_MIN_TOKENS
from coatcheck.usecases.read_bounds import DEFAULT_TOKENS, MAX_TOKENS
from coatcheck.usecases.search import DEFAULT_LIMIT, MAX_CONTEXT, MAX_LIMIT, MIN_TOKENS

PLAIN = {"pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$"}
"""Documented for callers; `offers.plain` enforces it with a better sentence."""

DURATION = "Whole seconds (1 to 315360000), or text with a unit such as `30m`, `12h`, `7d`, `4w`, or `forever`"

MediaType = Annotated[
    str, Meta(min_length=3, max_length=255, description="Media type of the payload.", examples=["text/html"])
]
ToolName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="Tool that produced the payload.",
        examples=["bash"],
        extra_json_schema=PLAIN,
    ),
]
CallId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        description="ID of the tool call that the payload answers; part of the artifact's identity.",
        examples=["call_8f2a"],
        extra_json_schema=PLAIN,
    ),
]
Session = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="Conversation, run or thread; part of the artifact's identity.",
        examples=["run-42"],
        extra_json_schema=PLAIN,
    ),
]
Command = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=COMMAND_CHARS,
        description="Command that was run, or the tool's arguments in short.",
        examples=["pytest -q tests"],
    ),
]
CompareTo = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_LENGTH,
        description="Artifact to compare with: an ID, or `previous`, the last artifact with the same session, tool "
        "name and command among the 1,000 stored last in the session; without one, nothing is compared. It is decided "
        "when the artifact is created, and stays.",
        examples=["previous"],
    ),
]
Tools = Annotated[
    Literal["read_artifact", "none"],
    Meta(description="Which tool the model has: with `none` the card names no call to read on with."),
]
Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=8192,
        description="Where the payload came from.",
        examples=["https://example.org/page"],
        extra_json_schema=PLAIN,
    ),
]
Title = Annotated[
    str, Meta(min_length=1, max_length=1000, description="Title of the payload; control characters become spaces.")
]
Label = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema=PLAIN)]
Labels = Annotated[
    tuple[Label, ...],
    Meta(max_length=32, description="Labels for finding the artifact again.", examples=[["ci", "nightly"]]),
]
Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4000,
        description="What the agent was looking for; excerpts follow it.",
        examples=["why did the build fail"],
    ),
]
CardTokens = Annotated[
    int, Meta(ge=64, le=8192, description="Hard budget of the card, in tokens of o200k_base.", examples=[600])
]
InlineTokens = Annotated[
    int,
    Meta(
        ge=0, le=100_000, description="Payloads up to this many tokens come back unchanged; 0 makes every one a card."
    ),
]
_Seconds = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_SECONDS})]
_Duration = Annotated[str, Meta(extra_json_schema={"pattern": "^([0-9]{1,10}[smhdw]?|forever)$"})]
Ttl = Annotated[
    _Seconds | _Duration | None,
    Meta(description=f"Time to live from creation. {DURATION}; null keeps for ever.", examples=["7d"]),
]
IdleTtl = Annotated[
    _Seconds | _Duration | None,
    Meta(
        description=f"Time without a read after which it expires. {DURATION}; null: no idle expiry.", examples=["12h"]
    ),
]
Pin = Annotated[bool, Meta(description="Suspend expiry.")]
Oversize = Annotated[
    Literal["reject", "keep_ends"],
    Meta(description="A payload over the limit is refused, or its head and tail are kept and the middle is counted."),
]


class DeclaredParameters(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be said about a payload; also the query parameters of the raw route and the fields of a form."""

    media_type: MediaType | None = None
    tool_name: ToolName | None = None
    tool_call_id: CallId | None = None
    command: Command | None = None
    session: Session | None = None
    url: Url | None = None
    title: Title | None = None
    kind: Annotated[Kind, Meta(description="What the payload is, where the caller knows better.")] | None = None
    labels: Labels = ()
    query: Query | None = None
    ttl: Ttl | UnsetType = UNSET
    idle_ttl: IdleTtl | UnsetType = UNSET
    pin: Pin = False
    card_tokens: CardTokens | None = None
    inline_tokens: InlineTokens | None = None
    oversize: Oversize = "reject"
    compare_to: CompareTo | None = None
    tools: Tools = "read_artifact"


class RawQuery(DeclaredParameters, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The query parameters of `POST /v1/artifacts/raw`."""


class StoreBody(DeclaredParameters, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/artifacts`."""

    content: str | list[Any] | dict[str, Any]


class PatchBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `PATCH /v1/artifacts/{artifact_id}`. What is left out stays as it is."""

    ttl: Ttl | UnsetType = UNSET
    idle_ttl: IdleTtl | UnsetType = UNSET
    pin: Pin | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET


Telling = Annotated[
    str,
    Meta(
        max_length=MAX_QUERY_CHARS,
        description="Only artifacts that say all of these words: in title, URL, tool name, command, labels, or "
        "the text of the payload, of which the first and the last 256 KiB count. Case, accents and endings do not "
        "matter; words of Chinese, Japanese, Korean and Thai need no blanks; of identifiers and paths, parts are found "
        "too. Words such as `the` and `what` are left out where there are others. There are no operators: quotes, `OR` "
        "and `*` mean nothing.",
        examples=["ConnectionResetError payments"],
    ),
]


class ListQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts`; all given conditions hold."""

    session: Session | None = None
    kind: Annotated[Kind, Meta(description="Only this kind.")] | None = None
    tool_name: ToolName | None = None
    url: Url | None = None
    label: Annotated[Label, Meta(description="Only artifacts with this label.")] | None = None
    q: Telling | None = None
    cursor: Annotated[str, Meta(min_length=1, max_length=512, description="`next` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=200, description="Artifacts on a page.")] = 50


class CardQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/card`."""

    tokens: CardTokens | None = None
    query: Query | None = None
    tools: Tools = "read_artifact"


View = Annotated[
    Literal["raw", "text"],
    Meta(
        description="`raw` is the exact payload, `text` what a reader reads of it: a page without its markup, minified "
        "JSON indented, plain text as it is. Absent: text where a section is named, otherwise raw.",
        examples=["text"],
    ),
]
Section = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=SECTION_LENGTH,
        description="A named part of the text view, from the card or the outline; or cite it in the path, as "
        "`art_…%23r3`. Lines, characters and bytes count in the view all the same; an offset before the section "
        "begins with it.",
        examples=["r3"],
    ),
]
MaxTokens = Annotated[
    int,
    Meta(ge=1, le=MAX_TOKENS, description="Most tokens of `text`; 30,000 characters are the limit in any case."),
]


class ReadQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/read`."""

    unit: Annotated[Unit, Meta(description="What offset and limit count; lines when absent.")] | None = None
    offset: Annotated[int, Meta(ge=0, description="Where to begin: lines count from 1, the others from 0.")] | None = (
        None
    )
    limit: Annotated[int, Meta(ge=1, description="How many; absent: as much as the budget holds.")] | None = None
    section: Section | None = None
    view: View | None = None
    cursor: (
        Annotated[str, Meta(min_length=1, max_length=512, description="`next.cursor` of the answer before.")] | None
    ) = None
    max_tokens: MaxTokens = DEFAULT_TOKENS


class SearchQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/search`."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="Regular expression (RE2).", examples=["error|fatal"])
    ]
    literal: Annotated[bool, Meta(description="The pattern is text, not an expression.")] = False
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT, description="Lines shown around a match.")] = 2
    offset: Annotated[int, Meta(ge=0, description="Matches to skip; `next.offset` of the answer before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Most matches to show.")] = DEFAULT_LIMIT
    section: Section | None = None
    view: View | None = None
    max_tokens: Annotated[
        int,
        Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="Most tokens of `text`; at most 30,000 characters in any case."),
    ] = DEFAULT_TOKENS


class PassagesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/windows`."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4000,
            description="What is looked for, in words of any language; names, paths and error codes work as they are.",
            examples=["why did the build fail"],
        ),
    ]
    section: Section | None = None
    view: View | None = None
    max_tokens: Annotated[
        int,
        Meta(
            ge=PASSAGES_MIN_TOKENS,
            le=MAX_TOKENS,
            description="Most tokens of `text`; at most 30,000 characters in any case.",
        ),
    ] = DEFAULT_TOKENS


class JsonQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/json`."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=PATH_LIMIT,
            description="JSONPath (RFC 9535), or a JSON Pointer (RFC 6901) such as `/items/0/id`.",
            examples=["$.items[?@.status=='failed'].id"],
        ),
    ]
    fields: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1000,
                description=(
                    f"Members to which objects are reduced, at most {MAX_FIELDS}, joined with commas; `a.b` is a "
                    "member inside a member. Each object becomes a row of these."
                ),
                examples=["id,name"],
            ),
        ]
        | None
    ) = None
    limit: (
        Annotated[int, Meta(ge=1, le=JSON_MAX_LIMIT, description="Most values; absent: as many as the budget holds.")]
        | None
    ) = None
    cursor: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                description="`next` of the answer before, with the same path and fields.",
            ),
        ]
        | None
    ) = None
    max_tokens: Annotated[
        int,
        Meta(
            ge=JSON_MIN_TOKENS,
            le=MAX_TOKENS,
            description="Most tokens of `text`; at most 30,000 characters in any case.",
        ),
    ] = DEFAULT_TOKENS


class ContentQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/content`."""

    section: Section | None = None
    view: View | None = None


class OutlineQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/outline`."""

    section: Section | None = None
    offset: Annotated[int, Meta(ge=0, description="Entries to pass over; `next` of the answer before.")] = 0
    limit: (
        Annotated[
            int, Meta(ge=1, le=OUTLINE_MAX_LIMIT, description="Most entries; absent: as many as the budget holds.")
        ]
        | None
    ) = None
    max_tokens: Annotated[
        int,
        Meta(
            ge=OUTLINE_MIN_TOKENS,
            le=MAX_TOKENS,
            description="Most tokens of `text`; at most 30,000 characters in any case.",
        ),
    ] = DEFAULT_TOKENS


class EmptyQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """A route without query parameters."""


class BatchBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /v1/artifacts:batch`. Items are read one by one, so that each can fail on its own."""

    items: Annotated[list[Raw], Meta(min_length=1, max_length=100)]


ToolFormat = Annotated[
    Literal["openai-chat", "openai-responses", "anthropic", "gemini", "mcp", "json-schema"],
    Meta(description="Whose declarations.", examples=["anthropic"]),
]
ResultFormat = Annotated[
    Literal["text", "openai-chat", "openai-responses", "anthropic", "gemini", "mcp"],
    Meta(description="What a result looks like; recognised by the call when it is not given.", examples=["anthropic"]),
]


class ToolsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/tools`."""

    format: ToolFormat = "json-schema"
    strict: Annotated[
        bool, Meta(description="The variant for strict mode, where the provider has one: every property required.")
    ] = False
    listing: Annotated[
        bool, Meta(description="With `list_artifacts`, which MCP always has. Each tool costs tokens in every request.")
    ] = False


class ToolCallQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `POST /v1/tools/call`."""

    format: ResultFormat | None = None
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=800,
                le=MAX_TOKENS,
                description="Most tokens of one answer (4,000), which has 30,000 characters at most.",
            ),
        ]
        | None
    ) = None
