"""Query parameters of the routes that read parts of an artifact."""

from typing import Annotated

from msgspec import Meta, Struct

from coatcheck.api.parameters import Section, View, text_budget
from coatcheck.core.jsonpath.parse import PATH_LIMIT
from coatcheck.core.jsonpath.render import MIN_TOKENS as JSON_MIN_TOKENS
from coatcheck.core.outline.render import MIN_TOKENS as OUTLINE_MIN_TOKENS
from coatcheck.core.reads.read_bounds import DEFAULT_TOKENS
from coatcheck.core.views.window import Unit
from coatcheck.usecases.reading.find_passages import MIN_TOKENS as PASSAGES_MIN_TOKENS
from coatcheck.usecases.reading.outline import MAX_LIMIT as OUTLINE_MAX_LIMIT
from coatcheck.usecases.reading.read_json import MAX_FIELDS
from coatcheck.usecases.reading.read_json import MAX_LIMIT as JSON_MAX_LIMIT
from coatcheck.usecases.reading.search import DEFAULT_LIMIT, MAX_CONTEXT, MAX_LIMIT, MIN_TOKENS


class ReadQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/read`."""

    unit: Annotated[Unit, Meta(description="What offset and limit count. Default: lines.")] | None = None
    offset: (
        Annotated[int, Meta(ge=0, description="Where to begin: lines count from 1, all other units from 0.")] | None
    ) = None
    limit: Annotated[int, Meta(ge=1, description="How many. Default: as much as the budget holds.")] | None = None
    section: Section | None = None
    view: View | None = None
    cursor: (
        Annotated[str, Meta(min_length=1, max_length=512, description="`next.cursor` of the previous answer.")] | None
    ) = None
    max_tokens: Annotated[int, text_budget(1)] = DEFAULT_TOKENS


class SearchQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/search`."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="Regular expression (RE2).", examples=["error|fatal"])
    ]
    literal: Annotated[bool, Meta(description="Whether the pattern is literal text, not an expression.")] = False
    ignore_case: Annotated[bool, Meta(description="Whether to ignore upper and lower case.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT, description="Lines to show around a match.")] = 2
    offset: Annotated[int, Meta(ge=0, description="Matches to skip; `next.offset` of the previous answer.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number of matches to show.")] = DEFAULT_LIMIT
    section: Section | None = None
    view: View | None = None
    max_tokens: Annotated[int, text_budget(MIN_TOKENS)] = DEFAULT_TOKENS


class PassagesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/windows`."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4000,
            description="What to look for, in words of any language; names, paths and error codes match as they are.",
            examples=["why did the build fail"],
        ),
    ]
    section: Section | None = None
    view: View | None = None
    max_tokens: Annotated[int, text_budget(PASSAGES_MIN_TOKENS)] = DEFAULT_TOKENS


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
        Annotated[
            int,
            Meta(
                ge=1, le=JSON_MAX_LIMIT, description="Maximum number of values. Default: as many as the budget holds."
            ),
        ]
        | None
    ) = None
    cursor: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                description="`next` of the previous answer, with the same path and fields.",
            ),
        ]
        | None
    ) = None
    max_tokens: Annotated[int, text_budget(JSON_MIN_TOKENS)] = DEFAULT_TOKENS


class OutlineQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of `GET /v1/artifacts/{artifact_id}/outline`."""

    section: Section | None = None
    offset: Annotated[int, Meta(ge=0, description="Entries to skip; `next` of the previous answer.")] = 0
    limit: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=OUTLINE_MAX_LIMIT,
                description="Maximum number of entries. Default: as many as the budget holds.",
            ),
        ]
        | None
    ) = None
    max_tokens: Annotated[int, text_budget(OUTLINE_MIN_TOKENS)] = DEFAULT_TOKENS
