"""Which release a service is, and that a client says once that it needs a later one."""

import asyncio
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import httpx
import pytest

import coatcheck
import coatcheck_client
from client.servers import answering, refusal
from client.transports import Scripted, answers
from coatcheck_client import AsyncClient, Client, ServiceError
from coatcheck_client.contract.answers import VERSION_FIELD
from coatcheck_client.options import NEEDED_SERVICE
from support.service import COMMAND, Service, serving

OLD = "import coatcheck; coatcheck.__version__ = '0.1.0'; from coatcheck.cli import main; main()"
LIST = b'{"items": [], "next": null}'


class Counting(httpx.HTTPTransport):
    """Real connections, and how many requests went through them."""

    requests = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return super().handle_request(request)


class CountingAsync(httpx.AsyncHTTPTransport):
    """The same on an event loop."""

    requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return await super().handle_async_request(request)


def blocking(url: str) -> int:
    with Client(url, transport=(transport := Counting())) as client:
        assert client.put("x").stored
        assert client.put("y").stored
    return transport.requests


def on_a_loop(url: str) -> int:
    transport = CountingAsync()

    async def program() -> None:
        async with AsyncClient(url, transport=transport) as client:
            assert (await client.put("x")).stored
            assert (await client.put("y")).stored

    asyncio.run(program())
    return transport.requests


@pytest.mark.parametrize("program", [blocking, on_a_loop])
def test_an_older_service_is_used_with_one_warning_and_no_further_request(
    program: Callable[[str], int], tmp_path: Path
) -> None:
    with (
        serving(tmp_path / "data", command=(sys.executable, "-c", OLD)) as service,
        pytest.warns(
            UserWarning, match=rf"is Coatcheck 0\.1\.0, and this client needs {NEEDED_SERVICE} or"
        ) as messages,
    ):
        assert program(service.url) == 2
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("headers", "warning"),
    [
        ({"x-request-id": "r", VERSION_FIELD: "98.7.6"}, "is Coatcheck 98.7.6, and this client needs 99.0.0"),
        ({"x-request-id": "r"}, "is Coatcheck 0.10.0 or earlier, and this client needs 99.0.0"),
    ],
    ids=["an older one", "one that does not say"],
)
def test_a_refusal_tells_the_release_as_well(
    headers: dict[str, str], warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coatcheck_client.options.NEEDED_SERVICE", "99.0.0")
    with (
        answering(404, refusal("not_found"), **headers) as old,
        Client(old.url) as client,
        pytest.warns(UserWarning, match=warning),
        pytest.raises(ServiceError),
    ):
        client.describe("art_482913077564201876")


@pytest.mark.parametrize(
    "headers",
    [{"x-request-id": "r", VERSION_FIELD: "99.0.0"}, {"x-request-id": "r", VERSION_FIELD: "100.0.0.dev1"}, {}],
    ids=["the one it needs", "a newer one", "another program"],
)
def test_any_other_service_is_used_without_a_warning(headers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coatcheck_client.options.NEEDED_SERVICE", "99.0.0")
    with warnings.catch_warnings(), Client(transport=Scripted(answers(200, LIST, **headers))) as client:
        warnings.simplefilter("error")
        assert list(client.each_artifact()) == []


def test_all_that_tell_the_release_agree(service: Service) -> None:
    command = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True).stdout
    page, metrics, document = (service.client.get(path) for path in ("/", "/metrics", "/v1/openapi.json"))
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = service.client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        headers={"accept": "application/json, text/event-stream"},
    )
    with socket.create_connection(service.address) as connection:
        connection.sendall(b"no request at all\r\n\r\n")
        refused = connection.makefile("rb").read().decode()
    versions = {
        "coatcheck --version": re.findall(r"^coatcheck, version (.*)$", command, re.MULTILINE),
        "the page's foot": re.findall(r"<footer>Coatcheck (\S+) ", page.text),
        "the metrics": re.findall(r'^coatcheck_build_info\{.*version="(.+?)".*\} 1\.0$', metrics.text, re.MULTILINE),
        "the OpenAPI document": [document.json()["info"]["version"]],
        "MCP": [answer.json()["result"]["serverInfo"]["version"]],
        "an answer": page.headers.get_list(VERSION_FIELD),
        "a refusal before there is a request": re.findall(rf"^{VERSION_FIELD}: (.*)\r$", refused, re.MULTILINE),
        "the service": [coatcheck.__version__],
        "its package": [metadata.version("coatcheck")],
        "the client's package": [metadata.version("coatcheck-client")],
    }
    assert versions == {place: [coatcheck_client.__version__] for place in versions}
