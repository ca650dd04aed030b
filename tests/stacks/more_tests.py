"""Tests that many stacks have, each once for a stack: the page's script, and a result with an image."""

import asyncio
import json
from typing import Any

import pytest

from coatcheck_client import Client
from model_server import model_server
from page import run_page
from scenario import NEEDLE, PICTURE, plan, saw_a_card
from stack_tests import StackTests
from wire_formats import Call


class PageTests(StackTests):
    """Of a stack whose page is one script in Python."""

    def variables(self, url: str) -> dict[str, str]:
        """Variables with which the framework finds the model server at this URL."""
        return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none"}

    def names(self) -> dict[str, Any]:
        """What the script has already, besides the tools."""
        return {}

    async def test_the_blocks_of_the_page_run(self, service_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with model_server(plan()) as model:
            for name, value in {**self.variables(model.url), "COATCHECK_URL": service_url}.items():
                monkeypatch.setenv(name, value)
            assert NEEDLE in await asyncio.to_thread(run_page, self.name, **self.names())


class PictureTests(StackTests):
    """Of a stack whose tool `get_pictured_log` returns the log and a picture of it."""

    async def test_an_image_stays_beside_the_card(self, service_url: str) -> None:
        with model_server(plan([Call("get_pictured_log", {})])) as model, Client(service_url) as client:
            saw_a_card(model, await self.run(client, model.url, self.modes[0]))
        assert PICTURE in json.dumps(model.bodies[1])
