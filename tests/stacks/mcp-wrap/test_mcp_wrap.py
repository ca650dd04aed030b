"""`mcp-wrap` around servers that people use: files (npm), pages (PyPI), a database (PyPI, the SDK's first version)."""

import json
import os
import re
import sqlite3
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client as Host
from mcp.client.stdio import StdioServerParameters, stdio_client

from coatcheck_client import Client
from page import block
from support.http_server import QuietHandler, http_server
from scenario import LOG, MOST_TOKENS, NEEDLE, ROOT, WANTED, failing, tokens_of

HERE = Path(__file__).parent
UVX = str(ROOT / ".uv" / "bin" / "uvx")


class Files(QuietHandler, SimpleHTTPRequestHandler):
    """Serves files."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log, as a file, as a page, and in a database."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "log.txt").write_text(LOG)
    paragraphs = "".join(f"<p>{line}</p>" for line in LOG.splitlines())
    (folder / "page.html").write_text(f"<html><body><article><h1>Log</h1>{paragraphs}</article></body></html>")
    with sqlite3.connect(folder / "log.db") as database:
        database.execute("create table log (n integer, line text)")
        database.executemany("insert into log values (?, ?)", enumerate(LOG.splitlines()))
    database.close()
    return folder


@pytest.fixture(scope="module")
def page(data: Path) -> Generator[str]:
    """The URL of the page."""
    with http_server(partial(Files, directory=str(data))) as url:
        yield f"{url}/page.html"


@pytest.fixture(params=["files", "pages", "database"])
def server(request: pytest.FixtureRequest, data: Path, node_modules: Path, page: str) -> tuple[list[str], str, Any]:
    """A server's command, and a call whose result is the log."""
    python = Path(sys.executable).parent
    return {
        "files": (
            [str(node_modules / "mcp-server-filesystem"), str(data)],
            "read_text_file",
            {"path": str(data / "log.txt")},
        ),
        "pages": (
            [str(python / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"],
            "fetch",
            {"url": page, "max_length": 900_000},
        ),
        "database": (
            [
                UVX,
                "--quiet",
                "--system-certs",
                "--with",
                "mcp<2",
                "mcp-server-sqlite",
                "--db-path",
                str(data / "log.db"),
            ],
            "read_query",
            {"query": "select * from log order by n"},
        ),
    }[request.param]


@asynccontextmanager
async def host(*command: str) -> AsyncGenerator[Host]:
    """The official client as a host."""
    parameters = StdioServerParameters(command=command[0], args=list(command[1:]))
    async with Host(stdio_client(parameters)) as client:
        yield client


def wrapped(url: str, *options: str) -> list[str]:
    """The command that wraps one."""
    return [sys.executable, "-m", "coatcheck_client.integrations.mcp_wrap", "--url", url, *options, "--"]


def text(result: Any) -> str:
    """All texts of a result."""
    return "\n".join(one.text for one in result.content if one.type == "text")


async def test_the_same_tools_cards_over_the_limit_and_the_needle(service_url: str, server: Any) -> None:
    command, tool, arguments = server
    async with host(*command) as plain, host(*wrapped(service_url), *command) as client:
        *tools, added = (await client.list_tools()).tools
        bare = {"output_schema"}
        expected = [one.model_dump(exclude=bare) for one in (await plain.list_tools()).tools]
        assert [one.model_dump(exclude=bare) for one in tools] == expected
        assert added.name == "read_artifact"
        whole = text(await plain.call_tool(tool, arguments))
        assert NEEDLE in whole
        result = await client.call_tool(tool, arguments)
        card = text(result)
        assert not result.is_error
        assert NEEDLE not in card
        with Client(service_url) as coatcheck:
            assert tokens_of(coatcheck, whole) > 100_000
            assert tokens_of(coatcheck, card) <= MOST_TOKENS + 20
            found = re.match(r"\[(art_[0-9]{18}) ", card)
            assert found is not None, card
            stored = coatcheck.content(found[1]).decode()
        assert stored == whole
        read = await client.call_tool("read_artifact", {"artifact_id": found[1], "pattern": f"request {WANTED} "})
        assert NEEDLE in text(read)


@pytest.mark.parametrize("how", ["stopped", "hanging", "refusing"])
async def test_the_original_goes_through_in_an_outage(how: str, server: Any) -> None:
    command, tool, arguments = server
    async with host(*command) as plain:
        whole = await plain.call_tool(tool, arguments)
        assert NEEDLE in text(whole)
    with failing(how) as url:
        async with host(*wrapped(url), *command) as client:
            result = await client.call_tool(tool, arguments)
            assert result.content == whole.content
            assert result.structured_content == whole.structured_content


async def test_an_exempt_tool_is_left_alone(service_url: str, server: Any) -> None:
    command, tool, arguments = server
    async with host(*wrapped(service_url, "--exempt", tool), *command) as client:
        assert NEEDLE in text(await client.call_tool(tool, arguments))


def as_reader(data: Path, service: str, *command: str) -> StdioServerParameters:
    """A command as a reader of the page starts it, with the programs of the environment."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": os.environ["HOME"], "COATCHECK_URL": service, "TOKEN": "a token"}
    words = [word.replace("/srv/files", str(data)) for word in command]
    return StdioServerParameters(command=words[0], args=words[1:], env=env, cwd=HERE)


@pytest.mark.usefixtures("node_modules")
@pytest.mark.parametrize("which", ["a program", "a URL"])
async def test_each_command_of_the_page_wraps_a_server(which: str, service_url: str, data: Path) -> None:
    with block("mcp-wrap", 2) as taken:
        program, url = taken.text.splitlines()
        line = program if which == "a program" else url.replace("https://mcp.example.com", service_url)
        async with Host(stdio_client(as_reader(data, service_url, "bash", "-c", line))) as client:
            assert "read_artifact" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.usefixtures("node_modules")
async def test_the_server_of_the_page_starts_as_it_says(service_url: str, data: Path) -> None:
    with block("mcp-wrap", 3) as taken:
        (how,) = json.loads(taken.text)["mcpServers"].values()
        assert set(how["env"]) == {"COATCHECK_URL", "COATCHECK_KEY"}
        async with Host(stdio_client(as_reader(data, service_url, how["command"], *how["args"]))) as client:
            result = await client.call_tool("read_text_file", {"path": str(data / "log.txt")})
        assert text(result).startswith("[art_")


@pytest.mark.usefixtures("node_modules")
async def test_the_tools_are_exempt_that_the_page_exempts(service_url: str, data: Path) -> None:
    with block("mcp-wrap", 4) as taken:
        async with Host(stdio_client(as_reader(data, service_url, "bash", "-c", taken.text))) as client:
            assert NEEDLE in text(await client.call_tool("read_text_file", {"path": str(data / "log.txt")}))
            schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        assert {name for name, schema in schemas.items() if schema} == {"read_text_file", "get_file_info"}


class Site(QuietHandler):
    """Pages of a site: one behind two redirects, one behind a login, a PDF; anything else is not there."""

    def do_GET(self) -> None:
        body = "".join(f"<p>Bed {n} has sand and loam, in which leeks grow.</p>" for n in range(200))
        page = (
            "<html><head><title>{0} | Site</title></head><body><article><h1>{0} in full</h1>{1}</article></body></html>"
        )
        led = {"/old": "/moved", "/moved": "/leeks", "/private": "/login?next=private"}
        pages = {"/leeks": page.format("Growing leeks", body), "/login?next=private": page.format("Sign in", body)}
        report = b"%PDF-1.4\n%\xe2\xe3\n1 0 obj\n<< /Title (Annual report) >>\nendobj\n" + b"% sand and loam\n" * 300
        if self.path in led:
            self.answer(302, b"", None, location=led[self.path])
        elif self.path in pages:
            self.answer(200, pages[self.path].encode(), "text/html; charset=utf-8")
        elif self.path == "/report.pdf":
            trailer = b"trailer\n<< /Info 1 0 R /Size 2 >>\nstartxref\n9\n%%EOF\n"
            self.answer(200, report + trailer, "application/pdf")
        else:
            self.answer(404, b"Not here.", "text/plain")


@pytest.fixture
def site() -> Generator[str]:
    """The URL of the site."""
    with http_server(Site) as url:
        yield url


async def test_cards_tell_how_pages_were_fetched_as_far_as_the_server_says_it(service_url: str, site: str) -> None:
    fetch = [str(Path(sys.executable).parent / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"]
    long = f"/missing?{'bed=sand-and-loam&' * 60}"  # a shorter result is no card: it says itself that there is no page
    expected = {
        long: ["HTTP status 404: not the page", "URL (clipped): "],
        "/old": ["Title: Growing leeks in full", "URL: "],
        "/private": ["Title: Sign in in full", "URL: "],
        "/report.pdf": ["Title: Annual report", "URL: ", "Content type: application/pdf"],
    }
    async with host(*wrapped(service_url, "--max-tokens", "300"), *fetch) as client:
        for path, lines in expected.items():
            result = await client.call_tool("fetch", {"url": f"{site}{path}", "max_length": 100_000})
            card = text(result).splitlines()
            assert card[0].startswith("[art_"), card
            assert all(line.startswith(begin) for line, begin in zip(card[1:], lines, strict=False)), card
            assert result.is_error == (path == long)
            with Client(service_url) as coatcheck:
                known = coatcheck.describe(card[0][1:23]).artifact
            assert known.url == f"{site}{path}"
            assert known.status == (404 if path == long else None)
