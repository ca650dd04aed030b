"""What the OpenAPI document says of contexts and their accounts. Values only; see `docs`."""

from typing import Final

from coatcheck.api.context import views
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.context import Measured
from coatcheck.core.errors import Code

TAG: Final = "Contexts"
_SENT: Final = (*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT)

COMPACT: Final = Doc(
    operation_id="compactContext",
    tag=TAG,
    summary="Make a model request smaller",
    description=(
        "Takes a request body in any provider's format, stores what is bulky in it (oversized tool outputs, arguments "
        "of completed calls, on request images), and answers the same body with cards and markers in their place: the "
        "same items in the same order, with the same roles, IDs and names; everything else is byte for byte as it "
        "came. Over `max_tokens` the oldest messages are left out, with a notice. The same history gives the same "
        "bytes every turn, and compacting a compacted body changes nothing.\n\n"
        "`report` names the first changed message, every change, what is large and stays, the thinking blocks that are "
        "now invalid, and in `send` the headers and fields that must then go with every later request of the "
        "conversation. What is stored already is found by its identity (session, call ID, payload) and not stored "
        "again. What cannot be stored is cut head and tail where it stands, which the text and `warnings` say.\n\n"
        "Nothing is remembered of the body. Estimates of tokens are of o200k_base; `meters` are scaled by `usage`."
    ),
    headers=CODED,
    body=((JSON, "CompactRequest"),),
    answers=(DocumentedAnswer(status=200, description="The body to send, and the report.", model=views.CompactView),),
    problems=_SENT,
)
MEASURE: Final = Doc(
    operation_id="measureContext",
    tag=TAG,
    summary="Say how full a context is",
    description=(
        "`next_turn` is instructions, tools and the history that stays; `this_turn` adds the tool payload that is in "
        "flight and becomes cards when the turn is over. Each in tokens and in percent of the window that is usable: "
        "the model's less what the host does not offer, the output reserve, the safety margin, and what lies beyond "
        "the host's compaction limit, all of which `window.taken` lists. `should_compact` advises from "
        "`compact_percent` on. Nothing is stored but, with a `session`, the two numbers."
    ),
    headers=CODED,
    body=((JSON, "MeasureRequest"),),
    answers=(DocumentedAnswer(status=200, description="The account.", model=Measured),),
    problems=_SENT,
)
USAGE: Final = Doc(
    operation_id="getSessionUsage",
    tag=TAG,
    summary="What a session's tokens came to",
    description=(
        "Payloads taken in and what was given out in their place, read-backs, and what was saved. Written down every "
        "second: a crash loses the last second or two of counting, other replicas' last second is not in it yet. A "
        "session that nothing was counted for has zeros. The account goes with the session, or after 90 days without "
        "a request."
    ),
    answers=(DocumentedAnswer(status=200, description="The account.", model=views.SessionUsageView),),
)
