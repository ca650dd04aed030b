"""Start `coatcheck mcp-wrap` as a host does, around a server that has a tool for everything."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVER = Path(__file__).parent / "mcp_server.py"
COMMAND = ("--", sys.executable, str(SERVER))
WRAP = (sys.executable, "-m", "coatcheck", "mcp-wrap")
SMALL_WRAP = (sys.executable, "-m", "coatcheck_client.integrations.mcp_wrap")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def host(*command: str, cwd: Path | None = None, **options: Any) -> AsyncGenerator[Client]:  # noqa: ANN401
    """The official client as a host of whatever a command serves on its standard streams."""
    env = {**ENVIRONMENT, "COLOUR": "green"}
    parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=env, cwd=cwd)
    async with Client(stdio_client(parameters), **options) as client:
        yield client


@contextmanager
def http_server(log: Path, *arguments: str) -> Generator[str]:
    """The server over streamable HTTP, which writes to a log; yields its URL."""
    command = [sys.executable, "-u", str(SERVER), "0", *arguments]
    with log.open("w") as errors, subprocess.Popen(command, stdout=errors, stderr=errors, env=ENVIRONMENT) as process:
        try:
            while (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())) is None:
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield f"{found[0]}/mcp"
        finally:
            process.kill()


async def there(file: Path) -> None:
    """Wait until a file is there."""
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.02)


def text_of(result: types.CallToolResult) -> str:
    """The only block's text."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def artifact_in(card: str) -> str:
    """The artifact ID of a card."""
    found = re.match(r"\[(art_[0-9]{18}) ", card)
    assert found is not None, card[:200]
    return found[1]
