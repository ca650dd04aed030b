"""The commands `list`, `get`, `outline` and `delete`, for whole artifacts of a running service."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import click
import httpx

from coatcheck.cli.command_setup import render_size
from coatcheck.cli.exits import Exit, echo, echo_items, fail
from coatcheck.cli.http_client import artifact_path, ask, connect, encode_options, service_options, unless_reached

_PIECE_BYTES: Final = 256 * 1024
"""Bytes that are written to the output at once. Chosen, not measured."""


@click.command("list")
@click.argument("words", nargs=-1)
@click.option("--session", help="Only artifacts of this session.")
@click.option("--kind", help="Only artifacts of this kind.")
@click.option("--tool-name", help="Only artifacts from this tool.")
@click.option("--source", "url", help="Only artifacts from this URL.")
@click.option("--status", type=int, help="Only pages that came with this HTTP status.")
@click.option("--final-url", help="Only pages whose redirects led to this URL.")
@click.option("--label", help="Only artifacts with this label.")
@click.option("--after", "created_after", metavar="TIME", help="Only artifacts stored at this time or later.")
@click.option(
    "--before",
    "created_before",
    metavar="TIME",
    help="Only artifacts stored before this time: 2026-01-31T12:00:00Z.",
)
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Maximum number listed.")
@service_options
def list_(
    words: tuple[str, ...], limit: int, service: str | None, key: str | None, as_json: bool, **filters: str | int | None
) -> None:
    """List artifacts, newest first; with WORDS only those that contain all of them."""
    params: dict[str, Any] = encode_options(filters) | ({"q": " ".join(words)} if words else {})
    items: list[dict[str, Any]] = []
    with connect(service, key) as client:
        while len(items) < limit:  # a page may be short although there are more
            params["limit"] = limit - len(items)
            page = ask(lambda: client.get("/v1/artifacts", params=params), client, items=list, next=object)
            items += page["items"]
            if page["next"] is None:
                break
            params["cursor"] = page["next"]
    echo_items(items, _render_line, "No artifact was found.", as_json=as_json)


def _render_line(item: dict[str, Any]) -> str:
    title = item["title"] or item["url"] or item["tool_name"] or ""
    if item.get("redirected"):
        title += f" -> {item['final_url']}"
    if (status := item.get("status")) is not None and status // 100 != 2:  # noqa: PLR2004 - statuses of success
        title = f"HTTP {status}  {title}"
    size = render_size(item["size"]["bytes"])
    return f"{item['id']}  {item['created_at'][:16]}Z  {item['kind']}  {size}  {title}".rstrip()


@click.command()
@click.argument("artifact_id")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead.")
@click.option("--view", type=click.Choice(["raw", "text"]), help="The payload (raw, the default) or its text.")
@click.option("--section", help="Only this part, as the outline names it.")
@service_options
def get(
    artifact_id: str,
    output: Path | None,
    service: str | None,
    key: str | None,
    as_json: bool,
    **parameters: str | None,
) -> None:
    """Write the payload of an artifact to standard output, byte for byte.

    With --json, its metadata instead.
    """
    path = artifact_path(artifact_id)
    with connect(service, key) as client:
        if as_json:
            answer = ask(lambda: client.get(path), client, artifact=dict)
            echo(json.dumps(answer["artifact"], indent=2, ensure_ascii=False))
            return
        with (
            unless_reached(client),
            client.stream("GET", f"{path}/content", params=encode_options(parameters)) as response,
        ):
            if not response.is_success:
                response.read()
                ask(lambda: response, client)
            _write(response, output)


def _write(response: httpx.Response, output: Path | None) -> None:
    """Writes the response to standard output or to a new file, which is removed if it stays incomplete."""
    if output is None:
        for piece in response.iter_bytes(_PIECE_BYTES):
            echo(piece, nl=False)
        return
    try:
        with output.open("xb") as file:
            try:
                for piece in response.iter_bytes(_PIECE_BYTES):
                    file.write(piece)
            except BaseException:
                output.unlink(missing_ok=True)
                raise
    except OSError as error:
        fail(Exit.WRONG, f"{output} cannot be written: {error.strerror}.")


@click.command()
@click.argument("artifact_id")
@click.option("--section", help="Only what is in this part.")
@click.option("--offset", type=int, help="Entries to skip.")
@click.option("--limit", type=int, help="Entries to show.")
@service_options
def outline(artifact_id: str, service: str | None, key: str | None, as_json: bool, **parameters: Any) -> None:  # noqa: ANN401 - numbers and texts
    """Print what is in an artifact and where: headings, definitions, files, keys, tables."""
    path = f"{artifact_path(artifact_id)}/outline"
    with connect(service, key) as client:
        answer = ask(lambda: client.get(path, params=encode_options(parameters)), client, text=str, entries=list)
    echo(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else answer["text"])
    if not answer["entries"]:
        sys.exit(Exit.NOTHING)


@click.command()
@click.argument("artifact_ids", nargs=-1, required=True, metavar="ARTIFACT_ID...")
@service_options
def delete(artifact_ids: tuple[str, ...], service: str | None, key: str | None, as_json: bool) -> None:
    """Delete artifacts: from now on they are reported as gone."""
    paths = [artifact_path(each) for each in artifact_ids]
    with connect(service, key) as client:
        for each, path in zip(artifact_ids, paths, strict=True):
            ask(lambda path=path: client.delete(path), client)
            if not as_json:
                echo(f"{each} is deleted.")
    if as_json:
        echo(json.dumps({"deleted": artifact_ids}))
