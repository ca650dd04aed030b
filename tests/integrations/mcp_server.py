"""A real MCP server, with a tool for whatever passes through a wrapper: `mcp_server.py`, or `mcp_server.py PORT`."""

import base64
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

LOG = "".join(f"line {n} of the log\n" for n in range(8_000))
PICTURE = types.ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
AUDIO = types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav")
LINK = types.ResourceLink(type="resource_link", name="report", uri="file:///report.txt")

Text = types.TextContent
server = MCPServer("everything", version="7", instructions="Everything that a wrapper has to pass on.")


class Answer(BaseModel):
    """What a user is asked for."""

    colour: str


@server.tool(title="Small", annotations=types.ToolAnnotations(read_only_hint=True))
def small() -> str:
    """Say something short."""
    return "fine"


@server.tool()
def log(lines: Annotated[int, Field(description="How many lines.")] = 8_000) -> str:
    """Show a log."""
    return "".join(f"line {n} of the log\n" for n in range(lines))


@server.tool()
def rows(count: int) -> list[dict[str, Any]]:
    """List records."""
    return [{"id": n, "name": f"customer {n}"} for n in range(count)]


@server.tool()
def hidden() -> types.CallToolResult:
    """Answer with structured content that no text repeats."""
    data = {"items": [f"secret number {n}" for n in range(4_000)]}
    return types.CallToolResult(content=[Text(type="text", text="4,000 items.")], structured_content=data)


@server.tool()
def mixed() -> types.CallToolResult:
    """Answer with blocks of every sort."""
    page = types.TextResourceContents(uri="file:///page.md", mime_type="text/markdown", text=LOG)
    return types.CallToolResult(
        content=[
            PICTURE,
            Text(type="text", text="Before the page."),
            types.EmbeddedResource(type="resource", resource=page),
            LINK,
            AUDIO,
            Text(type="text", text="After the page."),
        ],
        _meta={"from": "everything"},
    )


@server.tool()
def drawing() -> types.CallToolResult:
    """Answer with a large picture, also as structured content."""
    picture = types.ImageContent(type="image", data="QUJD" * 20_000, mime_type="image/png")
    copy = {"content": [picture.model_dump(by_alias=True, exclude_none=True)]}
    return types.CallToolResult(content=[picture], structured_content=copy)


PDF = b"%PDF-1.7\n" + random.Random(7).randbytes(80_000)
SHOT = b"\x89PNG\r\n\x1a\n" + random.Random(8).randbytes(60_000)


@server.tool()
def report() -> types.CallToolResult:
    """Answer with a document, as an embedded resource between other blocks."""
    code = base64.b64encode(PDF).decode()
    held = types.BlobResourceContents(uri="file:///reports/May.pdf", mime_type="application/pdf", blob=code)
    small = types.BlobResourceContents(uri="file:///icon.gif", mime_type="image/gif", blob="R0lGODlhAQABAAAAACw=")
    content = [
        Text(type="text", text="The report of May:"),
        types.EmbeddedResource(type="resource", resource=held),
        types.EmbeddedResource(type="resource", resource=small),
        PICTURE,
    ]
    copy = {"content": [block.model_dump(by_alias=True, exclude_none=True, mode="json") for block in content]}
    return types.CallToolResult(content=[*content], structured_content=copy)


@server.tool()
def shot(lines: int) -> str:
    """Answer with JSON that has a picture in it."""
    picture = {"mimeType": "image/png", "data": base64.b64encode(SHOT).decode()}
    return json.dumps({"page": "https://example.org/", "picture": picture, "log": LOG.splitlines()[:lines]})


@server.tool()
def broken(lines: int = 4_000) -> str:
    """Fail at length."""
    trace = "".join(f'  File "app{n}.py", line {n}, in call\n' for n in range(lines))
    raise ToolError(f"connect to db-7.internal failed: timeout\nTraceback:\n{trace}TimeoutError: gave up")


@server.tool()
async def steps(context: Context) -> str:
    """Report progress, then show a log."""
    for done in range(1, 4):
        await context.report_progress(done, 3, f"step {done}")
    return LOG


@server.tool()
async def slow(marker: str) -> str:
    """Wait until the call is cancelled, and write that to a file."""
    try:
        Path(f"{marker}.begun").touch()  # noqa: ASYNC240 - nothing else waits
        await anyio.sleep_forever()
    finally:
        Path(marker).touch()  # noqa: ASYNC240 - as above
    return "never"


@server.tool()
async def ask(context: Context) -> str:
    """Ask the user, the model and the host."""
    colour: Any = await context.elicit("Which colour?", Answer)
    session: Any = context.session  # some of these are deprecated, and hosts have them all the same
    asked = [types.SamplingMessage(role="user", content=Text(type="text", text="Draw."))]
    drawn = await session.create_message(asked, max_tokens=9)
    roots = await session.list_roots()
    return f"{colour.data} {drawn.content.text} {roots.roots[0].uri}"


@server.tool()
async def grow(context: Context) -> str:
    """Add a tool, and tell so."""
    server.add_tool(lambda: "grown", name="grown", description="Grown later.")
    await context.session.send_tool_list_changed()
    return "done"


@server.tool()
def spawn() -> str:
    """Start a process that does not end by itself, and tell its number and this one's."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return f"{child.pid} {os.getpid()}"


@server.tool()
def die(code: int) -> str:
    """End the server, with words on standard error."""
    sys.stderr.write("the server gives up\n")
    sys.stderr.flush()
    os._exit(code)


@server.tool()
def directory() -> str:
    """Tell the working directory and a variable of the environment."""
    return f"{Path.cwd()} {os.environ['COLOUR']}"  # noqa: TID251 - what the host has set


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@server.resource("log://all", mime_type="text/plain")
def all_of_the_log() -> str:
    """All of the log."""
    return LOG


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(lambda: server.run_streamable_http_async(port=int(sys.argv[1]), json_response="json" in sys.argv))
    else:
        server.run("stdio")
