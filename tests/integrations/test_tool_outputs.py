"""What hooks of frameworks share, beside a running service: which results become cards, and which stay."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from coatcheck_client import Client
from coatcheck_client.integrations.tool_outputs import ToolOutputs
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
    ],
)
def test_values_that_only_look_like_parts_become_cards(service: Service, result: object) -> None:
    with Client(service.url) as client:
        assert str(ToolOutputs(client).card(result, "tool")).startswith("[art_")


def test_what_fails_is_logged_and_stays(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise RuntimeError("no parts")

    broken = Broken("ab")
    with Client("http://127.0.0.1:1") as client, caplog.at_level(logging.WARNING):
        assert ToolOutputs(client).card(broken, "tool") is broken
    assert "the result of tool stays as it is: no parts" in caplog.text


def test_an_agent_is_wrapped_once() -> None:
    with pytest.raises(ValueError, match="wrap it once"):
        ToolOutputs.of_agent(["get_log", "read_artifact"], None, {"exempt_tools": ["get_log"]})
