"""The policy `card_tokens: auto`: what a payload says decides the budget of its card, and all answers tell the same."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.service import Service, serving

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
SYLLABLES = ("ba", "ke", "li", "mo", "nu", "sa", "te")
NAMES = [f"{one}{two}{three}" for one in SYLLABLES for two in SYLLABLES for three in SYLLABLES]
PROSE = "".join(f"The {name} of chapter {n} concerns harvests and roads.\n" for n, name in enumerate(NAMES * 4))


def log(failures: int, lines: int = 1200) -> str:
    """A run that reports so many different failures, in every tenth of its last lines."""
    rng = random.Random(7)
    out = [f"compiled {' '.join(rng.sample(NAMES, 5))} in {n % 7} ms" for n in range(lines)]
    for number in range(failures):
        reason = " ".join(rng.sample(NAMES, 12))
        out[lines - 1 - 10 * (failures - number)] = f"ERROR: the {NAMES[number]} valve is stuck: {reason}"
    return "".join(f"{line}\n" for line in out)


def decide(service: Service, **policy: object) -> None:
    service.client.put("/v1/admin/policies", json={"policy": policy}).raise_for_status()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose policy lets payloads decide."""
    with serving(tmp_path_factory.mktemp("automatic")) as running:
        decide(running, card_tokens="auto")
        yield running


def described(service: Service, receipt: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = service.get(f"/v1/artifacts/{receipt['id']}")
    return answer


@pytest.mark.parametrize(
    ("payload", "budget"),
    [
        (log(0), 600),
        (log(1), 300),
        (log(2), 600),
        (log(6), 600),
        (log(9), 900),
        (log(40), 2048),
        (log(40, lines=30_000), 2048),
        (log(1, lines=30_000), 300),
        (PROSE, 600),
    ],
    ids=["none", "one", "two", "six", "nine", "forty", "forty-surveyed", "one-surveyed", "prose"],
)
def test_failures_decide_the_budget_which_receipt_record_and_card_agree_on(
    service: Service, payload: str, budget: int
) -> None:
    receipt = service.post(payload)
    known = described(service, receipt)
    assert known["receipt"]["budget"] == budget
    assert budget / 2 < receipt["tokens"] <= budget
    card = service.get(f"/v1/artifacts/{receipt['id']}/card")
    fixed = service.get(f"/v1/artifacts/{receipt['id']}/card", tokens=budget)
    assert (card["text"], card["tokens"]) == (fixed["text"], fixed["tokens"]) == (receipt["text"], receipt["tokens"])
    again = service.post(payload)
    assert (again["id"], again["text"]) == (receipt["id"], receipt["text"])


def test_more_of_many_failures_is_shown_than_at_the_usual_budget(service: Service) -> None:
    receipt = service.post(log(20))
    usual = service.get(f"/v1/artifacts/{receipt['id']}/card", tokens=600)["text"]
    shown, before = (sum(f"the {name} valve" in text for name in NAMES[:20]) for text in (receipt["text"], usual))
    assert (shown, before < 20) == (20, True)


def test_a_requests_own_budget_wins(service: Service) -> None:
    receipt = service.post(log(41), card_tokens=256)
    assert receipt["tokens"] <= 256
    assert described(service, receipt)["receipt"]["budget"] == 256


def test_a_text_that_fits_into_the_usual_budget_is_shown_whole(service: Service) -> None:
    payload = log(1, lines=18)
    receipt = service.post(payload, inline_tokens=0)
    assert 300 < receipt["tokens"] <= 600
    assert payload in receipt["text"]
    assert described(service, receipt)["receipt"]["budget"] == 600
    inline = service.post(log(1, lines=19))
    assert (inline["inline"], described(service, inline)["receipt"]["budget"]) == (True, None)


def test_a_second_call_with_the_same_bytes_gets_two_lines_of_the_same_budget(service: Service) -> None:
    first, second = (service.post(log(12), session="s", tool_call_id=call) for call in ("a", "b"))
    assert (first["same_as"], second["same_as"]) == (None, first["id"])
    assert [described(service, each)["receipt"]["budget"] for each in (first, second)] == [1200, 1200]
    larger = service.post(log(12), session="s", tool_call_id="c", card_tokens=1201)
    assert larger["same_as"] is None


def test_compaction_keeps_its_own_budget(service: Service) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": log(42)},
        {"role": "user", "content": "and now?"},
    ]
    body = {"body": {"messages": messages}, "session": "compacted", "policy": {"max_tokens": 2000, "protect": "none"}}
    answer = service.client.post("/v1/context/compact", json=body)
    assert answer.status_code == 200, answer.text
    [item] = service.get("/v1/artifacts", session="compacted")["items"]
    assert described(service, item)["receipt"]["budget"] == 128, "what a small budget has for each card"


@pytest.mark.parametrize("value", ["automatic", "", "600", 63, 8193, None, 6.5, True, ["auto"]])
def test_what_is_no_budget_is_refused(service: Service, value: object) -> None:
    answer = service.client.put("/v1/admin/policies", json={"session": "wrong", "policy": {"card_tokens": value}})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "invalid_request")
    assert problem["field"] == "policy.card_tokens"
    assert "a whole number from 64 to 8,192 or auto" in problem["detail"]
    assert service.client.get("/v1/admin/policies/history", params={"session": "wrong"}).status_code == 404


def test_the_setting_is_the_usual_budget_and_masked_text_decides(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("usual"), card_tokens=200) as running:
        decide(running, card_tokens="auto", redaction="shown")
        payloads = [(log(1), 200), (PROSE, 200), (log(4), 400)]
        receipts = [running.post(f"token={TOKEN}\n{payload}", session="s") for payload, _ in payloads]
        for receipt, (_, budget) in zip(receipts, payloads, strict=True):
            assert TOKEN not in receipt["text"]
            assert described(running, receipt)["receipt"]["budget"] == budget
            assert running.get(f"/v1/artifacts/{receipt['id']}/card")["text"] == receipt["text"]
        running.client.delete("/v1/admin/policies").raise_for_status()
        assert described(running, receipts[-1])["receipt"]["budget"] == 400
        assert described(running, running.post(f"{log(4)}end\n"))["receipt"]["budget"] == 200
