"""`put`, `card`, `read`, `search`: use a running service over HTTP."""

import json
import mimetypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, TextIO

import click
import httpx

from coatcheck.cli.exits import Exit, echo, fail, standard_input
from coatcheck.cli.http_client import artifact_path, ask, connect, given, in_header, service_options
from coatcheck.cli.option_names import in_options

CHUNK = 256 * 1024
PROGRESS_FROM = 8 * 1024**2
"""Size from which an upload on a terminal shows a progress bar."""


def _show(body: dict[str, Any], *, as_json: bool) -> None:
    """Prints the text exactly, or the whole answer."""
    if as_json:
        echo(json.dumps(body, ensure_ascii=False, indent=2))
        return
    text = body["text"]
    if text:
        echo(text.encode(errors="replace"), nl=not text.endswith("\n"))
    if body.get("message"):  # instead of a text
        echo(f"coatcheck: {in_options(body['message'])}", err=True)
    for warning in body.get("warnings", ()):
        echo(f"coatcheck: {warning['message']} [{warning['code']}]", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@service_options
@click.option("--tool-name", help="Tool that produced the output.")
@click.option("--tool-call-id", help="ID of the tool call.")
@click.option("--command", help="Command that was run, or a summary of the tool's arguments.")
@click.option("--session", help="Conversation or run that the payload belongs to.")
@click.option("--source", help="URL that the payload came from.")
@click.option("--title", help="Title (default: the file's name).")
@click.option("--kind", help="Kind of payload (default: detected).")
@click.option("--media-type", help="Media type (default: guessed from the file's name).")
@click.option("--query", help="What you are looking for; the card's excerpts are chosen for it.")
@click.option("--label", multiple=True, help="A label; may be given several times.")
@click.option("--ttl", help="How long to keep the payload: seconds, or 30m, 12h, 7d.")
@click.option("--pin", is_flag=True, help="Keep the payload until it is deleted.")
@click.option("--card-tokens", type=int, help="Token budget of the card (600).")
@click.option("--inline-tokens", type=int, help="Print payloads of up to this many tokens unchanged (1000).")
@click.option("--compare-to", help="Compare with this artifact ID, or with the previous run (previous).")
@click.option("--no-tools", is_flag=True, help="The model cannot read further: leave the tool out of the card.")
@click.option("--keep-ends", is_flag=True, help="If the payload exceeds the size limit, keep its two ends.")
def put(file: str, service: str | None, key: str | None, as_json: bool, **fields: Any) -> None:  # noqa: ANN401
    """Store FILE (- for standard input) and print what the model should read instead.

    Exit code 4: the service could not store it; the text is printed anyway.
    """
    params = _params(file, fields)
    media_type = fields["media_type"] or mimetypes.guess_type(file)[0]
    if media_type and not in_header(media_type):
        fail(Exit.WRONG, f"--media-type {media_type!r} is not a media type such as text/plain; charset=utf-8")
    headers = {"content-type": media_type} if media_type else {}
    size = _size(file)
    if size is not None:
        headers["content-length"] = str(size)
    with connect(service, key) as client, _open(file) as stream:
        content = _chunks(_pieces(file, stream, size), size)
        body = ask(
            lambda: client.post("/v1/artifacts/raw", params=params, headers=headers, content=content),
            client,
            text=str,
            stored=bool,
        )
    _show(body, as_json=as_json)
    if not body["stored"]:  # the text is good, and a warning on standard error has said why
        sys.exit(Exit.UNREACHABLE)


_FIELDS: Final = (
    "tool_name",
    "tool_call_id",
    "command",
    "session",
    "kind",
    "query",
    "ttl",
    "card_tokens",
    "inline_tokens",
    "compare_to",
)


def _params(file: str, fields: dict[str, Any]) -> httpx.QueryParams:
    params = [(name, str(fields[name])) for name in _FIELDS if fields[name] is not None]
    if fields["source"]:
        params.append(("url", fields["source"]))
    title = fields["title"] or (Path(file).name if _regular(file) else None)
    if title:
        params.append(("title", title))
    params += [("labels", label) for label in fields["label"]]
    if fields["pin"]:
        params.append(("pin", "true"))
    if fields["keep_ends"]:
        params.append(("oversize", "keep_ends"))
    if fields["no_tools"]:
        params.append(("tools", "none"))
    params.append(("allow_empty", "true"))  # a missing file has already been refused
    return httpx.QueryParams(tuple((name, _sendable(value)) for name, value in params))


def _sendable(text: str) -> str:
    """Returns a name or a title that can be sent: bytes in it that are not text become U+FFFD, as in a file's name."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _size(file: str) -> int | None:
    """Returns the size of a regular file.

    None if only reading it tells: a pipe, or a file that is generated as it is read.
    """
    return Path(file).stat().st_size or None if _regular(file) else None


def _regular(file: str) -> bool:
    return file != "-" and Path(file).is_file()


def _open(file: str) -> BinaryIO:
    try:
        if file != "-":
            return Path(file).open("rb")
    except OSError as error:
        _unreadable(file, error)
    given = standard_input()
    if given is None:
        fail(Exit.WRONG, "standard input is closed, so there is nothing to store.")
    return given.buffer


def _chunks(pieces: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    """Yields the pieces; those of a long file move a progress bar on a terminal."""
    if size is None or size < PROGRESS_FROM or not _on_terminal():
        yield from pieces
        return
    with click.progressbar(length=size, label="Uploading", file=sys.stderr) as bar:
        for chunk in pieces:
            yield chunk
            bar.update(len(chunk))


def _on_terminal() -> bool:
    shown: TextIO | None = sys.stderr
    return shown is not None and shown.isatty()


def _pieces(file: str, stream: BinaryIO, size: int | None) -> Iterator[bytes]:
    """Yields the file in pieces, up to its announced size."""
    done = 0
    # What is appended to a log while it is sent was not announced, and is left for the next time.
    while chunk := _piece(file, stream, CHUNK if size is None else min(CHUNK, size - done)):
        yield chunk
        done += len(chunk)
    if size is not None and done < size:
        fail(
            Exit.WRONG, f"{_sendable(file)} became shorter while it was being read. Store it again when it is complete."
        )


def _piece(file: str, stream: BinaryIO, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        _unreadable(file, error)


def _unreadable(file: str, error: OSError) -> NoReturn:
    name = "standard input" if file == "-" else _sendable(file)
    fail(Exit.WRONG, f"{name} cannot be read: {error.strerror}.")


@click.command()
@click.argument("artifact_id")
@service_options
@click.option("--tokens", type=int, help="Token budget of the card (600).")
@click.option("--query", help="What you are looking for; the excerpts are chosen for it.")
@click.option(
    "--no-tools", "tools", flag_value="none", help="The model cannot read further: leave the tool out of the card."
)
def card(artifact_id: str, service: str | None, key: str | None, as_json: bool, **parameters: Any) -> None:  # noqa: ANN401
    """Print the card of an artifact again, with any token budget."""
    with connect(service, key) as client:
        body = ask(lambda: client.get(f"{artifact_path(artifact_id)}/card", params=given(parameters)), client, text=str)
    _show(body, as_json=as_json)


@click.command()
@click.argument("artifact_id")
@service_options
@click.option("--unit", type=click.Choice(["line", "char", "byte", "token"]), help="Unit of offset and limit.")
@click.option("--offset", type=int, help="Where to begin: lines from 1, other units from 0.")
@click.option("--limit", type=int, help="How many units to read.")
@click.option("--cursor", help="Continue where an earlier answer stopped.")
@click.option("--section", help="Only this part, as the outline names it.")
@click.option("--view", type=click.Choice(["raw", "text"]), help="The payload itself, or its readable text.")
@click.option("--max-tokens", type=int, help="Maximum tokens of the answer (4000; at most 8000).")
def read(artifact_id: str, service: str | None, key: str | None, as_json: bool, **parameters: Any) -> None:  # noqa: ANN401
    """Print a part of an artifact."""
    with connect(service, key) as client:
        body = ask(lambda: client.get(f"{artifact_path(artifact_id)}/read", params=given(parameters)), client, text=str)
    _show(body, as_json=as_json)
    if not as_json and body.get("next"):
        echo(f"coatcheck: there is more: --cursor {body['next']['cursor']}", err=True)


@click.command()
@click.argument("artifact_id")
@click.argument("pattern")
@service_options
@click.option("-F", "--literal", is_flag=True, help="Treat the pattern as plain text.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case.")
@click.option("-C", "--context", type=int, help="Lines to show around a match.")
@click.option("--section", help="Only this part, as the outline names it.")
@click.option("--view", type=click.Choice(["raw", "text"]), help="The payload itself, or its readable text.")
@click.option("--offset", type=int, help="Matching lines to skip.")
@click.option("--limit", type=int, help="Matching lines to show (20; at most 200).")
@click.option("--max-tokens", type=int, help="Maximum tokens of the answer (4000; at most 8000).")
def search(
    artifact_id: str,
    pattern: str,
    service: str | None,
    key: str | None,
    as_json: bool,
    **parameters: Any,  # noqa: ANN401
) -> None:
    """Print the lines of an artifact that match PATTERN (RE2), as grep does."""
    params = {"pattern": pattern} | given(parameters)
    with connect(service, key) as client:
        path = f"{artifact_path(artifact_id)}/search"
        body = ask(lambda: client.get(path, params=params), client, text=str, matches=list)
    _show(body, as_json=as_json)
    if not body["matches"]:
        sys.exit(Exit.NOTHING)
