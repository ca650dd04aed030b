"""What is written down is what the code says."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from coatcheck.api.http.error_table import TABLE
from coatcheck.api.openapi import openapi_document
from coatcheck.api.routes import ROUTES
from coatcheck.core.errors import Code

ROOT = Path(__file__).parents[2]


@pytest.fixture
def written() -> bytes:
    return openapi_document(ROUTES)


@pytest.fixture
def document(written: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(written)
    return loaded


ERRORS_HEAD = """# Errors

Errors over HTTP are problem details (RFC 9457), `application/problem+json`: `type` (`/errors/` and the code), `title`,
`status`, `code`, `detail` and `request_id`, and for some codes further members such as `field`, `position` or `limit`.
`GET` the `type` to have the code explained, as a page, text or JSON, depending on the header field `Accept`.
A code is permanent: it is never renamed and never used for something else. `detail` is a sentence for a person or a
model and may change.

If a retry may succeed soon, the answer has `Retry-After`. The answer `artifact_not_found` is the same, byte for byte,
whether the ID never existed, belongs to someone else, or was forgotten; so its request ID is only in the header field
`X-Request-ID`, which every answer has.

| code | status | title | what happened | what to do |
|---|---|---|---|---|
"""


def render_errors_page() -> str:
    rows = [
        f"| `{code}` | {row.status} | {row.title} | {row.meaning} | {row.advice} |"
        for code, row in sorted(TABLE.items())
    ]
    return ERRORS_HEAD + "\n".join(rows) + "\n"


def test_every_code_has_a_row() -> None:
    assert set(TABLE) == set(Code)
    assert {row.status for row in TABLE.values()} <= set(range(400, 508))


def test_the_page_of_errors_is_the_table() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == render_errors_page()


def test_the_committed_document_is_the_codes(written: bytes) -> None:
    assert (ROOT / "openapi" / "openapi.json").read_bytes() == written


async def test_the_document_is_the_same_every_time_and_is_served(client: httpx.AsyncClient, written: bytes) -> None:
    assert (await client.get("/v1/openapi.json")).content == written


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_list_says_what_its_items_are(written: bytes) -> None:
    lists: list[dict[str, Any]] = []

    def collect(node: dict[str, Any]) -> dict[str, Any]:
        if node.get("type") == "array":
            lists.append(node)
        return node

    json.loads(written, object_hook=collect)
    assert len(lists) > 50
    assert [node for node in lists if "items" not in node] == []


def test_every_operation_is_described_and_has_its_problems(document: dict[str, Any]) -> None:
    paths: dict[str, dict[str, Any]] = document["paths"]
    operations = [op for item in paths.values() for name, op in item.items() if name != "parameters"]
    assert len({op["operationId"] for op in operations}) == len(operations)
    for op in operations:
        assert op["summary"]
        assert op["description"]
        assert {"400", "403", "500", "503"} <= set(op["responses"])


def test_request_bodies_take_no_other_fields(document: dict[str, Any]) -> None:
    for name in (
        "StoreRequest",
        "BatchRequest",
        "ArtifactPatchRequest",
        "SearchResultsRequest",
        "VerifyRequest",
        "Quotation",
    ):
        assert document["components"]["schemas"][name]["additionalProperties"] is False


async def test_every_documented_path_answers_and_every_parameter_is_read(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    for path, item in document["paths"].items():
        concrete = re.sub(r"\{artifact_id\}", "art_000000000000000098", path)
        concrete = re.sub(r"\{[^}]+\}", "s", concrete)
        methods = {name.upper() for name in item if name != "parameters"}
        allow = set((await client.options(concrete)).headers["allow"].split(", "))
        assert allow - {"OPTIONS", "HEAD"} == methods - {"HEAD"}
        for method in methods:
            for parameter in item[method.lower()].get("parameters", []):
                if parameter.get("in") == "query":
                    answer = await client.request(method, f"{concrete}?{parameter['name']}=%00", json={})
                    assert f"'{parameter['name']}' in the query" not in answer.text


@pytest.mark.parametrize("moment", ["0.5", "1700000000", "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+14:00"])
async def test_a_number_is_no_time_and_no_time_is_outside_the_years_of_utc(
    client: httpx.AsyncClient, moment: str
) -> None:
    response = await client.get("/v1/artifacts", params={"created_before": moment})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
