"""What the OpenAPI document says of looking artifacts up, changing and deleting them. Values only; see `docs`."""

from typing import Final

from coatcheck.api import parameters as fields
from coatcheck.api.artifacts import wire as views
from coatcheck.api.route import BODY, CODED, JSON, ONE, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

LIST: Final = Doc(
    operation_id="listArtifacts",
    tag="Artifacts",
    summary="List artifacts",
    description="Live artifacts, newest first; all given conditions hold, and with `q` all of its words are said. What "
    "was stored before the request is found, unless the answer says `partial`. An unknown parameter is an error.",
    query=fields.ListQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=views.ListView),),
    problems=(Code.INVALID_CURSOR, Code.OVERLOADED, Code.INTEGRITY),
)
GET: Final = Doc(
    operation_id="getArtifact",
    tag="Artifacts",
    summary="Look an artifact up",
    description="Its metadata and its card, byte for byte the one that ingest answered at the default budget.",
    answers=(DocumentedAnswer(status=200, description="Metadata and card.", model=views.DescribedView),),
    problems=(*ONE, Code.INTEGRITY),
)
PATCH: Final = Doc(
    operation_id="changeArtifact",
    tag="Artifacts",
    summary="Change how long it is kept, its pin, its labels",
    description="What is left out stays as it is. A new `ttl` counts from creation.",
    body=((JSON, "PatchRequest"), ("application/merge-patch+json", "PatchRequest")),
    headers=CODED,
    answers=(DocumentedAnswer(status=200, description="The artifact as it is now.", model=views.ArtifactView),),
    problems=(*ONE, *BODY, Code.INVALID_JSON),
)
DELETE: Final = Doc(
    operation_id="deleteArtifact",
    tag="Artifacts",
    summary="Delete an artifact",
    description="From now on every route answers that it is gone; its bytes are removed a little later.",
    answers=(DocumentedAnswer(status=204, description="Deleted."),),
    problems=(*ONE, Code.HELD),
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
    answers=(DocumentedAnswer(status=200, description="Deleted.", model=views.DeletedView),),
    problems=(Code.HELD,),
)
CARD: Final = Doc(
    operation_id="getCard",
    tag="Reading",
    summary="Cut the card again",
    description="At another budget, for another query, or for a model that has no tool to read on with (`tools=none`). "
    "As JSON, or as the text alone with `Accept: text/plain`.",
    query=fields.CardQuery,
    answers=(DocumentedAnswer(status=200, description="The card.", model=views.CardView, other=("text/plain",)),),
    problems=(*ONE, Code.INTEGRITY),
)
