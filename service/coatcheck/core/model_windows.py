"""The context windows of models: a table by names of models, with the source of each row.

Windows and largest outputs are in the model's own tokens, as of November 2026. If models or hosts with the same name
differ, the row has the smallest numbers. The window of a model that matches no row is unknown, and is not guessed.
"""

import re
from typing import Final

from msgspec import Struct


class KnownWindow(Struct, frozen=True):
    """The size of a model's context window."""

    window: int
    """Tokens of the context window."""
    output: int
    """Maximum tokens of one answer. It equals `window` if the provider states no other limit."""


_CLAUDE: Final = "https://platform.claude.com/docs/en/about-claude/models/overview"
_OPENAI: Final = "https://developers.openai.com/api/docs/models"
_GEMINI: Final = "https://ai.google.dev/gemini-api/docs/models"
_KIMI: Final = "https://platform.kimi.ai/docs/pricing/chat"
_MOONSHOT: Final = "https://platform.moonshot.ai/docs/pricing"
_KIMI_CODE: Final = "https://github.com/MoonshotAI/kimi-cli/blob/main/docs/en/configuration/config-files.md"
_MINIMAX: Final = "https://github.com/pydantic/genai-prices/blob/main/prices/providers/minimax.yml"
_MIMO: Final = "https://platform.xiaomimimo.com/static/docs/price/pay-as-you-go.md"
_MIMO_2: Final = "https://vercel.com/ai-gateway/models/mimo-v2-flash"
_XAI: Final = "https://api.x.ai/v1/language-models"
_ZAI: Final = "https://docs.z.ai/guides/overview/pricing"
_QWEN: Final = "https://www.alibabacloud.com/help/en/model-studio/models"
_DEEPSEEK: Final = "https://api-docs.deepseek.com/quick_start/pricing"
_MISTRAL: Final = "https://docs.mistral.ai/models"
_NOVA: Final = "https://docs.aws.amazon.com/nova/latest/userguide/what-is-nova.html"
_TABLE: Final = (
    (r"claude-(?:fable|mythos|(?:opus|sonnet)-(?:4-[6-9]|[5-9])\b|haiku-[5-9]\b)", 1_000_000, 128_000, _CLAUDE),
    (r"claude", 200_000, 64_000, _CLAUDE),
    (r"gpt-5-[4-9]-(?:mini|nano)", 400_000, 128_000, _OPENAI),
    (r"gpt-5-[4-9]|gpt-[6-9]", 1_050_000, 128_000, _OPENAI),
    (r"gpt-5", 400_000, 128_000, _OPENAI),
    (r"gpt-4-1\b", 1_047_576, 32_768, _OPENAI),
    (r"gpt-4o|gpt-4-turbo|chatgpt-4o", 128_000, 16_384, _OPENAI),
    (r"\bo[134]\b", 200_000, 100_000, _OPENAI),
    (r"gemini", 1_048_576, 65_536, _GEMINI),
    (r"kimi-for-coding", 262_144, 262_144, _KIMI_CODE),
    (r"kimi-k[3-9]", 1_048_576, 1_048_576, _KIMI),
    (r"kimi-k2(?:-[5-9]|\S*(?:0905|thinking|turbo))", 262_144, 262_144, _KIMI),
    (r"kimi-k2", 131_072, 131_072, _KIMI),
    (r"moonshot-v1-(?:128k|auto)", 131_072, 131_072, _MOONSHOT),
    (r"moonshot-v1-32k", 32_768, 32_768, _MOONSHOT),
    (r"moonshot-v1-8k", 8_192, 8_192, _MOONSHOT),
    (r"minimax-m3", 524_288, 128_000, _MINIMAX),
    (r"minimax-m2-her", 65_536, 65_536, _MINIMAX),
    (r"minimax-m2", 196_608, 131_072, _MINIMAX),
    (r"minimax-(?:m1|(?:text-)?01)", 1_000_000, 40_000, _MINIMAX),
    (r"mimo-v2-[5-9]", 1_048_576, 131_072, _MIMO),
    (r"mimo-v2-flash", 262_144, 32_000, _MIMO_2),
    (r"grok-4-1-fast|grok-4-fast", 2_000_000, 2_000_000, _XAI),
    (r"grok-4-(?:20|3)\b", 1_000_000, 1_000_000, _XAI),
    (r"grok-4-[5-9]\b", 500_000, 500_000, _XAI),
    (r"grok-code|grok-build|grok-4(?!-?\d\b|\d)", 256_000, 256_000, _XAI),
    (r"grok-3", 131_072, 131_072, _XAI),
    (r"grok-2", 32_768, 32_768, _XAI),
    (r"glm-4-[56]v|glm-4-5", 128_000, 32_000, _ZAI),
    (r"glm-5-[2-9]", 1_000_000, 128_000, _ZAI),
    (r"glm-5|glm-4-[67]", 200_000, 128_000, _ZAI),
    (r"glm-4(?!-airx)", 128_000, 32_000, _ZAI),
    (r"qwen-?3-coder-(?:plus|flash)", 997_952, 65_536, _QWEN),
    (r"qwen-?3-(?:6-max|[5-9]-\d+b)|qwen-?3-max|qwen-?3-next", 258_048, 65_536, _QWEN),
    (r"qwen-?3-[5-9]-(?:plus|flash|max|omni)", 991_808, 65_536, _QWEN),
    (r"qwen-?3", 129_024, 16_384, _QWEN),
    (r"deepseek-(?:v[4-9]|flash)", 1_000_000, 393_216, _DEEPSEEK),
    (r"deepseek-(?:r1|v3\b(?!-\d\b))", 64_000, 8_192, _DEEPSEEK),
    (r"deepseek", 128_000, 8_192, _DEEPSEEK),
    (r"mistral-large-4", 1_048_576, 1_048_576, _MISTRAL),
    (r"mistral-large-(?:3|2512|latest)|mistral-medium-(?:3-5|2604|latest)", 262_144, 262_144, _MISTRAL),
    (r"devstral|codestral", 256_000, 256_000, _MISTRAL),
    (r"mistral-(?:large|medium)", 128_000, 128_000, _MISTRAL),
    (r"nova-2-lite", 1_000_000, 64_000, _NOVA),
    (r"nova-premier", 1_000_000, 10_000, _NOVA),
    (r"nova-(?:pro|lite)", 300_000, 10_000, _NOVA),
    (r"nova-micro", 128_000, 10_000, _NOVA),
)  # fmt: skip
"""Each row has a pattern of model names, as `plain_name` spells them, the window, the largest output, and the source.
The first row whose pattern is found in a name counts."""
_PATTERNS: Final = tuple((re.compile(name), KnownWindow(window, output)) for name, window, output, _ in _TABLE)
_POINT: Final = re.compile(r"(?<=\d)[.p](?=\d)|_")
_CLAUDE_FIRST: Final = re.compile(r"claude-([\d-]+)-(opus|sonnet|haiku)")


def plain_name(model: str) -> str:
    """Returns a model's name as the tables of models spell it, whichever spelling a host uses.

    The name is in lower case. `-` replaces `_` and the point of a version (`4.6`, `4p6`). The version of a Claude model
    comes after its name.
    """
    return _CLAUDE_FIRST.sub(r"claude-\2-\1", _POINT.sub("-", model.casefold()))


def find_window(model: str) -> KnownWindow | None:
    """Returns the context window of a model by its name; None if it is unknown."""
    name = plain_name(model)
    return next((window for pattern, window in _PATTERNS if pattern.search(name)), None)
