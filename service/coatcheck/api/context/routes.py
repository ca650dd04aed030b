"""Contexts of models: a request body made smaller, and how full one is."""

import asyncio

from coatcheck.api.checks import checked_labels, plain
from coatcheck.api.context.wire import CompactBody, CompactView, MeasureBody, compact_view
from coatcheck.api.durations import given_seconds
from coatcheck.api.http.access import INGEST
from coatcheck.api.http.json_body import BOM, MENDED, decode_aside, mend
from coatcheck.api.route import JSON, JSON_BODY, Call, route
from coatcheck.core.context import Measured
from coatcheck.usecases.compact import CompactRequest, HistoryBody
from coatcheck.usecases.find_or_ingest import PayloadRetention


@route(
    "POST /v1/context/compact",
    scope=INGEST,
    tag="Contexts",
    body={JSON: CompactBody},
    answers={200: "The body to send, and the report."},
    problems=JSON_BODY,
)
async def compact_context(call: Call) -> CompactView:
    """Make a model request smaller.

    Takes a request body in any provider's format, stores what is bulky in it (oversized tool outputs, arguments of
    completed calls, on request images), and answers the same body with cards and markers in their place: the same
    items in the same order, with the same roles, IDs and names; everything else is byte for byte as it came. Over
    `max_tokens` the oldest messages are left out, with a notice. The same history gives the same bytes every turn,
    and compacting a compacted body changes nothing.

    `report` names the first changed message, every change, what is large and stays, the thinking blocks that are now
    invalid, and in `send` the headers and fields that must then go with every later request of the conversation. What
    is stored already is found by its identity (session, call ID, payload) and not stored again. What cannot be stored
    is cut head and tail where it stands, which the text and `warnings` say.

    Nothing is remembered of the body. Estimates of tokens are of o200k_base; `meters` are scaled by `usage`.
    """
    with call.context.budget.room() as room:
        data = (await call.json_bytes(call.limits.json_body, room)).removeprefix(BOM)
        asked, mended = await decode_aside(data, CompactBody)
        decodable = await asyncio.to_thread(mend, data) if mended else None
        body = HistoryBody(data, asked.body, "body", decodable)
        ask = CompactRequest(
            policy=asked.policy.policy(),
            format=asked.format,
            keep=PayloadRetention(
                session=plain(asked.session, "session"),
                labels=checked_labels(asked.labels),
                ttl=given_seconds(asked.ttl, "ttl"),
                idle_ttl=given_seconds(asked.idle_ttl, "idle_ttl"),
                pinned=asked.pin,
            ),
            ask=asked.ask(),
            notices=(MENDED,) if mended else (),
        )
        del data, decodable, asked
        made = await call.services.compact(call.caller, body, ask)
        del body
        await asyncio.sleep(0)  # until the loop goes on, it holds what it was woken with: the whole body as values
    return compact_view(made)


@route(
    "POST /v1/context/measure",
    scope=INGEST,
    tag="Contexts",
    body={JSON: MeasureBody},
    answers={200: "The account."},
    problems=JSON_BODY,
)
async def measure_context(call: Call) -> Measured:
    """Say how full a context is.

    `next_turn` is instructions, tools and the history that stays; `this_turn` adds the tool payload that is in flight
    and becomes cards when the turn is over. Each in tokens and in percent of the window that is usable: the model's
    less what the host does not offer, the output reserve, the safety margin, and what lies beyond the host's
    compaction limit, all of which `window.taken` lists. `should_compact` advises from `compact_percent` on. Nothing
    is stored but, with a `session`, the two numbers.
    """
    with call.context.budget.room() as room:
        data = await call.json_bytes(call.limits.json_body, room)
        asked, _ = await decode_aside(data, MeasureBody)
        del data
        ask = asked.ask()
        session = plain(asked.session, "session")
        return await call.services.measure(
            call.caller, asked.body, ask, asked.policy.policy(), named=asked.format, session=session
        )
