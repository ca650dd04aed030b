"""`put`, `card`, `read`, `search`: talk to a running service over HTTP."""

import json
import mimetypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import httpx

from coatcheck.cli.exits import Exit, fail
from coatcheck.cli.talk import ask, connect, service_options
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.ids import parse

CHUNK = 256 * 1024
PROGRESS_FROM = 8 * 1024**2
"""Bytes from which an upload on a terminal shows a progress bar."""


def _show(body: dict[str, Any], *, as_json: bool) -> None:
    """Print the text exactly, or the whole answer."""
    if as_json:
        click.echo(json.dumps(body, ensure_ascii=False, indent=2))
        return
    out = sys.stdout.buffer
    out.write(str(body["text"]).encode())
    if not str(body["text"]).endswith("\n"):
        out.write(b"\n")
    out.flush()
    for warning in body.get("warnings", ()):
        click.echo(f"coatcheck: {warning['message']} [{warning['code']}]", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@service_options
@click.option("--tool-name", help="The tool that made this output.")
@click.option("--tool-call-id", help="The call it answers.")
@click.option("--session", help="The conversation or run it belongs to.")
@click.option("--source", help="URL that the payload came from.")
@click.option("--title", help="What it is (default: the file's name).")
@click.option("--kind", help="What kind it is; recognised when not given.")
@click.option("--media-type", help="Its media type (default: by the file's name).")
@click.option("--query", help="What you are looking for; the card's excerpts follow it.")
@click.option("--label", multiple=True, help="A label; may be given several times.")
@click.option("--ttl", help="How long to keep it: seconds, or 30m, 12h, 7d.")
@click.option("--pin", is_flag=True, help="Keep it until it is deleted.")
@click.option("--card-tokens", type=int, help="Budget of the card (600).")
@click.option("--inline-tokens", type=int, help="Size up to which the payload itself is printed (1000).")
@click.option("--keep-ends", is_flag=True, help="Keep both ends of a payload over the limit.")
def put(file: str, service: str | None, key: str | None, as_json: bool, **said: Any) -> None:  # noqa: ANN401
    """Hand over FILE (- for standard input) and print what the model should read instead.

    Ends with 4 when the service could not store it; the text is printed all the same.
    """
    params = _params(file, said)
    media_type = said["media_type"] or mimetypes.guess_type(file)[0]
    headers = {"content-type": media_type} if media_type else {}
    size = _size(file)
    if size is not None:
        headers["content-length"] = str(size)
    with connect(service, key) as client, _open(file) as stream:
        body = ask(
            lambda: client.post("/v1/artifacts/raw", params=params, headers=headers, content=_chunks(stream, size)),
            client,
        )
    _show(body, as_json=as_json)
    if not body["stored"]:  # the text is good, and the warning on standard error has said why
        sys.exit(Exit.UNREACHABLE)


def _params(file: str, said: dict[str, Any]) -> httpx.QueryParams:
    fields = ("tool_name", "tool_call_id", "session", "kind", "query", "ttl", "card_tokens", "inline_tokens")
    params = [(name, str(said[name])) for name in fields if said[name] is not None]
    if said["source"]:
        params.append(("url", said["source"]))
    title = said["title"] or (Path(file).name if _regular(file) else None)
    if title:
        params.append(("title", title))
    params += [("labels", label) for label in said["label"]]
    if said["pin"]:
        params.append(("pin", "true"))
    if said["keep_ends"]:
        params.append(("oversize", "keep_ends"))
    return httpx.QueryParams(tuple(params))


def _size(file: str) -> int | None:
    """Bytes of a regular file. None when only reading it tells: a pipe, or a file that is made up as it is read."""
    return Path(file).stat().st_size or None if _regular(file) else None


def _regular(file: str) -> bool:
    return file != "-" and Path(file).is_file()


def _open(file: str) -> BinaryIO:
    return sys.stdin.buffer if file == "-" else Path(file).open("rb")


def _chunks(stream: BinaryIO, size: int | None) -> Iterator[bytes]:
    """The file in pieces, up to the size that it had; a long one moves a progress bar on a terminal."""
    if not sys.stderr.isatty() or size is None or size < PROGRESS_FROM:
        yield from _pieces(stream, size)
        return
    with click.progressbar(length=size, label="Uploading", file=sys.stderr) as bar:
        for chunk in _pieces(stream, size):
            yield chunk
            bar.update(len(chunk))


def _pieces(stream: BinaryIO, size: int | None) -> Iterator[bytes]:
    done = 0
    # What is appended to a log while it is sent was not announced, and waits for the next time.
    while chunk := stream.read(CHUNK if size is None else min(CHUNK, size - done)):
        yield chunk
        done += len(chunk)


@click.command()
@click.argument("artifact_id")
@service_options
@click.option("--tokens", type=int, help="Budget of the card (600).")
@click.option("--query", help="What you are looking for; the excerpts follow it.")
def card(artifact_id: str, service: str | None, key: str | None, as_json: bool, **asked: Any) -> None:  # noqa: ANN401
    """Print the card of an artifact again, at any budget."""
    with connect(service, key) as client:
        body = ask(lambda: client.get(f"/v1/artifacts/{_id(artifact_id)}/card", params=_given(asked)), client)
    _show(body, as_json=as_json)


@click.command()
@click.argument("artifact_id")
@service_options
@click.option("--unit", type=click.Choice(["line", "char", "byte", "token"]), help="What offset and limit count.")
@click.option("--offset", type=int, help="Where to begin; lines count from 1, the others from 0.")
@click.option("--limit", type=int, help="How many to read.")
@click.option("--cursor", help="Go on where an earlier answer stopped.")
@click.option("--max-tokens", type=int, help="Upper bound of the answer (4000; at most 8000).")
def read(artifact_id: str, service: str | None, key: str | None, as_json: bool, **asked: Any) -> None:  # noqa: ANN401
    """Print a part of an artifact."""
    with connect(service, key) as client:
        body = ask(lambda: client.get(f"/v1/artifacts/{_id(artifact_id)}/read", params=_given(asked)), client)
    _show(body, as_json=as_json)
    if not as_json and body.get("next"):
        click.echo(f"coatcheck: there is more: --cursor {body['next']['cursor']}", err=True)


@click.command()
@click.argument("artifact_id")
@click.argument("pattern")
@service_options
@click.option("-F", "--literal", is_flag=True, help="The pattern is plain text.")
@click.option("-i", "--ignore-case", is_flag=True, help="Capitals and small letters are the same.")
@click.option("-C", "--context", type=int, help="Lines to show around a match.")
@click.option("--offset", type=int, help="Matching lines to skip.")
@click.option("--limit", type=int, help="Matching lines to show (20; at most 200).")
@click.option("--max-tokens", type=int, help="Upper bound of the answer (4000; at most 8000).")
def search(
    artifact_id: str,
    pattern: str,
    service: str | None,
    key: str | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401
) -> None:
    """Print the lines of an artifact that match PATTERN (RE2), as grep does."""
    params = {"pattern": pattern} | _given(asked)
    with connect(service, key) as client:
        body = ask(lambda: client.get(f"/v1/artifacts/{_id(artifact_id)}/search", params=params), client)
    _show(body, as_json=as_json)
    if not body["matches"]:
        sys.exit(Exit.NOTHING)


def _id(text: str) -> str:
    """An artifact ID that may become part of a path; anything else ends the command."""
    try:
        parse(text)
    except CoatcheckError as error:
        fail(Exit.WRONG, f"{error.detail} [{error.code}]")
    return text


def _given(asked: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in asked.items()
        if value is not None and value is not False
    }
