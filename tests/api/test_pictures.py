"""Pictures that come among the parts of a tool result go back into it, beside the card."""

import base64
import json
from typing import Any

import httpx
import pytest
from anthropic.types import ToolResultBlockParam
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

from core.test_image_tokens import SHAPES, png

LOG = "".join(f"line {n} of the page\n" for n in range(2_000))


def page(name: str) -> list[Any]:
    parts: list[Any] = json.loads(json.dumps(SHAPES[name][0]))
    if isinstance(parts[0], dict):
        parts[0]["text"] = LOG
    else:
        parts[0] = LOG
    return parts


@pytest.mark.parametrize("name", ["anthropic", "responses", "chat", "mcp", "gemini"])
async def test_a_card_and_the_picture_are_the_content_of_the_tool_result(client: httpx.AsyncClient, name: str) -> None:
    parts = page(name)
    answer = (await client.post("/v1/artifacts", json={"content": parts, "session": name})).json()
    text, picture = answer["content"]
    assert text == {**SHAPES[name][1], "text": answer["text"]}
    assert picture == parts[1]
    assert answer["text"].startswith("[art_")
    assert answer["tokens"] <= 600
    assert answer["image_tokens"] == SHAPES[name][2]
    stored = (await client.get(f"/v1/artifacts/{answer['id']}/content")).json()
    data = json.dumps(stored)
    assert base64.b64encode(png(1_024, 1_024)).decode() in data
    batch = await client.post(
        "/v1/artifacts:batch", json={"items": [{"content": parts, "session": name}], "max_total_tokens": 100}
    )
    (item,) = batch.json()["results"]
    assert item["receipt"]["content"] == [{**SHAPES[name][1], "text": item["receipt"]["text"]}, parts[1]]
    assert item["receipt"]["tokens"] <= 100


async def test_contents_are_what_the_providers_packages_take(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/v1/artifacts", json={"content": page("anthropic")})).json()
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": answer["content"]}
    assert TypeAdapter(ToolResultBlockParam).validate_python(block)
    answer = (await client.post("/v1/artifacts", json={"content": page("responses")})).json()
    item = {"type": "function_call_output", "call_id": "call_1", "output": answer["content"]}
    assert TypeAdapter(FunctionCallOutput).validate_python(item)


async def test_a_small_result_comes_back_as_it_was_and_one_without_pictures_has_no_content(
    client: httpx.AsyncClient,
) -> None:
    small = base64.b64encode(png(2, 2)).decode()
    parts = [{"type": "text", "text": "tiny"}, {"type": "image", "data": small, "mimeType": "image/png"}]
    answer = (await client.post("/v1/artifacts", json={"content": parts})).json()
    assert (answer["inline"], answer["content"]) == (True, parts)
    wrapped = {"type": "tool_result", "tool_use_id": "t1", "content": parts}
    answer = (await client.post("/v1/artifacts", json={"content": wrapped})).json()
    assert answer["content"] == parts
    answer = (await client.post("/v1/artifacts", json={"content": [{"type": "text", "text": LOG}]})).json()
    assert (answer["content"], answer["image_tokens"]) == (None, 0)


async def test_a_picture_alone_stands_beside_its_card_and_is_stored_as_its_bytes(client: httpx.AsyncClient) -> None:
    only = SHAPES["mcp"][0][1:]
    answer = (await client.post("/v1/artifacts", json={"content": only})).json()
    assert answer["content"] == [{"type": "text", "text": answer["text"]}, only[0]]
    assert (await client.get(f"/v1/artifacts/{answer['id']}/content")).content == png(1_024, 1_024)
    drawing = base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg"/>').decode()
    only = [{"type": "image", "data": drawing, "mimeType": "image/svg+xml"}]
    answer = (await client.post("/v1/artifacts", json={"content": only})).json()
    assert answer["content"] == [{"type": "text", "text": answer["text"]}, only[0]]
    several = [*SHAPES["mcp"][0][1:], *only]
    answer = (await client.post("/v1/artifacts", json={"content": several})).json()
    assert answer["inline"]
    assert answer["content"] == several
