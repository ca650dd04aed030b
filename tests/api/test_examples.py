"""Every example of the OpenAPI document is sent to a service, which takes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from coatcheck.core.ids import EXAMPLE_ID
from support.service import serving

DOCUMENT: Final[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "openapi" / "openapi.json").read_text())
FIRST, LAST = "post /v1/search-results", "post /v1/admin/keys"
"""What stores the artifact that the examples are about, and what makes every caller need a key."""
MAY_BE_ABSENT: Final = (
    "{hold_id}",
    "{key_id}",
    "{run_id}",
    "/policies",
    "/runs",
    "retention/apply",
    "retention/undo",
    "run-42/usage",
    "/namespaces/team-a",
)
"""What is made up as one goes along: an example of its name is of none that exists."""


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """What a reference names."""
    while "$ref" in node:
        found: dict[str, Any] = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def operations() -> list[tuple[str, str, dict[str, Any], list[dict[str, Any]]]]:
    """Method, path, operation and parameters of every operation, in an order in which all can succeed."""
    found = [
        (method, path, operation, [resolved(one) for one in (*item.get("parameters", ()), *operation["parameters"])])
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]

    def when(one: tuple[str, str, dict[str, Any], list[dict[str, Any]]]) -> tuple[bool, bool, bool]:
        name = f"{one[0]} {one[1]}"
        return name == LAST, one[0] == "delete", name != FIRST

    return sorted(found, key=when)


def cases(parameters: list[dict[str, Any]], body: list[Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Values for parameters by name, and a body: as often as the richest of them has examples."""
    values = {one["name"]: one["schema"]["examples"] for one in parameters if "examples" in one["schema"]}
    missing = {one["name"] for one in parameters if one["required"]} - values.keys()
    assert not missing, f"examples are missing: {missing}"
    most = max(map(len, (*values.values(), body or [None])))
    for number in range(most):
        yield (
            {name: each[number % len(each)] for name, each in values.items()},
            body[number % len(body)] if body else None,
        )


def bodies(operation: dict[str, Any]) -> list[Any]:
    """The examples of a JSON body: its own, also with each of its fields' examples; or one put together from these."""
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return [b"exit code 1\n"] if content else []
    schema = resolved(content["application/json"]["schema"])
    if "anyOf" in schema:
        schema = resolved(schema["anyOf"][0])
    fields = {name: examples_of(resolved(field)) for name, field in schema.get("properties", {}).items()}
    if "examples" in schema:
        one_more = [{**schema["examples"][0], name: value} for name, values in fields.items() for value in values]
        return [*schema["examples"], *one_more]
    missing = {name for name in schema.get("required", ()) if not fields[name]}
    assert not missing, f"examples are missing: {missing}"
    return [{name: values[0] for name, values in fields.items() if values}]


def examples_of(field: dict[str, Any]) -> list[Any]:
    """The examples of a field, and of the forms that it may have."""
    return [*field.get("examples", ()), *(each for form in field.get("anyOf", ()) for each in form.get("examples", ()))]


def sent(
    client: httpx.Client, method: str, path: str, parameters: list[dict[str, Any]], values: dict[str, Any], body: object
) -> httpx.Response:
    """The answer to one case."""
    where = {one["name"]: one["in"] for one in parameters}
    query = {name: value for name, value in values.items() if where[name] == "query"}
    headers = {name: str(value) for name, value in values.items() if where[name] == "header"}
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", str(value))
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    if content is not None:
        headers["content-type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
    return client.request(method, path, params=query, headers=headers, content=content)


def test_every_example_is_taken_by_the_service(tmp_path: Path) -> None:
    refused: list[str] = []
    with serving(tmp_path / "data") as service:
        for method, path, operation, parameters in operations():
            try:
                tried = list(cases(parameters, bodies(operation)))
            except AssertionError as error:
                refused.append(f"{method} {path}: {error}")
                continue
            for values, body in tried:
                answer = sent(service.client, method, path, parameters, values, body)
                if f"{method} {path}" == FIRST and body == tried[0][1]:
                    assert answer.json()["id"] == EXAMPLE_ID
                absent = answer.status_code in {404, 409} and any(
                    word in f"{path} {answer.url}" for word in MAY_BE_ABSENT
                )
                if not (answer.is_success or absent):
                    refused.append(f"{method} {answer.url} {body}: {answer.status_code} {answer.text[:300]}")
    assert refused == []
