"""Reading parts of an artifact: a span, where a pattern matches, what answers a query, values by path, an outline."""

from coatcheck.api.http.access import READ
from coatcheck.api.http.request_parts import cited
from coatcheck.api.reading.wire import JsonQuery, OutlineQuery, PassagesQuery, ReadQuery, SearchQuery
from coatcheck.api.route import ONE, Call, route
from coatcheck.api.views import copy_fields
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.usecases.json_path import JsonAnswer
from coatcheck.usecases.outline import OutlineAnswer
from coatcheck.usecases.passages import PassagesAnswer
from coatcheck.usecases.read import ReadAnswer, ReadRequest
from coatcheck.usecases.search import PatternSearchRequest, SearchAnswer


@route(
    "GET /v1/artifacts/{artifact_id}/read",
    scope=READ,
    tag="Reading",
    answers={200: "The part, and where to go on."},
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
async def read_artifact(call: Call, artifact_id: str, query: ReadQuery) -> ReadAnswer:
    """Read a part.

    A span of lines, characters, bytes or tokens, cut to `max_tokens`. Following `next.cursor` until it is null gives
    every byte once, also inside a single line of any length; a cursor carries view and section.

    With `view=text` the text view is read, which is made when it is first asked for and kept from then on: its ranges
    are citations for as long as the artifact lives. With `section` only that part is read; `window` and offsets count
    in the view all the same, but for tokens, which count in the section.

    Lines of the text view are shown as a terminal showed them: no escape sequences, and of a line that was written
    over with carriage returns the last frame, after a note of how many bytes it replaced. `window` has the bytes all
    the same; `view=raw`, and every other unit, gives them as they are.

    A section is meant by its name, its title or the unambiguous beginning of its title.
    """
    number, section = cited(artifact_id, query.section)
    request = copy_fields(ReadRequest, query, section=section)
    return await call.services.read(call.caller, number, request)


@route(
    "GET /v1/artifacts/{artifact_id}/search",
    scope=READ,
    tag="Reading",
    answers={200: "The matches, and where to go on."},
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
async def search_artifact(call: Call, artifact_id: str, query: SearchQuery) -> SearchAnswer:
    """Search with a pattern.

    Lines that match a regular expression (RE2, linear time) or a literal, with their surroundings. With `section`
    nothing outside it is searched or shown; line numbers are those of the view. Matching lines are shown whole while
    the budget holds several. In the text view they are shown as a terminal showed them.
    """
    number, section = cited(artifact_id, query.section)
    request = copy_fields(PatternSearchRequest, query, section=section)
    return await call.services.search(call.caller, number, request)


@route(
    "GET /v1/artifacts/{artifact_id}/windows",
    scope=READ,
    tag="Reading",
    answers={200: "The passages."},
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.NOT_TEXT, Code.INTEGRITY),
)
async def find_windows(call: Call, artifact_id: str, query: PassagesQuery) -> PassagesAnswer:
    """Find the passages that answer a query.

    The sentences and lines that best answer a query, with their surroundings, best first, each verbatim under a line
    that says where it stands, with the section or the line above that introduces it. What answers less than a fifth
    as well as the best is left out, so an answer may be far shorter than `max_tokens`. Words are compared without
    regard to case, accents and endings; rare words count more. It understands no meaning: a passage that says it in
    other words is not found. What a time limit cut off is said (`partial`), and the same call goes on from there.
    """
    number, section = cited(artifact_id, query.section)
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
    answers={200: "The values, and where to go on."},
    problems=(
        *ONE,
        Code.INVALID_PATH,
        Code.INVALID_CURSOR,
        Code.NOT_JSON,
        Code.JSON_TOO_LARGE,
        Code.INTEGRITY,
    ),
)
async def read_json(call: Call, artifact_id: str, query: JsonQuery) -> JsonAnswer:
    """Read JSON by path.

    The values that a path finds, one line each, with their normalized paths. A document of JSON lines is an array of
    its lines. Names, indices, slices, `*` and filters over records work at any size, one record (at most 8 MiB) in
    memory at a time; other paths need the value that their first names and indices lead to in memory, at most 8 MiB,
    and are refused otherwise (`json_too_large`). `match` and `search` take linear time. A call takes about a second;
    where that was not enough, `total_exact` is false and `next` goes on. One long value is given from its beginning,
    and `next` gives the rest; of a long object the members come first, with types and sizes, of a long array its
    length. What could not be read of a damaged document is said (`partial`, `notices`).
    """
    number, section = cited(artifact_id)
    if section is not None:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "A path leads through the whole payload, not through a section of its text: leave the section out.",
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
    answers={200: "The entries, and where to go on."},
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.OFFSET_PAST_END, Code.INTEGRITY),
)
async def outline_artifact(call: Call, artifact_id: str, query: OutlineQuery) -> OutlineAnswer:
    """Say what is in it and where.

    Headings, search results or parts (each with its `section`); definitions of source code, also of numbered lines
    and grep's hits; files and hunks of a diff, with the lines that each adds and removes; commits of Git's log;
    phases of a log; columns of a table; cells of a notebook and places of a JSON document, each with its `path`.
    Lines and bytes are those of the view that the answer names. What a budget cut off is counted, and `next` goes on;
    where not all of a large payload was looked at, `partial` says so.
    """
    number, section = cited(artifact_id, query.section)
    return await call.services.outline(
        call.caller,
        number,
        section=section,
        offset=query.offset,
        limit=query.limit,
        max_tokens=query.max_tokens,
    )
