"""The case that started it: one output of 925,000 tokens and forty others, all in the first turn."""

import random
from time import process_time

import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.context import CompactionPolicy, Counter, plan
from context.histories import FORMATS, Call, Step, Turn, apply, stored

WINDOW = 262_144


def prose(tokens: int) -> str:
    """Text of about so many tokens."""
    rng = random.Random(925)
    line = " ".join(rng.choice(("the", "quick", "import", "failed", "42", "order")) for _ in range(500))
    return "\n".join([line] * (tokens // 500))


@pytest.mark.parametrize("parallel", [False, True], ids=["one after the other", "in parallel"])
def test_a_first_turn_of_research_fits_the_window(parallel: bool) -> None:
    outputs = [prose(8_000) for _ in range(40)]
    outputs.insert(17, prose(925_000))
    calls = [Call(f"c{n}", "read_page", {"url": f"https://example.org/{n}"}, text) for n, text in enumerate(outputs)]
    steps = [Step("", calls)] if parallel else [Step("", [call]) for call in calls]
    body = FORMATS["openai-chat"]([Turn("Research this.", steps)])
    counting = Counter(load_tokenizer())
    policy = CompactionPolicy(max_tokens=WINDOW)
    start = process_time()
    planned = plan(body, policy, counting)
    kept = stored(planned)
    new, report = apply(body, planned, kept, counting)
    assert process_time() - start < 20
    assert report.tokens_before > 1_200_000
    assert report.tokens_after <= planned.expected <= WINDOW
    assert report.omitted is None
    assert len(new["messages"]) == len(body["messages"])
    assert any(change.call_id == "c17" for change in report.changes)
    assert new["messages"][-1]["content"] == outputs[-1] or parallel
    again = plan(new, policy, counting)
    assert again.payloads == []
