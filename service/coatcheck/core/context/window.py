"""Models' windows: which part is for the conversation, and the budget within which compaction keeps a body.

A window is given with the request or known by the model's name. Estimates are of o200k_base, but windows are in the
model's own tokens, so a budget is the window divided by the factor of the model's family. Without a window and a known
model there is no budget, and nothing is ever left out.
"""

import re
from typing import Final

from msgspec import Struct

from coatcheck.core.context.body.model import Format, HistoryIndex
from coatcheck.core.context.body.pointer import get
from coatcheck.core.context.body.shape import Value
from coatcheck.core.context.policy import LEAST_BUDGET, CompactionPolicy
from coatcheck.core.context.usage import scaled
from coatcheck.core.errors import CoatcheckError, Code

_OLDER_CLAUDE: Final = re.compile(r"claude-(?:[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?:-[0-6])?(?!\d|-7|-8|-9)))")
FAMILIES: Final = {"claude": 175, "older claude": 135, "gemini": 115, "other": 100}
"""Percent of o200k_base's count. Claude from 4.7 on has a tokenizer with about 30 % more tokens than before, and was
measured at 1.57 to 2.08 times o200k_base; Gemini takes about four characters per token."""
_MODELS: Final = tuple(
    (re.compile(name), window, output)
    for name, window, output in (
        (
            r"claude-(?:fable|mythos)|claude-(?:opus|sonnet)-(?:4-[6-9]|[5-9])\b|claude-haiku-[5-9]\b",
            1_000_000,
            128_000,
        ),
        (r"claude", 200_000, 64_000),
        (r"gpt-5\.[4-9]-(?:mini|nano)", 400_000, 128_000),
        (r"gpt-5\.[4-9]|gpt-[6-9]", 1_050_000, 128_000),
        (r"gpt-5", 400_000, 128_000),
        (r"gpt-4\.1", 1_047_576, 32_768),
        (r"gpt-4o|gpt-4-turbo|chatgpt-4o", 128_000, 16_384),
        (r"\bo[134]\b", 200_000, 100_000),
        (r"gemini", 1_048_576, 65_536),
        (r"kimi-k2|qwen-?3|mistral-large|glm-[5-9]", 256_000, 32_000),
        (r"deepseek|glm-4", 128_000, 32_000),
    )
)
"""Windows and largest outputs in tokens, by what a model's name contains; the first match counts. From the providers'
own model pages as of November 2026; of a family whose members differ, the smallest."""
_RESERVE: Final = 32_000
"""Tokens reserved for an answer if the request sets no limit, unless the model's own is smaller."""
_OUTPUT_LIMITS: Final = (
    ("max_tokens",),
    ("max_completion_tokens",),
    ("max_output_tokens",),
    ("generationConfig", "maxOutputTokens"),
    ("generation_config", "max_output_tokens"),
    ("config", "max_output_tokens"),
)
"""Fields in which requests limit the answer's tokens."""


class ModelWindow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's window, and what part of it is not for the conversation."""

    model: int
    """The model's whole window."""
    shown: int | None = None
    """The window that the host shows or allows, if it differs."""
    output_reserve: int = 0
    safety_margin: int = 0
    compaction_limit: int | None = None
    """Where the host compacts by itself."""


class Taken(Struct, frozen=True):
    """A part of the model's window that is not for the conversation."""

    name: str
    tokens: int


class Room(Struct, frozen=True, kw_only=True):
    """The windows: `model` less everything in `taken` is `usable`."""

    model: int
    shown: int | None
    usable: int
    taken: list[Taken]


class Budget(Struct, frozen=True, kw_only=True):
    """The tokens, as estimated, within which compaction keeps a body."""

    limit: int
    """Maximum size of a body that fits."""
    start: int
    """Size from which a body is made smaller."""
    settle: int
    """Size to which it is reduced."""
    source: str
    """`max_tokens`, `window` if one was given, or `model` if it is known by the model's name."""


def room_of(window: ModelWindow) -> Room:
    """Returns the usable part of a window, and what takes the rest.

    Raises:
        CoatcheckError: `invalid_request` for a window with nothing left in it.
    """
    taken = [Taken("output reserve", window.output_reserve), Taken("safety margin", window.safety_margin)]
    if window.shown is not None and window.shown < window.model:
        taken.insert(0, Taken("not offered by the host", window.model - window.shown))
    usable = window.model - sum(one.tokens for one in taken)
    if window.compaction_limit is not None and window.compaction_limit < usable:
        taken.append(Taken("beyond the host's compaction limit", usable - window.compaction_limit))
        usable = window.compaction_limit
    if usable <= 0 or any(one.tokens < 0 for one in taken):
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"Of a window of {window.model:,} tokens {usable:,} are left for the conversation. Leave it some.",
            field="window",
        )
    return Room(model=window.model, shown=window.shown, usable=usable, taken=[one for one in taken if one.tokens])


def family_percent(body: Value, index: HistoryIndex) -> int:
    """Returns the tokens of the model's family for 100 tokens of o200k_base."""
    model = _model(body)
    return percent_of(model, claude=index.format is Format.ANTHROPIC, gemini=index.format is Format.GEMINI)


def percent_of(model: str, *, claude: bool, gemini: bool) -> int:
    """Returns a model's tokens for 100 tokens of o200k_base, by its name or else by the format of the request."""
    if claude or "claude" in model:
        return FAMILIES["older claude" if _OLDER_CLAUDE.search(model) else "claude"]
    return FAMILIES["gemini" if gemini or "gemini" in model else "other"]


def budget_of(
    body: Value, index: HistoryIndex, policy: CompactionPolicy, window: ModelWindow | None, percent: int
) -> Budget | None:
    """Returns the budget of a body: by the policy, else the given window, else the model's known window.

    Within a window, compaction begins at `percent` of the usable part, where it is advised. None without any of these.
    """
    if policy.max_tokens is not None:
        limit = start = policy.max_tokens
        source = "max_tokens"
    else:
        known = window or _known(body)
        if known is None:
            return None
        limit = max(scaled(room_of(known).usable, 100, family_percent(body, index)), LEAST_BUDGET)
        start = max(limit * percent // 100, LEAST_BUDGET)
        source = "model" if window is None else "window"
    return Budget(limit=limit, start=start, settle=start * policy.settle_percent // 100, source=source)


def _known(body: Value) -> ModelWindow | None:
    model = _model(body)
    for name, window, output in _MODELS:
        if name.search(model):
            limits = [get(body, at) for at in _OUTPUT_LIMITS]
            asked = next((one for one in limits if isinstance(one, int) and 0 < one < window), _RESERVE)
            return ModelWindow(model=window, output_reserve=min(asked, output))
    return None


def _model(body: Value) -> str:
    model = get(body, ("model",))
    return model.casefold() if isinstance(model, str) else ""
