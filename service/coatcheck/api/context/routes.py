"""Routes that compact a model request, and measure how full a context is."""

import asyncio

from coatcheck.api.checks import describe, plain
from coatcheck.api.context.wire import CompactBody, CompactView, MeasureBody, compact_view
from coatcheck.api.durations import seconds_or_unset
from coatcheck.api.http.access import INGEST
from coatcheck.api.http.json_body import BOM, MENDED, decode_aside, mend
from coatcheck.api.route import JSON, JSON_BODY, RouteCall, route
from coatcheck.core.context import Measured
from coatcheck.usecases.context.compact_context import CompactRequest
from coatcheck.usecases.context.examine_history import HistoryBody
from coatcheck.usecases.payloads.find_or_ingest import PayloadRetention


@route(
    "POST /v1/context/compact",
    scope=INGEST,
    tag="Contexts",
    body={JSON: CompactBody},
    answers={200: "The body to send, and the report."},
    problems=JSON_BODY,
)
async def compact_context(call: RouteCall) -> CompactView:
    """Make a model request smaller.

    Takes a request body in any provider's format, stores its bulky parts (oversized tool outputs, arguments of
    completed calls, images on request), and returns the same body with cards and markers in their place: the same items
    in the same order, with the same roles, IDs and names, and everything else byte for byte unchanged. In turns that
    are over, answers of `read_artifact` become one line, and the texts of `/v1/search-results` their summaries. The
    same history gives the same bytes every turn, and compacting a compacted body changes nothing.

    The budget is `max_tokens`, or else the `window`, or else the window of the model if its name is known. A body over
    budget loses the following, in this order and only as far as needed: outputs (oldest first), long arguments of any
    completed call, outputs of finished steps of this turn, files that the model asked for, the middle of long messages,
    and then the oldest messages, which are stored as one artifact and replaced by a notice that names it. `report.over`
    says by how much a body still exceeds its budget, and what would have to go.

    `report` lists the first changed message, every change, what is large and stays, the thinking blocks that are now
    invalid, and in `send` the headers and fields to send with every later request of the conversation. A payload that
    is already stored is found by its identity (session, call ID, payload) and not stored again. A payload that cannot
    be stored is cut in place to its head and tail; its text and `warnings` say so. An output that equals an earlier
    one, byte for byte, says so instead of showing excerpts. The answer is never larger than the given body. The body
    itself is not kept. `report.notes` names what a provider would refuse (outputs without calls, calls without outputs,
    halves of surrogate pairs); `repair` mends it first. Token estimates are of o200k_base; `meters` are scaled by
    `usage`.
    """
    with call.context.budget.reserve() as reservation:
        data = (await call.json_bytes(call.limits.json_body, reservation)).removeprefix(BOM)
        compact_body, mended = await decode_aside(data, CompactBody)
        decodable = await asyncio.to_thread(mend, data) if mended else None
        body = HistoryBody(data, compact_body.body, "body", decodable)
        adjusted, notices = describe({"labels": compact_body.labels})
        request = CompactRequest(
            policy=compact_body.compaction(),
            format=compact_body.format,
            keep=PayloadRetention(
                session=plain(compact_body.session, "session"),
                labels=adjusted["labels"],
                ttl=seconds_or_unset(compact_body.ttl, "ttl"),
                idle_ttl=seconds_or_unset(compact_body.idle_ttl, "idle_ttl"),
                pinned=compact_body.pin,
            ),
            ask=compact_body.request(),
            repair=compact_body.repair,
            tools=compact_body.tools,
            notices=(*((MENDED,) if mended else ()), *notices),
        )
        del data, decodable, compact_body
        result = await call.services.compact(call.caller, body, request)
        del body
        await asyncio.sleep(0)  # until its next turn, the loop holds the result that woke this task: the whole body
    return compact_view(result)


@route(
    "POST /v1/context/measure",
    scope=INGEST,
    tag="Contexts",
    body={JSON: MeasureBody},
    answers={200: "The account."},
    problems=JSON_BODY,
)
async def measure_context(call: RouteCall) -> Measured:
    """Measure how full a context is.

    `next_turn` counts instructions, tools and the history that stays; `this_turn` adds the tool payload in flight.
    Unless a `policy` (or `outputs_stay: false`) is given, the caller is assumed not to compact at the end of a turn,
    but to replace the texts of web searches by their summaries (`outputs_stay: true`: not even these); otherwise the
    policy is applied as it is without pressure. `assumes` says which. Both numbers are given in
    tokens and as a percentage of the usable window: the model's window minus what the host does not offer, the output
    reserve, the safety margin, and everything beyond the host's compaction limit, as listed in `window.taken`. `line`
    puts it into words for a status bar, `lines` does so in three lines, with the payload of this turn's web searches
    (`search_payload`), and `turns` lists the size of each turn. `should_compact` becomes true at
    `compact_percent`. The numbers are those of `meters.before` of a compaction of the same body. Without a `window`,
    the model's own counts, if it is known by its name. Nothing is stored except, with a `session`, these numbers.
    """
    with call.context.budget.reserve() as reservation:
        data = await call.json_bytes(call.limits.json_body, reservation)
        measure_body, mended = await decode_aside(data, MeasureBody)
        body = (
            HistoryBody(data.removeprefix(BOM), measure_body.body, "body", data)
            if mended
            else HistoryBody(b"", measure_body.body)
        )
        del data
        request = measure_body.request()
        session = plain(measure_body.session, "session")
        return await call.services.measure(
            call.caller, body, request, measure_body.compaction(), format_name=measure_body.format, session=session
        )
