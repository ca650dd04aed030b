"""Models' windows and prices: the budget within which compaction keeps a body, and when rewriting pays.

A window is given with the request, or known by the model's name. The tokens that the request reserves for its answer
are always subtracted. Estimates are in tokens of o200k_base, but windows are in the model's own tokens; therefore the
budget is the window divided by the factor of the model's family. Without a given window and a known model there is no
budget, and nothing is ever left out.

With a prompt cache, each request pays a part of the price again for tokens that could have been replaced. Replacing
them costs something once: everything behind them is written to the cache anew instead of being read from it.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from coatcheck.core.context.body.encoding import Value, as_list, as_object, as_text
from coatcheck.core.context.body.model import Format, HistoryIndex
from coatcheck.core.context.body.splice import Pointer, get
from coatcheck.core.context.policy import MAX_WINDOW_TOKENS, MIN_BUDGET_TOKENS, CompactionPolicy
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.model_windows import find_window, plain_name
from coatcheck.core.views.window import NUMBER_LIMIT

_WHOLE: Final = ("prompt_tokens", "promptTokenCount", "prompt_token_count")
_CACHED: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")


def input_tokens(usage: Mapping[str, Value]) -> int | None:
    """Returns all input tokens that a usage reports, including cached ones; None if it reports none.

    OpenAI, Gemini and LangChain report the sum; Anthropic reports cached tokens separately from `input_tokens`.
    """
    for name in _WHOLE:
        if _is_count(usage.get(name)):
            return int(usage[name])
    if not _is_count(usage.get("input_tokens")):
        return None
    return int(usage["input_tokens"]) + sum(int(usage[name]) for name in _CACHED if _is_count(usage.get(name)))


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def scale_tokens(tokens: int, numerator: int, denominator: int) -> int:
    """Returns `tokens` times `numerator` / `denominator`, rounded half up."""
    return (2 * tokens * numerator + denominator) // (2 * denominator)


def percent(part: int, whole: int) -> float:
    """Returns `part` of `whole` in percent with one decimal, rounded half up; 100 if `whole` is 0."""
    return scale_tokens(part, 1_000, whole) / 10 if whole > 0 else 100.0


_OLDER_CLAUDE: Final = re.compile(r"claude-(?:[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?:-[0-6])?(?!\d|-7|-8|-9)))")
FAMILIES: Final = {"claude": 175, "older claude": 135, "gemini": 115, "other": 100}
"""Tokens of a family of models per 100 tokens of o200k_base. Claude from 4.7 on has a tokenizer with about 30 % more
tokens than before, and was measured at 1.57 to 2.08 times o200k_base; Gemini takes about four characters per token."""
_RESERVE_TOKENS: Final = 32_000
"""Tokens reserved for an answer if the request sets no limit, but never more than the model's own limit."""
_OUTPUT_LIMITS: Final = frozenset({"maxtokens", "maxcompletiontokens", "maxoutputtokens"})
"""Names of fields in which requests limit the answer's tokens, in lower case and without `_`."""
_SETTINGS: Final[tuple[Pointer, ...]] = (
    (),
    ("generationConfig",),
    ("generation_config",),
    ("config",),
    ("config", "configurable"),
    ("inferenceConfig",),
    ("additionalModelRequestFields",),
    ("model_settings",),
    ("kwargs",),
)
"""Places of the objects in a request that may contain such a field."""
_NAMES: Final = ("model", "modelId", "model_name", "ls_model_name")
_AROUND: Final[tuple[Pointer, ...]] = ((), ("metadata",), ("config", "metadata"))
_ANSWERED_BY: Final[tuple[Pointer, ...]] = (
    (),
    ("response_metadata",),
    ("data", "response_metadata"),
    ("kwargs", "response_metadata"),
)
"""Places where bodies name their model, and where messages of pydantic-ai and LangChain name the model that wrote
them."""
_RECENT_MESSAGES: Final = 20
"""Number of latest messages that are searched for the model's name."""


_Reserve = Annotated[int, Meta(ge=0, le=MAX_WINDOW_TOKENS)]


class ModelWindow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size of a model's window, and how much of it is reserved; in tokens."""

    model: Annotated[int, Meta(ge=1, le=MAX_WINDOW_TOKENS, description="The model's whole window.", examples=[262144])]
    shown: (
        Annotated[
            int,
            Meta(ge=1, le=MAX_WINDOW_TOKENS, description="The window that the host shows or allows, if it differs."),
        ]
        | None
    ) = None
    output_reserve: Annotated[_Reserve, Meta(description="Kept for the answer.")] = 0
    safety_margin: _Reserve = 0
    compaction_limit: (
        Annotated[int, Meta(ge=1, le=MAX_WINDOW_TOKENS, description="The size at which the host compacts by itself.")]
        | None
    ) = None


class WindowDeduction(Struct, frozen=True):
    """A part of the model's window that is not for the conversation."""

    name: str
    tokens: int


class UsableWindow(Struct, frozen=True, kw_only=True):
    """The windows: `model` less everything in `taken` is `usable`."""

    model: int
    shown: int | None
    usable: int
    taken: list[WindowDeduction]


class CompactionBudget(Struct, frozen=True, kw_only=True):
    """The tokens, as estimated, within which compaction keeps a body."""

    limit: int
    """Maximum tokens of a body that fits."""
    start: int
    """Tokens above which a body is made smaller."""
    target: int
    """Tokens to which a body is reduced."""
    source: str
    """Origin of the budget: `max_tokens` of the policy, `window` if one was given, `model` if it is known by its
    name."""


def room_of(window: ModelWindow) -> UsableWindow:
    """Returns the usable part of a window, and what is deducted from the whole.

    Raises:
        CoatcheckError: `invalid_request` if nothing of the window is usable.
    """
    deductions = [
        WindowDeduction("output reserve", window.output_reserve),
        WindowDeduction("safety margin", window.safety_margin),
    ]
    if window.shown is not None and window.shown < window.model:
        deductions.insert(0, WindowDeduction("not offered by the host", window.model - window.shown))
    usable = window.model - sum(one.tokens for one in deductions)
    if window.compaction_limit is not None and window.compaction_limit < usable:
        deductions.append(WindowDeduction("beyond the host's compaction limit", usable - window.compaction_limit))
        usable = window.compaction_limit
    if usable <= 0 or any(one.tokens < 0 for one in deductions):
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"Of a window of {window.model:,} tokens {usable:,} are left for the conversation. Leave it some.",
            field="window",
        )
    return UsableWindow(
        model=window.model, shown=window.shown, usable=usable, taken=[one for one in deductions if one.tokens]
    )


def family_percent(body: Value, index: HistoryIndex) -> int:
    """Returns how many tokens the model's family has for 100 tokens of o200k_base."""
    model = model_of(body)
    # A known model of another maker has its maker's tokenizer, even if its server uses this format.
    by_format = index.format if find_window(model) is None else None
    return percent_of(model, claude=by_format is Format.ANTHROPIC, gemini=by_format is Format.GEMINI)


def percent_of(model: str, *, claude: bool, gemini: bool) -> int:
    """Returns how many tokens a model has for 100 of o200k_base, by its name or else by the format of the request."""
    if claude or "claude" in model:
        return FAMILIES["older claude" if _OLDER_CLAUDE.search(plain_name(model)) else "claude"]
    return FAMILIES["gemini" if gemini or "gemini" in model else "other"]


def budget_of(
    body: Value, index: HistoryIndex, policy: CompactionPolicy, window: ModelWindow | None, percent: int
) -> CompactionBudget | None:
    """Returns the budget of a body: from the policy, else from the given window, else from the model's known window.

    Within a window, compaction starts at `percent` of the usable part. Returns None if there is neither a limit nor a
    window.
    """
    if policy.max_tokens is not None:
        limit = start = policy.max_tokens
        source = "max_tokens"
    else:
        whole = window_of(body, window)
        if whole is None:
            return None
        # The window is in other tokens than the estimates, so it is converted by the factor of the model's family. A
        # factor from the reported usage would change with every request, and so would every earlier decision.
        limit = scale_tokens(room_of(whole).usable, 100, family_percent(body, index))
        start = min(max(limit * percent // 100, MIN_BUDGET_TOKENS), limit)
        source = "model" if window is None else "window"
    return CompactionBudget(limit=limit, start=start, target=start * policy.settle_percent // 100, source=source)


def window_of(body: Value, window: ModelWindow | None) -> ModelWindow | None:
    """Returns the window of a body, with the tokens that the body itself reserves for its answer; None if unknown.

    Args:
        body: a request body.
        window: the window that the caller gave; None uses the one known by the model's name.
    """
    # Formats and frameworks limit the answer in many places. The largest limit counts, since any may reach the
    # provider.
    fields = (field for at in _SETTINGS for field in as_object(get(body, at)).items())
    limits = [value for key, value in fields if key.replace("_", "").casefold() in _OUTPUT_LIMITS]
    # A number beyond NUMBER_LIMIT, which may have hundreds of digits, limits nothing.
    numbers = (int(one) for one in limits if isinstance(one, int | float) and 0 < one <= NUMBER_LIMIT)
    requested_output = max(numbers, default=0)
    if window is not None:
        return replace(window, output_reserve=max(window.output_reserve, requested_output))
    model_limits = find_window(model_of(body))
    if model_limits is None:
        return None
    # A request for more tokens than the whole window says nothing about how many will be used.
    reserve = requested_output if 0 < requested_output < model_limits.window else _RESERVE_TOKENS
    return ModelWindow(model=model_limits.window, output_reserve=min(reserve, model_limits.output))


def model_of(body: Value) -> str:
    """Returns the name of the model that a body names, else of the model of the latest answer.

    The name is in lower case, and empty if none is found. Names with a known window come first, since a host may have
    its own name for a model.
    """
    messages = as_list(body) or as_list(as_object(body).get("messages"))
    holders = [get(body, at) for at in _AROUND]
    holders += [get(one, at) for one in reversed(messages[-_RECENT_MESSAGES:]) for at in _ANSWERED_BY]
    raw_names = (as_text(as_object(holder).get(name)) for holder in holders for name in _NAMES)
    names = list(dict.fromkeys(name.casefold() for name in raw_names if name is not None))
    return next((name for name in names if find_window(name) is not None), next(iter(names), ""))


class CachePrice(Struct, frozen=True):
    """Prices of cached tokens, in percent of the price of input that is not cached."""

    read_percent: int
    write_percent: int

    def is_due(self, repeated: int, behind: int) -> bool:
        """Returns whether repeating the tokens has cost as much as rewriting the cache costs.

        Args:
            repeated: tokens that a replacement would have saved, summed over the requests that repeated them.
            behind: tokens from the first replacement to the end, which would be written anew.
        """
        return self.read_percent * repeated >= (self.write_percent - self.read_percent) * behind


_ANTHROPIC: Final = CachePrice(10, 125)
_OTHER: Final = CachePrice(10, 100)
_PRICES: Final = (
    (re.compile(r"claude"), _ANTHROPIC),
    (re.compile(r"gpt-4o|\bo1\b"), CachePrice(50, 100)),
    (re.compile(r"gpt-4-1\b|\bo[34]\b|gemini-2-0|kimi|moonshot|grok-[34]"), CachePrice(25, 100)),
)
"""Prices by a pattern in the model's name; the first match counts. From the providers' price pages, November 2026."""


def cache_price(body: Value, format_: Format) -> CachePrice:
    """Returns the prices of a request's model; for an unknown model, those of most providers' newest models."""
    name = plain_name(model_of(body))
    model_price = next((price for pattern, price in _PRICES if pattern.search(name)), None)
    return model_price or (_ANTHROPIC if format_ is Format.ANTHROPIC else _OTHER)
