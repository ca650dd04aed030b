"""What hooks of frameworks share, beside a running service: which results become cards, and which stay."""

import base64
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from coatcheck_client import Client, Retries
from coatcheck_client.integrations.anthropic import with_coatcheck
from coatcheck_client.integrations.claude_code_event import whole_event
from coatcheck_client.integrations.langchain.results import images, payload, replace_content
from coatcheck_client.integrations.mcp_wrap.results import payload_of, with_card
from coatcheck_client.integrations.tool_outputs import ToolOutputs
from integrations.mcp_server import SHOT
from support.service import Service

LONG = "A" * 40_000
LOG = "".join(f"line {n} of the log\n" for n in range(3_000))


@pytest.mark.parametrize(
    "result",
    [
        {"type": "image", "data": LONG, "mimeType": "image/png"},
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": LONG}}],
        [{"type": "input_image", "image_url": f"data:image/png;base64,{LONG}"}] * 2,
        [{"image": {"format": "png", "source": {"bytes": LONG}}}],
        [{"type": "input_audio", "input_audio": {"format": "wav", "data": LONG}}],
        [{"type": "video", "url": f"data:video/mp4;base64,{LONG}"}, {"video": {"format": "mp4", "source": {}}}],
    ],
)
def test_images_alone_stay(service: Service, result: object) -> None:
    with Client(service.url) as client:
        assert ToolOutputs(client).card(result, "camera") is result


@pytest.mark.parametrize(
    "result",
    [
        {"type": "FeatureCollection", "features": LOG},
        [{"type": "file", "name": f"file_{n}", "size": n} for n in range(2_000)],
        {"type": "text", "text": LOG},
        {"data": [{"id": n, "name": "user"} for n in range(2_000)]},
        {"video": LOG},
        [{"type": "video", "title": "t", "transcript": LOG}],
        [{"type": "data", "rows": LOG}],
        [{"type": "image", "url": None, "description": LOG}],
    ],
)
def test_values_that_only_look_like_parts_become_cards(service: Service, result: object) -> None:
    with Client(service.url) as client:
        assert str(ToolOutputs(client).card(result, "tool")).startswith("[art_")


@pytest.mark.parametrize("form", ["text", "parts"])
def test_bytes_in_a_text_are_artifacts_of_their_own(service: Service, form: str) -> None:
    text = f"before <img src='data:image/png;base64,{base64.b64encode(SHOT).decode()}'> after"
    result: Any = text if form == "text" else [{"type": "text", "text": text}, {"type": "image", "data": "iVBORw0K"}]
    with Client(service.url) as client:
        shown = ToolOutputs(client).card(result, "browse")
    if form == "parts":
        assert shown[1:] == result[1:]
        shown = shown[0]["text"]
    found = re.fullmatch(r"before <img src='\[image/png, 60 kB, (art_[0-9]{18})\]'> after", shown)
    assert found is not None, shown[:400]
    assert service.content(found[1]) == SHOT
    with Client("http://127.0.0.1:1") as client:
        assert ToolOutputs(client).card(result, "browse") is result


def test_what_fails_is_logged_and_stays(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise RuntimeError("no parts")

    broken = Broken("ab")
    with Client("http://127.0.0.1:1") as client, caplog.at_level(logging.WARNING):
        assert ToolOutputs(client).card(broken, "tool") is broken
    assert "the result of tool stays as it is: no parts" in caplog.text


@pytest.mark.parametrize("start", ["[art_482913077564201876 · x]\n", "[NOT STORED · x]\n", "¦ 5 results, "])
async def test_text_that_begins_like_a_card_is_a_payload(service: Service, start: str) -> None:
    long, short = start + "y\n" * 300_000, f"{start}Short."
    with Client(service.url) as client:
        outputs = ToolOutputs(client)
        assert str(outputs.card(long, "fetch")).startswith("[art_")
        assert len(outputs.card(long, "fetch")) < len(client.carder()(long)) + 2_000 < 10_000
        text = {"type": "text", "text": LOG}
        own = {"type": "text", "text": short}
        shown = outputs.card([own, text, own], "build")
        assert (shown[0], shown[2], len(shown)) == (own, own, 3)
        assert shown[1]["text"].startswith("[art_")
        message = ToolMessage([own, text], tool_call_id="call_1")
        assert payload(message, 100) == [text]
        assert replace_content(message, client.put(LOG), []).content[0] == own
        assert outputs.card([own, own], "build") == [own, own]
    assert payload_of([own, text], None, 100) == LOG
    assert payload_of([own], {"lines": LOG}, 100) is None
    assert with_card({"content": [own, text]}, "card")["content"] == [own, {"type": "text", "text": "card"}]


def test_a_block_whose_type_is_no_name_is_passed_over() -> None:
    odd, text = {"type": ["text"], "text": "x"}, {"type": "text", "text": LOG}
    assert payload_of([odd, text], None, 100) == LOG
    picture = {"type": "image", "base64": LONG}
    assert images(ToolMessage([{"type": {"image": 1}, "data": LONG}, picture], tool_call_id="call_1")) == [picture]
    event = {"tool_name": ["Bash"], "tool_response": {"stdout": "x"}}
    assert whole_event(event) is event


def test_a_model_s_call_is_judged_by_the_service_and_never_raises(service: Service) -> None:
    with Client(service.url) as client:
        stored = client.put(LOG).id
        (tool,) = with_coatcheck([], client)
        for arguments in ({"artifact_id": stored, "limit": 2, "view": None}, {"id": stored, "limit": 2, "colour": 9}):
            for written in (arguments, json.dumps(arguments)):
                assert "\nline 1 of the log\n" in ToolOutputs(client).read(written)
            assert "\nline 1 of the log\n" in tool.call(arguments)
        wrongs: list[Any] = [{}, [], "{", None]
        for wrong in wrongs:
            assert re.search(r"artifact_id is missing|Check the ID", ToolOutputs(client).read(wrong))
        assert "[invalid_request]" in ToolOutputs(client).read({"artifact_id": float("nan")})
    with Client("http://127.0.0.1:1", retries=Retries(attempts=1)) as client:
        assert "[unreachable]" in ToolOutputs(client).read({"id": stored})


def test_an_agent_is_wrapped_once() -> None:
    with pytest.raises(ValueError, match="wrap it once"):
        ToolOutputs.of_agent(["get_log", "read_artifact"], None, {"exempt_tools": ["get_log"]})
