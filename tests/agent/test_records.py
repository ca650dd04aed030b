"""One record of 20,000 on one line of a large JSON document is found in every way, within 1,000 tokens."""

import re
from typing import Any

import pytest

from agent import needle_payloads
from coatcheck.adapters.tokenizer import load_tokenizer
from support.service import Service

COUNT = load_tokenizer().count
PAYLOAD, ROWS, MEANT = needle_payloads.records(4, 20_000)
LONG = ROWS[MEANT]
SHORT = ROWS[MEANT // 2]
MOST = 1_000
NUMBERED = re.compile(r"^[0-9]+[:-]", re.MULTILINE)
"""What a search puts before a line."""


@pytest.fixture(scope="module")
def artifact(service: Service) -> str:
    assert PAYLOAD.count(b"\n") == 0
    assert 1_100_000 < len(PAYLOAD) < 1_400_000
    found: str = service.post(PAYLOAD, tool_name="http_get", media_type="application/json")["id"]
    return found


def record(row: dict[str, Any]) -> re.Pattern[str]:
    """A record as it may stand in an answer: whatever white space a view puts in."""
    parts = [f'"id":"{row["id"]}"', f'"amount":{row["amount"]}', f'"note":"{row["note"]}']
    return re.compile(r",\s*".join(re.escape(part).replace('":', r'":\s*') for part in parts))


def by_tool(service: Service, **arguments: Any) -> str:  # noqa: ANN401 - JSON
    body = {"name": "read_artifact", "arguments": arguments}
    response = service.client.post("/v1/tools/call", json=body, params={"max_tokens": MOST})
    answer = response.json()
    assert not answer["is_error"], answer
    text: str = answer["text"]
    assert COUNT(text) == answer["tokens"] <= MOST
    return text


@pytest.mark.parametrize(
    "asked",
    [{"pattern": SHORT["id"]}, {"path": f'$.records[?@.id=="{SHORT["id"]}"]'}, {"query": SHORT["id"]}],
    ids=["pattern", "path", "query"],
)
def test_the_tool_finds_a_record(service: Service, artifact: str, asked: dict[str, str]) -> None:
    text = by_tool(service, artifact_id=artifact, **asked)
    assert record(SHORT).search(NUMBERED.sub("", text)) is not None


def test_the_tool_pages_a_long_value_to_its_end(service: Service, artifact: str) -> None:
    path = f'$.records[?@.id=="{LONG["id"]}"].note'
    text = by_tool(service, artifact_id=artifact, path=path)
    got, pages = _body(text), 1
    while (found := re.search(r'Next: the same call with offset="([^"]+)"', text)) is not None:
        text = by_tool(service, artifact_id=artifact, path=path, offset=found[1])
        got += _body(text)
        pages += 1
    assert text.endswith("(That is the end.)")
    assert got == LONG["note"]
    assert pages > COUNT(LONG["note"]) // MOST


def _body(text: str) -> str:
    """What stands between the first line, the place of the value, and the last line; rows put together again."""
    return text.split("\n", 2)[2].rpartition("\n(")[0].replace("\n¦ ", "")
