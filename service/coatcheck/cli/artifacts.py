"""The commands `list`, `get`, `outline` and `delete`, for whole artifacts of a running service."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import click
import httpx

from coatcheck.cli.command_setup import render_size
from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.cli.http_client import ServiceClient, artifact_path, encode_options, service_options, unless_reached

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
def list_(service: ServiceClient, words: tuple[str, ...], limit: int, **filters: str | int | None) -> None:
    """List artifacts, newest first; with WORDS only those that contain all of them."""
    items = service.list_items("/v1/artifacts", {**filters, "q": " ".join(words) or None}, limit)
    service.echo_items(items, _render_line, "No artifact was found.")


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
def get(service: ServiceClient, artifact_id: str, output: Path | None, **parameters: str | None) -> None:
    """Write the payload of an artifact to standard output, byte for byte.

    With --json, its metadata instead.
    """
    path = artifact_path(artifact_id)
    if service.as_json:
        answer = service.ask("GET", path, {"artifact": dict})
        echo(json.dumps(answer["artifact"], indent=2, ensure_ascii=False))
        return
    with (
        unless_reached(service.http),
        service.http.stream("GET", f"{path}/content", params=encode_options(parameters)) as response,
    ):
        if not response.is_success:
            response.read()
            service.read_answer(response, {})
        _write(response, output)


def _write(response: httpx.Response, output: Path | None) -> None:
    """Writes the response to standard output, or to a new file. An incomplete file is removed."""
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
def outline(service: ServiceClient, artifact_id: str, **parameters: str | int | None) -> None:
    """Print what is in an artifact and where: headings, definitions, files, keys, tables."""
    path = f"{artifact_path(artifact_id)}/outline"
    answer = service.ask("GET", path, {"text": str, "entries": list}, params=encode_options(parameters))
    echo(json.dumps(answer, indent=2, ensure_ascii=False) if service.as_json else answer["text"])
    if not answer["entries"]:
        sys.exit(Exit.NOTHING)


@click.command()
@click.argument("artifact_ids", nargs=-1, required=True, metavar="ARTIFACT_ID...")
@service_options
def delete(service: ServiceClient, artifact_ids: tuple[str, ...]) -> None:
    """Delete artifacts: from now on they are reported as gone."""
    paths = [artifact_path(each) for each in artifact_ids]
    for each, path in zip(artifact_ids, paths, strict=True):
        service.ask("DELETE", path, {})
        if not service.as_json:
            echo(f"{each} is deleted.")
    if service.as_json:
        echo(json.dumps({"deleted": artifact_ids}))
