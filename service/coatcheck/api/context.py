"""Routes that compact a model request, and measure how full a context is."""

import asyncio
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, convert, structs

from coatcheck.api.http.access import INGEST
from coatcheck.api.http.json_body import BOM, MENDED, decode_aside, mend
from coatcheck.api.parameters import IdleTtl, LabelList, Pin, Session, Ttl, describe, plain, seconds_or_unset
from coatcheck.api.route import JSON, JSON_BODY, RouteCall, route
from coatcheck.core.context.body.encoding import as_object, decode
from coatcheck.core.context.body.model import Format
from coatcheck.core.context.measure import ContextMeasurement, MeasureRequest
from coatcheck.core.context.policy import MAX_WINDOW_TOKENS, CompactionPolicy
from coatcheck.core.context.window import ModelWindow, input_tokens
from coatcheck.usecases.context.compact_context import CompactAnswer, CompactRequest
from coatcheck.usecases.context.measure_context import HistoryBody
from coatcheck.usecases.payloads.find_or_ingest import PayloadRetention

_HISTORY_EXAMPLE: Final = {
    "model": "gpt-5.6",
    "messages": [
        {"role": "user", "content": "Why does the build fail?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_8f2a", "type": "function", "function": {"name": "make", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_8f2a", "content": "FAILED tests/test_import.py\n"},
    ],
}
"""A history with one tool output, in the format of OpenAI Chat Completions."""

Body = Annotated[
    Raw,
    Meta(
        description="A request body as the provider receives it, or only its list of messages: OpenAI Chat "
        "Completions, OpenAI Responses and `/responses/compact`, Anthropic Messages, Gemini "
        "generateContent, Bedrock Converse, LangChain messages (`messages_to_dict`, `dumpd`, or flat as LangGraph's "
        "servers send them), pydantic-ai's messages. Anything else, and a message whose role cannot be read, is "
        "`unknown_format`, with a pointer to the first message that does not fit.",
        examples=[_HISTORY_EXAMPLE],
        extra_json_schema={"anyOf": [{"type": "object"}, {"type": "array", "items": {}}]},
    ),
]
FormatName = Annotated[Format, Meta(description="The body's format. Default: detected by its structure.")]
Tokens = Annotated[int, Meta(ge=0, le=MAX_WINDOW_TOKENS)]


class HistoryRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body, and what is known about it."""

    body: Body
    """Raw JSON at first; `__post_init__` replaces it by the decoded values."""
    format: FormatName | None = None
    session: Session | None = None
    policy: CompactionPolicy | None = None
    """How to compact; None: the defaults. In a measurement, it also decides the default of `outputs_stay`."""
    window: ModelWindow | None = None
    """The context window; None: the window of the body's model, if its name is known."""
    usage: Annotated[
        Any,
        Meta(
            description="The provider's `usage` object, unchanged, of this conversation's last answered request, or "
            "its number of input tokens. Estimates are scaled by it. If it contains no plausible number, the estimate "
            "stands, and a note says so.",
            examples=[{"input_tokens": 8120, "cache_read_input_tokens": 7000, "output_tokens": 220}],
        ),
    ] = None
    covers: (
        Annotated[
            int,
            Meta(
                ge=0,
                description="How many of the body's messages the request of `usage` had. Default: those before the "
                "model's last step.",
            ),
        ]
        | None
    ) = None
    transient_tokens: Annotated[
        Tokens, Meta(description="Tokens of tool payload of this turn that are not in the body.")
    ] = 0
    persisted_tokens: Annotated[
        Tokens, Meta(description="Tokens of summaries that will be in the next turn and are not in the body yet.")
    ] = 0
    compact_percent: Annotated[
        int, Meta(ge=1, le=100, description="Percentage of the usable window from which compaction is advised.")
    ] = 80

    def __post_init__(self) -> None:
        """Decodes the body into values whose long texts take little memory.

        Raises:
            msgspec.DecodeError: the JSON of a text is invalid.
            UnicodeDecodeError: a text is not valid UTF-8.
        """
        self.body = decode(self.body)

    def compaction(self) -> CompactionPolicy:
        """Returns the request's policy; the default policy if it has none."""
        return self.policy or CompactionPolicy()

    def request(self) -> MeasureRequest:
        """Returns the request for a measurement, without the body."""
        request = convert(self, MeasureRequest, from_attributes=True)
        return structs.replace(request, real_tokens=_real(self.usage), outputs_stay=self.stay())

    def stay(self) -> bool | None:
        """Returns whether this turn's outputs stay as they are after the turn: no, unless a subclass says otherwise.

        None: the caller does not say.
        """
        return False


class MeasureBody(HistoryRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/context/measure`."""

    EXAMPLES: ClassVar = [{"body": _HISTORY_EXAMPLE, "window": {"model": 262144}}]

    outputs_stay: Annotated[
        bool | None,
        Meta(
            description="Whether this turn's outputs stay as they are when the turn is over. Default: they stay, "
            "except texts of web searches, which become their summaries, unless `policy` says how they are compacted. "
            "The answer's `assumes` repeats it."
        ),
    ] = None

    def stay(self) -> bool | None:
        """Returns `outputs_stay`; if it is not set, false with a policy and None without one."""
        return self.outputs_stay if self.outputs_stay is not None or self.policy is None else False


class CompactBody(HistoryRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/context/compact`."""

    EXAMPLES: ClassVar = [{"body": _HISTORY_EXAMPLE, "session": "run-42"}]

    labels: LabelList = ()
    ttl: Ttl | UnsetType = UNSET
    idle_ttl: IdleTtl | UnsetType = UNSET
    pin: Pin = False
    repair: Annotated[
        bool,
        Meta(
            description="Whether to mend what a provider would refuse: outputs without a call are left out, calls "
            "without an output get one that says that none was recorded, outputs apart from their calls are moved, "
            "halves of surrogate pairs become U+FFFD. `report.repaired` says what was done. Without this, such faults "
            "stay, and `report.notes` names them."
        ),
    ] = False
    tools: (
        Annotated[
            Literal["read_artifact", "none"],
            Meta(
                description="Which tool the model has: with `none`, cards do not print calls for reading further. "
                "Default: `none` if the body declares no `read_artifact`; a list of messages alone, LangChain's and "
                "pydantic-ai's, is taken to belong to an agent that has it."
            ),
        ]
        | None
    ) = None


def _real(usage: Any) -> int | None:  # noqa: ANN401 - whatever a caller takes for a usage
    """Returns the input tokens of a usage; 0 if it contains no plausible number, None if there is no usage."""
    if usage is None:
        return None
    tokens = input_tokens({"prompt_tokens": usage} if isinstance(usage, int) else as_object(usage))
    return tokens if tokens is not None and tokens <= MAX_WINDOW_TOKENS else 0


@route(
    "POST /v1/context/compact",
    scope=INGEST,
    tag="Contexts",
    body={JSON: CompactBody},
    answers={200: "The body to send, and the report."},
    problems=JSON_BODY,
)
async def compact_context(call: RouteCall) -> CompactAnswer:
    """Make a model request smaller.

    Takes a request body in any provider's format, stores its bulky parts (oversized tool outputs, arguments of
    completed calls, images on request), and returns the same body with cards and markers in their place: the same items
    in the same order, with the same roles, IDs and names, and everything else byte for byte unchanged. In turns that
    are over, answers of `read_artifact` become one line, and the texts of `/v1/search-results` become their summaries.
    The same history gives the same bytes every turn, and compacting a compacted body changes nothing.

    The budget is `max_tokens`, or else the `window`, or else the window of the model if its name is known. A body over
    budget loses the following, in this order and only as far as needed: outputs (oldest first), long arguments of any
    completed call, outputs of finished steps of this turn, files that the model asked for, the middle of long messages,
    and then the oldest messages, which are stored as one artifact and replaced by a notice that names it. `report.over`
    says by how much a body still exceeds its budget, and what would have to go.

    `report` lists the first changed message, every change, the large parts that stay, the thinking blocks that are now
    invalid, and in `send` the headers and fields to send with every later request of the conversation. A payload that
    is already stored is found by its identity (session, call ID, payload) and not stored again. A payload that cannot
    be stored is cut in place to its head and tail; its text and `warnings` say so. If an output equals an earlier one
    byte for byte, the text in its place says so instead of showing excerpts. The answer is never larger than the given
    body. The body itself is not kept. `report.notes` names the faults for which a provider would refuse the body
    (outputs without calls, calls without outputs, halves of surrogate pairs); with `repair`, these are mended first.
    Tokens are estimated with o200k_base; `meters` are scaled by `usage`.
    """
    with call.context.budget.reserve() as reservation:
        data = (await call.json_bytes(call.limits.json_body, reservation)).removeprefix(BOM)
        compact_body, mended = await decode_aside(data, CompactBody)
        # Unchanged parts are copied from the bytes as sent. The values were decoded from the mended bytes, in which
        # every position is the same.
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
        # Release the largest values as early as possible: objects take many times the memory of their JSON.
        del data, decodable, compact_body
        result = await call.services.compact(call.caller, body, request)
        del body
        # The event loop keeps the result that woke this task, which is the whole body, until its next turn.
        await asyncio.sleep(0)
    return result


@route(
    "POST /v1/context/measure",
    scope=INGEST,
    tag="Contexts",
    body={JSON: MeasureBody},
    answers={200: "The account."},
    problems=JSON_BODY,
)
async def measure_context(call: RouteCall) -> ContextMeasurement:
    """Measure how full a context is.

    `next_turn` counts instructions, tools and the history that stays; `this_turn` adds the tool payload of this turn
    that will not stay. If neither a `policy` nor `outputs_stay` is given, the caller is assumed to keep all outputs at
    the end of a turn, except the texts of web searches, which become their summaries. With `outputs_stay: true`, these
    texts are assumed to stay too. With a `policy` or `outputs_stay: false`, outputs are assumed to be compacted, as the
    policy does it without pressure. `assumes` says which of these applies.

    Both numbers are given in tokens and as a percentage of the usable window: the model's window minus what the host
    does not offer, the output reserve, the safety margin, and everything beyond the host's compaction limit, as listed
    in `window.taken`. Without a `window`, the model's own window is used, if its name is known. `line` puts the numbers
    into words for a status bar, `lines` does so in three lines, with the payload of this turn's web searches
    (`search_payload`), and `turns` lists the size of each turn. `should_compact` becomes true at `compact_percent`. The
    numbers are those of `meters.before` of a compaction of the same body. Nothing is stored, except these numbers if a
    `session` is given.
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
