"""A scripted agent reads a needle out of very large payloads through the declared tool alone, against a real server."""

import re

import pytest

from agent import needle_payloads, policy
from agent.policy import MAX_CALLS, MAX_TOKENS, Question, Walk, ask
from coatcheck.adapters.tokenizer import load_tokenizer
from support.service import Service

COUNT = load_tokenizer().count


def asked(service: Service, payload: bytes, question: Question, **said: str) -> Walk:
    """The agent's walk from the card of a payload, held against what it may cost."""
    receipt = service.post(payload, **said)
    assert not receipt["inline"]
    walk = ask(service, receipt["text"], question, COUNT)
    assert len(walk.calls) <= MAX_CALLS
    assert max(walk.tokens, default=0) <= MAX_TOKENS
    return walk


@pytest.mark.parametrize("seed", [1, 2])
def test_a_digest_is_read_out_of_a_build_log_of_30_megabytes(service: Service, seed: int) -> None:
    payload, needle = needle_payloads.build_log(seed, 30_000_000)
    question = Question(
        words="image of payments-gateway, digest",
        plain="digest of the published image of payments-gateway",
        form=re.compile(r"payments-gateway, digest sha256:([0-9a-f]{64})"),
    )
    walk = asked(service, payload, question, tool_name="bash", title="build.log", media_type="text/plain")
    assert walk.value == needle


@pytest.mark.parametrize("seed", [1, 2])
def test_a_figure_is_read_out_of_a_page_of_2_megabytes(service: Service, seed: int) -> None:
    payload, needle = needle_payloads.page(seed, 2_000_000)
    question = Question(
        words="K-9 coupling",
        plain="How long does the guarantee of the K-9 coupling cover?",
        form=re.compile(r"K-9 coupling covers ([0-9]+) hours"),
    )
    url = "https://manual.example/all"
    walk = asked(service, payload, question, tool_name="web_fetch", url=url, media_type="text/html")
    assert walk.value == needle


@pytest.mark.parametrize("seed", [1, 2])
def test_a_contact_is_read_out_of_a_json_document_of_5_megabytes(service: Service, seed: int) -> None:
    payload, name, contact = needle_payloads.accounts(seed, 5_000_000)
    question = Question(
        words=f'"id": "{name}"',
        plain=f"contact of account {name}",
        form=re.compile(rf'"{name}".{{0,12000}}?"contact": ?"([^"]*@rotor\.example)"'),
        key=("id", name),
    )
    walk = asked(service, payload, question, tool_name="http_get", media_type="application/json")
    assert walk.value == contact


def test_the_agent_sees_nothing_but_what_the_service_answers(service: Service) -> None:
    """The control: a value that stands nowhere is not found, and the walk ends after three calls."""
    payload, _ = needle_payloads.build_log(3, 300_000)
    question = Question(words="image of no-such-service", plain="digest of no-such-service", form=re.compile("(never)"))
    receipt = service.post(payload, tool_name="bash", media_type="text/plain")
    walk = policy.ask(service, receipt["text"], question, COUNT)
    assert (walk.value, [list(call) for call in walk.calls]) == (None, [["pattern"], ["query"]])
