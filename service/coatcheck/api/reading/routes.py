"""Reading parts of an artifact: a span, where a pattern matches, what answers a query, values by path, an outline."""

from coatcheck.api.http.access import READ
from coatcheck.api.http.request_parts import resolve_citation
from coatcheck.api.reading.wire import JsonQuery, OutlineQuery, PassagesQuery, ReadQuery, SearchQuery
from coatcheck.api.route import ONE, RouteCall, route
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.usecases.reading.find_passages import PassagesAnswer
from coatcheck.usecases.reading.outline import OutlineAnswer
from coatcheck.usecases.reading.read import ReadAnswer, ReadRequest
from coatcheck.usecases.reading.read_json import JsonAnswer
from coatcheck.usecases.reading.search import PatternSearchRequest, SearchAnswer


@route(
    "GET /v1/artifacts/{artifact_id}/read",
    scope=READ,
    tag="Reading",
    answers={200: "The part, and where to continue."},
    problems=(
        *ONE,
        Code.SECTION_NOT_FOUND,
        Code.VIEW_NOT_AVAILABLE,
        Code.NOT_TEXT,
        Code.INVALID_CURSOR,
        Code.OFFSET_PAST_END,
        Code.COUNT_PENDING,
        Code.INTEGRITY,
    ),
)
async def read_artifact(call: RouteCall, artifact_id: str, query: ReadQuery) -> ReadAnswer:
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
    request = copy_fields(ReadRequest, query, section=section)
    return await call.services.read_span(call.caller, number, request)


@route(
    "GET /v1/artifacts/{artifact_id}/search",
    scope=READ,
    tag="Reading",
    answers={200: "The matches, and where to continue."},
    problems=(
        *ONE,
        Code.SECTION_NOT_FOUND,
        Code.VIEW_NOT_AVAILABLE,
        Code.NOT_TEXT,
        Code.INVALID_PATTERN,
        Code.OFFSET_PAST_END,
        Code.INTEGRITY,
    ),
)
async def search_artifact(call: RouteCall, artifact_id: str, query: SearchQuery) -> SearchAnswer:
    """Search with a pattern.

    Returns lines that match a regular expression (RE2, linear time) or a literal, with surrounding lines. With
    `section`, nothing outside it is searched or shown; line numbers are those of the view. Matching lines are shown
    whole as long as the budget has room for several. In the text view they are shown as a terminal would show them.
    """
    number, section = resolve_citation(artifact_id, query.section)
    request = copy_fields(PatternSearchRequest, query, section=section)
    return await call.services.search(call.caller, number, request)


@route(
    "GET /v1/artifacts/{artifact_id}/windows",
    scope=READ,
    tag="Reading",
    answers={200: "The passages."},
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.NOT_TEXT, Code.INTEGRITY),
)
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
    return await call.services.windows(
        call.caller,
        number,
        query=query.query,
        max_tokens=query.max_tokens,
        view=query.view,
        section=section,
    )


@route(
    "GET /v1/artifacts/{artifact_id}/json",
    scope=READ,
    tag="Reading",
    answers={200: "The values, and where to continue."},
    problems=(
        *ONE,
        Code.INVALID_PATH,
        Code.INVALID_CURSOR,
        Code.NOT_JSON,
        Code.JSON_TOO_LARGE,
        Code.INTEGRITY,
    ),
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
    number, section = resolve_citation(artifact_id)
    if section is not None:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "A path applies to the whole payload, not to a section of its text: leave the section out.",
            parameter="section",
        )
    return await call.services.read_json(
        call.caller,
        number,
        path=query.path,
        limit=query.limit,
        max_tokens=query.max_tokens,
        cursor=query.cursor,
        fields=tuple(name.strip() for name in query.fields.split(",")) if query.fields is not None else (),
    )


@route(
    "GET /v1/artifacts/{artifact_id}/outline",
    scope=READ,
    tag="Reading",
    answers={200: "The entries, and where to continue."},
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.OFFSET_PAST_END, Code.INTEGRITY),
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
    return await call.services.outline(
        call.caller,
        number,
        section=section,
        offset=query.offset,
        limit=query.limit,
        max_tokens=query.max_tokens,
    )
