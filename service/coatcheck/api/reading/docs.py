"""What the OpenAPI document says of reading further. Values only; see `docs`."""

from typing import Final

from coatcheck.api import parameters as fields
from coatcheck.api.route import ONE, Doc, DocumentedAnswer
from coatcheck.core.errors import Code
from coatcheck.usecases.json_path import JsonAnswer
from coatcheck.usecases.outline import OutlineAnswer
from coatcheck.usecases.passages import PassagesAnswer
from coatcheck.usecases.read import ReadAnswer
from coatcheck.usecases.search import SearchAnswer

READ: Final = Doc(
    operation_id="readArtifact",
    tag="Reading",
    summary="Read a part",
    description=(
        "A span of lines, characters, bytes or tokens, cut to `max_tokens`. Following `next.cursor` until it is null "
        "gives every byte once, also inside a single line of any length; a cursor carries view and section.\n\n"
        "With `view=text` the text view is read, which is made when it is first asked for and kept from then on: its "
        "ranges are citations for as long as the artifact lives. With `section` only that part is read; `window` and "
        "offsets count in the view all the same, but for tokens, which count in the section.\n\n"
        "Lines of the text view are shown as a terminal showed them: no escape sequences, and of a line that was "
        "written over with carriage returns the last frame, after a note of how many bytes it replaced. `window` has "
        "the bytes all the same; `view=raw`, and every other unit, gives them as they are.\n\n"
        "A section is meant by its name, its title or the unambiguous beginning of its title."
    ),
    query=fields.ReadQuery,
    answers=(DocumentedAnswer(status=200, description="The part, and where to go on.", model=ReadAnswer),),
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
SEARCH: Final = Doc(
    operation_id="searchArtifact",
    tag="Reading",
    summary="Search with a pattern",
    description=(
        "Lines that match a regular expression (RE2, linear time) or a literal, with their surroundings. With "
        "`section` nothing outside it is searched or shown; line numbers are those of the view. Matching lines are "
        "shown whole while the budget holds several. In the text view they are shown as a terminal showed them."
    ),
    query=fields.SearchQuery,
    answers=(DocumentedAnswer(status=200, description="The matches, and where to go on.", model=SearchAnswer),),
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
PASSAGES: Final = Doc(
    operation_id="findWindows",
    tag="Reading",
    summary="Find the passages that answer a query",
    description=(
        "The sentences and lines that best answer a query, with their surroundings, best first, each verbatim under a "
        "line that says where it stands, with the section or the line above that introduces it. What answers less than "
        "a fifth as well as the best is left out, so an answer may be far shorter than `max_tokens`. "
        "Words are compared without regard to case, accents and endings; rare words count more. It understands no "
        "meaning: a passage that says it in other words is not found. What a time limit cut off is said (`partial`), "
        "and the same call goes on from there."
    ),
    query=fields.PassagesQuery,
    answers=(DocumentedAnswer(status=200, description="The passages.", model=PassagesAnswer),),
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.NOT_TEXT, Code.INTEGRITY),
)
OUTLINE: Final = Doc(
    operation_id="outlineArtifact",
    tag="Reading",
    summary="Say what is in it and where",
    description=(
        "Headings, search results or parts (each with its `section`); definitions of source code, also of numbered "
        "lines and grep's hits; files and hunks of a diff, with the lines that each adds and removes; commits of "
        "Git's log; phases of a log; columns of a table; cells of a notebook and places of a JSON document, each with "
        "its `path`. "
        "Lines and bytes are those of the view that the answer names. What a budget cut off is counted, and `next` "
        "goes on; where not all of a large payload was looked at, `partial` says so."
    ),
    query=fields.OutlineQuery,
    answers=(DocumentedAnswer(status=200, description="The entries, and where to go on.", model=OutlineAnswer),),
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.OFFSET_PAST_END, Code.INTEGRITY),
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
        "value is given from its beginning, and `next` gives the rest; of a long object the members come first, with "
        "types and sizes, of a long array its length. What could not be read of a damaged document "
        "is said (`partial`, `notices`)."
    ),
    query=fields.JsonQuery,
    answers=(DocumentedAnswer(status=200, description="The values, and where to go on.", model=JsonAnswer),),
    problems=(
        *ONE,
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
    query=fields.ContentQuery,
    headers=("Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"),
    answers=(
        DocumentedAnswer(
            status=200,
            description="All of it.",
            other=("application/octet-stream",),
            headers=("ETag", "Accept-Ranges", "Repr-Digest"),
        ),
        DocumentedAnswer(
            status=206,
            description="The ranges that were asked for; several come as multipart/byteranges.",
            other=("application/octet-stream", "multipart/byteranges"),
            headers=("ETag", "Content-Range"),
        ),
        DocumentedAnswer(status=304, description="The caller has it already.", headers=("ETag",)),
    ),
    problems=(
        *ONE,
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
    query=fields.ContentQuery,
    headers=("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"),
    answers=(
        DocumentedAnswer(status=200, description="It is there.", headers=("ETag", "Accept-Ranges", "Repr-Digest")),
        DocumentedAnswer(status=304, description="The caller has it already.", headers=("ETag",)),
    ),
    problems=(*ONE, Code.SECTION_NOT_FOUND, Code.VIEW_NOT_AVAILABLE, Code.PRECONDITION_FAILED),
)
