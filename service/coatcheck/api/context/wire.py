"""What requests about contexts say and are answered: a model's request body, what to do with it, its account."""

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from coatcheck.api.parameters import IdleTtl, Labels, Pin, Session, Ttl
from coatcheck.api.views import Warned, copy_fields, warnings_view
from coatcheck.core.context import (
    CompactionPolicy,
    CompactionRule,
    Format,
    MeasureRequest,
    Meters,
    ModelWindow,
    Report,
    input_tokens,
)
from coatcheck.core.context.policy import BOUNDS, LEAST_BUDGET
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.usecases.compact import Compacted, KeptPayload

_SHOWN: Final = CompactionPolicy()
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
_MOST: Final = 100_000_000
"""Tokens of the largest window or usage that is believed."""

Body = Annotated[
    Any,
    Meta(
        description="A request body as the provider gets it, or its list of messages alone: OpenAI Chat Completions, "
        "OpenAI Responses and `/responses/compact`, Anthropic Messages, Gemini generateContent, LangChain messages "
        "(`messages_to_dict` or `dumpd`)."
    ),
]
FormatName = Annotated[Format, Meta(description="The body's format. Absent: detected by its structure.")]
Tokens = Annotated[int, Meta(ge=0, le=_MOST)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Names = Annotated[tuple[Name, ...], Meta(max_length=256)]


class ArgumentRuleAsk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which arguments of which tools become markers once the call is done."""

    tools: Annotated[Names, Meta(description="Compared without case and a host's prefix.")] = CompactionRule().tools
    fields: Annotated[Names, Meta(description="Names of arguments at any depth; `*` for every text.")] = (
        CompactionRule().fields
    )


def _tokens(name: str) -> Any:  # noqa: ANN401 - an annotation
    least, most = BOUNDS[name]
    return Meta(ge=least, le=most)


class PolicyAsk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a body is compacted. Every size is in tokens of o200k_base."""

    inline_tokens: Annotated[
        int, _tokens("inline_tokens"), Meta(description="An output's text of at most this stays as it is.")
    ] = _SHOWN.inline_tokens
    card_tokens: Annotated[
        int, _tokens("card_tokens"), Meta(description="No card is larger; at most `inline_tokens`.")
    ] = _SHOWN.card_tokens
    protect: Annotated[
        Literal["turn", "step", "none"],
        Meta(
            description="What is spared while the model works with it. `turn`: everything from the last message of the "
            "user on, and the model's last step before it. `step`: the model's last step and what came back since. "
            "`none`: nothing but calls without an output, so that an output is a card from its first request on, which "
            "costs no prompt cache and no thinking."
        ),
    ] = _SHOWN.protect
    latest_tokens: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=_MOST,
                description="A protected output's text over this becomes a card all the same; null spares any size. "
                "Less than `inline_tokens` is as much as these.",
            ),
        ]
        | None
    ) = _SHOWN.latest_tokens
    exempt_tools: Annotated[
        Names, Meta(description="Outputs of these never become cards, their arguments never markers.")
    ] = _SHOWN.exempt_tools
    arguments: Annotated[
        tuple[ArgumentRuleAsk, ...],
        Meta(max_length=64, description="Default: the content of tools that write files."),
    ] = (ArgumentRuleAsk(),)
    argument_tokens: Annotated[
        int, _tokens("argument_tokens"), Meta(description="An argument of at most this stays as it is.")
    ] = _SHOWN.argument_tokens
    media: Annotated[
        Literal["keep", "placeholder"],
        Meta(description="Whether images and files in outputs that are not protected become placeholders."),
    ] = _SHOWN.media
    server_tools: Annotated[
        bool, Meta(description="Whether text of tools that the provider ran itself is replaced, too.")
    ] = _SHOWN.server_tools
    batch_tokens: Annotated[
        int,
        _tokens("batch_tokens"),
        Meta(
            description="What is out of protection waits until this can be saved at once, so that the prompt's cached "
            "prefix changes rarely."
        ),
    ] = _SHOWN.batch_tokens
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=LEAST_BUDGET,
                le=_MOST,
                description="Budget of the whole body; over it the oldest messages are left out at last, with a "
                "notice. Null: nothing is ever left out.",
            ),
        ]
        | None
    ) = _SHOWN.max_tokens
    settle_percent: Annotated[
        int,
        _tokens("settle_percent"),
        Meta(description="A body over its budget is brought to this much of it, so that the next turns need nothing."),
    ] = _SHOWN.settle_percent

    def policy(self) -> CompactionPolicy:
        """In the core's words."""
        rules = tuple(copy_fields(CompactionRule, rule) for rule in self.arguments)
        return copy_fields(CompactionPolicy, self, arguments=rules)


class WindowAsk(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a model has room for, and what of it is not for the conversation; in tokens."""

    model: Annotated[int, Meta(ge=1, le=_MOST, description="The model's whole window.", examples=[262144])]
    shown: (
        Annotated[
            int, Meta(ge=1, le=_MOST, description="The window that the host shows or allows, where it is another.")
        ]
        | None
    ) = None
    output_reserve: Annotated[Tokens, Meta(description="Kept for the answer.")] = 0
    safety_margin: Tokens = 0
    compaction_limit: Annotated[int, Meta(ge=1, le=_MOST, description="Where the host compacts by itself.")] | None = (
        None
    )


class HistoryRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A body, and what is known beside it."""

    body: Body
    format: FormatName | None = None
    session: Session | None = None
    policy: PolicyAsk = PolicyAsk()
    window: WindowAsk | None = None
    usage: Annotated[
        dict[str, Any] | Annotated[int, Meta(ge=1, le=_MOST)] | None,
        Meta(
            description="The provider's `usage` of the last request of this conversation that was answered, as it "
            "came, or its input tokens: estimates are scaled by it.",
            examples=[{"input_tokens": 8120, "cache_read_input_tokens": 7000, "output_tokens": 220}],
        ),
    ] = None
    covers: (
        Annotated[
            int,
            Meta(
                ge=0,
                description="How many of the body's messages that request had. Absent: those before the model's last "
                "step.",
            ),
        ]
        | None
    ) = None
    transient_tokens: Annotated[Tokens, Meta(description="Tool payload of this turn that is not in the body.")] = 0
    persisted_tokens: Annotated[
        Tokens, Meta(description="Summaries that will be in the next turn and are not in the body yet.")
    ] = 0
    compact_percent: Annotated[
        int, Meta(ge=1, le=100, description="From how much of the usable window compaction is advised.")
    ] = 80

    def ask(self) -> MeasureRequest:
        """In the core's words.

        Raises:
            CoatcheckError: `invalid_request` for a usage that says no input tokens.
        """
        window = None if self.window is None else copy_fields(ModelWindow, self.window)
        return copy_fields(MeasureRequest, self, window=window, real_tokens=_real(self.usage))


class MeasureBody(HistoryRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/context/measure`."""

    EXAMPLES: ClassVar = [{"body": _HISTORY_EXAMPLE, "window": {"model": 262144}}]

    outputs_stay: Annotated[
        bool, Meta(description="Nothing is compacted when the turn is over: every output stays as it is.")
    ] = False


class CompactBody(HistoryRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/context/compact`."""

    EXAMPLES: ClassVar = [{"body": _HISTORY_EXAMPLE, "session": "run-42"}]

    labels: Labels = ()
    ttl: Ttl | UnsetType = UNSET
    idle_ttl: IdleTtl | UnsetType = UNSET
    pin: Pin = False


def _real(usage: dict[str, Any] | int | None) -> int | None:
    if usage is None or isinstance(usage, int):
        return usage
    found = input_tokens(usage)
    if found is None or not 0 < found <= _MOST:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "'usage' names no input tokens. Give the provider's usage object as it came, their number, or nothing.",
            field="usage",
        )
    return found


class CompactView(Struct, frozen=True, kw_only=True):
    """What a compaction answers."""

    body: Annotated[
        Raw,
        Meta(description="The request body to send: what no change reaches is byte for byte what was given."),
    ]
    report: Annotated[Report, Meta(description="What changed and why, what stays and why, and what to send with it.")]
    meters: Annotated[
        Meters, Meta(description="This turn and the next, before and after: as `/v1/context/measure` counts them.")
    ]
    payloads: Annotated[
        tuple[KeptPayload, ...], Meta(description="What was stored of the body, now or before, and what could not be.")
    ]
    warnings: tuple[Warned, ...] = ()


def compact_view(made: Compacted) -> CompactView:
    """A compaction's answer as callers see it."""
    return copy_fields(CompactView, made, body=Raw(made.body), warnings=warnings_view(made.warnings))
