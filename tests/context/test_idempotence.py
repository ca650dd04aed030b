"""Compacting a compacted body changes nothing, whatever its format, its model, its limits and the policy."""

import random
from typing import Any

import pytest

from coatcheck.core.context import replay
from coatcheck.core.context.plan import PlanContext, plan
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.window import ModelWindow
from context.histories import FORMATS, apply, counter, plan_with_cards, stored, words
from context.test_properties import KNOWN, SIZES, rich

Json = Any
MODELS = {
    "openai-chat": ("gpt-5.6-sol", "kimi-k2-0905-preview", "claude-opus-5-5", "o3"),
    "openai-responses": ("gpt-5.6-sol", "gpt-4o"),
    "anthropic": ("claude-opus-5-5", "kimi-for-coding", "claude-sonnet-4-5"),
}
LIMITS = {"gemini": "generationConfig", "bedrock": "inferenceConfig"}


def _body(name: str, seed: int, rng: random.Random) -> Json:
    body = FORMATS[name](rich(seed, rng.choice((2, 4, 6, 12))))
    if name in MODELS:
        body["model"] = rng.choice(MODELS[name])
    if name == "anthropic":
        long = rng.choice((20, 300, 3_000))
        for message in body["messages"]:
            if message["role"] == "assistant":
                message["content"][0]["thinking"] = words(rng, rng.randint(10, long))
    if rng.random() < 0.5:
        body["max_tokens"] = rng.choice((100, 500))
    return body


@pytest.mark.parametrize("kind", ["budget", "window", "quiet", "each turn", "step"])
@pytest.mark.parametrize("name", FORMATS)
def test_again_changes_nothing(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = 0
    for seed in range(12):
        rng = random.Random(f"{name} {kind} {seed}")
        body = _body(name, seed, rng)
        monkeypatch.setattr(replay, "QUIET_BATCH_TOKENS", rng.choice((200, 2_000)))  # these bodies are small
        size = plan(body, CompactionPolicy(), counter()).before.total
        sizes: dict[str, Any] = {**SIZES, "inline_tokens": rng.choice((100, 200, 400))}
        sizes["latest_tokens"] = rng.choice((None, 1_500))
        match kind:
            case "budget":
                sizes["max_tokens"] = max(size * rng.randint(10, 99) // 100, 2_000)
            case "each turn":
                sizes["batch_tokens"] = 0
            case "step":
                sizes |= {"protect": "step", "media": "placeholder"}
            case _:
                pass
        policy, counting = CompactionPolicy(**sizes), counter()
        window = ModelWindow(model=max(size * rng.randint(20, 150) // 100, 4_000)) if kind == "window" else None
        context = PlanContext(known_artifacts=KNOWN, window=window)
        first = plan_with_cards(body, policy, counting, context)
        new, report = apply(body, first, stored(first), counting)
        changed += report.changed
        second = plan_with_cards(new, policy, counting, context)
        again, told = apply(new, second, stored(second), counting)
        assert again is new, (seed, told.changes[:3])
        assert told.fits == report.fits
        assert told.tokens_after == report.tokens_after
    assert changed > 2
