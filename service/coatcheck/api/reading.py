"""Routes that read parts of an artifact: a span, matches of a pattern, passages, values by path, or an outline."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, structs

from coatcheck.api.http.access import READ
from coatcheck.api.http.request_parts import resolve_citation
from coatcheck.api.route import ONE, Route, RouteCall, route
from coatcheck.core.errors import Code, invalid_request
from coatcheck.core.jsonpath.parse import PATH_CHARS
from coatcheck.core.jsonpath.render import MIN_TOKENS as JSON_MIN_TOKENS
from coatcheck.core.outline.render import MIN_TOKENS as OUTLINE_MIN_TOKENS
from coatcheck.core.read_answer import DEFAULT_TOKENS, Section, View, text_budget
from coatcheck.usecases.reading.find_passages import MIN_TOKENS as PASSAGES_MIN_TOKENS
from coatcheck.usecases.reading.find_passages import PassagesAnswer
from coatcheck.usecases.reading.grep import PatternSearchRequest, SearchAnswer, SearchQuery
from coatcheck.usecases.reading.outline import MAX_LIMIT as OUTLINE_MAX_LIMIT
from coatcheck.usecases.reading.outline import OutlineAnswer
from coatcheck.usecases.reading.read import ReadAnswer, ReadRequest
from coatcheck.usecases.reading.read_json import MAX_FIELDS, JsonAnswer
from coatcheck.usecases.reading.read_json import MAX_LIMIT as JSON_MAX_LIMIT


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
            max_length=PATH_CHARS,
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


_VIEW: Final = (Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE)
"""Errors that the name of a view or of a section may cause."""


def _reading(operation: str, answer: str, *problems: Code) -> Callable[[Callable[..., Awaitable[Any]]], Route]:
    """Declares a route that reads one artifact.

    Args:
        operation: method and path, as for `route`.
        answer: description of the answer.
        problems: codes of errors, in addition to those of every route that reads an artifact.
    """
    return route(
        operation, scope=READ, tag="Reading", answers={200: answer}, problems=(*ONE, *problems, Code.INTEGRITY)
    )


@_reading(
    "GET /v1/artifacts/{artifact_id}/read",
    "The part, and where to continue.",
    *_VIEW,
    Code.NOT_TEXT,
    Code.INVALID_CURSOR,
    Code.OFFSET_PAST_END,
    Code.COUNT_PENDING,
)
async def read_artifact(call: RouteCall, artifact_id: str, query: ReadRequest) -> ReadAnswer:
    """Read a part.

    Returns a span of lines, characters, bytes or tokens, cut to `max_tokens`. Following `next.cursor` until it is null
    returns every byte exactly once, even within a single line of any length; a cursor includes view and section.
    `view=text` reads the text view, which is made on first use and kept from then on, so its ranges stay valid as
    citations for as long as the artifact lives. With `section`, only that part is read; `window` and offsets still
    count in the whole view, except for tokens, which count within the section.

    Lines of the text view are shown as a terminal would show them: without escape sequences, and for a line overwritten
    with carriage returns only the last frame, after a note of how many bytes it replaced. `window` still refers to the
    original bytes; `view=raw`, and every other unit, returns them unchanged.

    A section can be given by its name, its title, or an unambiguous beginning of its title.
    """
    number, section = resolve_citation(artifact_id, query.section)
    request = structs.replace(query, section=section)
    return await call.services.read_span(call.caller, number, request)


@_reading(
    "GET /v1/artifacts/{artifact_id}/search",
    "The matches, and where to continue.",
    *_VIEW,
    Code.NOT_TEXT,
    Code.INVALID_PATTERN,
    Code.OFFSET_PAST_END,
)
async def search_artifact(call: RouteCall, artifact_id: str, query: SearchQuery) -> SearchAnswer:
    """Search with a pattern.

    Returns lines that match a regular expression (RE2, linear time) or a literal, with surrounding lines. With
    `section`, nothing outside it is searched or shown; line numbers are those of the view. Matching lines are shown
    whole as long as the budget has room for several. In the text view they are shown as a terminal would show them.
    """
    number, section = resolve_citation(artifact_id, query.section)
    request = PatternSearchRequest(**structs.asdict(structs.replace(query, section=section)))
    return await call.services.search(call.caller, number, request)


@_reading("GET /v1/artifacts/{artifact_id}/windows", "The passages.", *_VIEW, Code.NOT_TEXT)
async def find_windows(call: RouteCall, artifact_id: str, query: PassagesQuery) -> PassagesAnswer:
    """Find the passages that answer a query.

    Returns the sentences and lines that best answer a query, with their surroundings, best first. Each is verbatim,
    under a line that gives its position and the section or line that introduces it. Passages that score less than a
    fifth of the best are left out, so the answer may be far shorter than `max_tokens`. Words are compared without
    regard to case, accents and endings; rare words count more. Matching is by words, not by meaning: a passage that
    uses other words is not found. If a time limit cut the search short, the answer says so (`partial`), and the same
    call continues from there.
    """
    number, section = resolve_citation(artifact_id, query.section)
    return await call.services.windows(call.caller, number, **structs.asdict(structs.replace(query, section=section)))


@_reading(
    "GET /v1/artifacts/{artifact_id}/json",
    "The values, and where to continue.",
    Code.INVALID_PATH,
    Code.INVALID_CURSOR,
    Code.NOT_JSON,
    Code.JSON_TOO_LARGE,
)
async def read_json(call: RouteCall, artifact_id: str, query: JsonQuery) -> JsonAnswer:
    """Read JSON by path.

    Returns the values that a path selects, one per line, with their normalized paths. A JSON Lines document counts as
    an array of its lines. Names, indices, slices, `*` and filters over records work at any size, with one record (at
    most 8 MiB) in memory at a time; other paths need the value under their leading names and indices in memory, and
    are refused if it is larger than 8 MiB (`json_too_large`). `match` and `search` take linear time. A call takes
    about a second; if that was not enough, `total_exact` is false and `next` continues. A single long value is
    returned from its beginning, and `next` returns the rest; a long object starts with its members, their types and
    sizes, a long array with its length. Parts of a damaged document that could not be read are reported (`partial`,
    `notices`).
    """
    # Accept a citation only in order to say why it cannot be used here.
    number, section = resolve_citation(artifact_id)
    if section is not None:
        raise invalid_request(
            "A path applies to the whole payload, not to a section of its text: leave the section out.",
            parameter="section",
        )
    arguments = structs.asdict(query)
    arguments["fields"] = () if query.fields is None else tuple(name.strip() for name in query.fields.split(","))
    return await call.services.read_json(call.caller, number, **arguments)


@_reading(
    "GET /v1/artifacts/{artifact_id}/outline",
    "The entries, and where to continue.",
    Code.SECTION_NOT_FOUND,
    Code.OFFSET_PAST_END,
)
async def outline_artifact(call: RouteCall, artifact_id: str, query: OutlineQuery) -> OutlineAnswer:
    """Outline an artifact.

    Returns what the artifact contains and where: headings, search results or parts (each with its `section`);
    definitions in source code, also with line numbers or as grep output; files and hunks of a diff, with the lines that
    each adds and removes; commits of a Git log; phases of a log; columns of a table; documents, keys and named items of
    YAML; cells of a notebook; positions in a JSON document, each with its `path`. Lines and bytes are those of the view
    that the answer names. Entries cut off by the budget are counted, and `next` continues; `partial` says that not all
    of a large payload was examined.
    """
    number, section = resolve_citation(artifact_id, query.section)
    return await call.services.outline(call.caller, number, **structs.asdict(structs.replace(query, section=section)))
