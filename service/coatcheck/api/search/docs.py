"""What the OpenAPI document says of web searches and citations. Values only; see `docs`."""

from typing import Final

from coatcheck.api.artifacts import wire as views
from coatcheck.api.ingest.docs import INGEST
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code
from coatcheck.usecases.search_results import SearchResultsAnswer

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
        "(earlier sources were not all looked at), `stored_as_other` (the same payload is declared as something else, "
        "so that sections cannot be read), `said_before` (it was stored before, and something that is said of it "
        "now was not taken)."
    ),
    headers=("Idempotency-Key", *CODED),
    body=((JSON, "SearchResultsRequest"),),
    answers=(
        DocumentedAnswer(status=201, description="Stored.", model=SearchResultsAnswer, headers=("Location",)),
        DocumentedAnswer(
            status=200,
            description="This very response was there already.",
            model=SearchResultsAnswer,
            headers=("Location",),
        ),
        DocumentedAnswer(
            status=202,
            description="Storage did not take it: `stored` is false, and the text cites sections alone.",
            model=SearchResultsAnswer,
            headers=("Location",),
        ),
    ),
    problems=(*BODY, *INGEST, Code.ARTIFACT_NOT_FOUND, Code.INVALID_JSON, Code.INVALID_CONTENT, Code.INTEGRITY),
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
    answers=(DocumentedAnswer(status=200, description="One result for each quotation.", model=views.VerifiedView),),
    problems=(*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT),
)
