"""`put`, `card`, `read`, `search`: use a running service over HTTP.

`put` stands at the end of a pipeline, and the output remains only where `put` stores or prints it. So whatever fails,
`put` prints the text, or the text's two ends, and says so if the output broke off. It withholds only a payload that was
refused for a secret in it.
"""

import contextlib
import json
import sys
from collections import deque
from collections.abc import Generator, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, cast

import click
import httpx
import msgspec

from coatcheck.cli.command_setup import PIPE, PipeCommand, in_options, is_terminal, open_input, sendable, unreadable
from coatcheck.cli.exits import Exit, Failure, echo, fail
from coatcheck.cli.http_client import (
    ServiceClient,
    artifact_path,
    encode_options,
    in_header,
    service_options,
    timeout_option,
)
from coatcheck_client import fallback
from coatcheck_client.bytes import guess_media_type
from coatcheck_client.errors import UNEXPECTED, UNREACHABLE, WRONG, ServiceError
from coatcheck_client.requests import DeclaredFields

CHUNK_BYTES = 256 * 1024
"""Bytes of a file that are sent at once. Chosen, not measured."""
PROGRESS_FROM = 8 * 1024**2
"""Size from which an upload on a terminal shows a progress bar."""


def _show(body: dict[str, Any], *, as_json: bool) -> None:
    """Prints the text of an answer exactly, and warnings on standard error; or the whole answer as JSON."""
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


class _Payload:
    """The payload while it is sent: its pieces, and its two ends, which are printed if anything fails."""

    def __init__(self, pieces: Iterator[bytes], fields: dict[str, Any], *, as_json: bool) -> None:
        """`fields`: the options of the command; only the budgets among them are used."""
        self._budgets = fallback.asked(cast("DeclaredFields", fields))
        self._ends = fallback.Ends(self._budgets.room)
        self._ends.broken_off = True  # until its end has been read
        self._failed = False
        """Whether the payload could not be read to its end."""
        self._pieces = pieces
        self._as_json = as_json

    def __iter__(self) -> Iterator[bytes]:
        """Yields the pieces that have not been read yet."""
        try:
            for piece in self._pieces:
                self._ends.feed(piece)
                yield piece
        except Failure:
            self._failed = True
            raise
        self._ends.broken_off = self._failed

    @contextlib.contextmanager
    def print_on_failure(self) -> Generator[None]:
        """Prints the payload, or its two ends, if the `with` block fails; then raises the error again."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):  # after Ctrl-C, the rest may never come
                with contextlib.suppress(Failure):  # print what could be read
                    deque(self, maxlen=0)
            # The same text that the client library returns when the service is away.
            receipt = fallback.receipt(self._ends, self._budgets, _reason(error))
            answer = msgspec.to_builtins(receipt) | {"id": None} if self._as_json else {"text": receipt.text}
            _show(answer, as_json=self._as_json)
            raise


def _reason(error: BaseException) -> ServiceError:
    """Returns the failure of a command as an error of the client library."""
    if isinstance(error, Failure):
        code = WRONG if error.code == Exit.WRONG else UNREACHABLE
        return ServiceError(error.error_code or code, f"{error.message.rstrip('.')}.")
    if isinstance(error, KeyboardInterrupt):
        return ServiceError("interrupted", "The command was stopped with Ctrl-C.")
    return ServiceError(UNEXPECTED, f"A put failed: {type(error).__name__}: {error}.")


def _rescue(pipe: str, stream: BufferedReader, failure: Failure, as_json: bool) -> None:
    with _Payload(_pieces(pipe, stream, None), {}, as_json=as_json).print_on_failure():
        raise failure


@click.command(cls=PipeCommand, rescue=_rescue)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@service_options
@click.option("--tool-name", help="Tool that produced the output.")
@click.option("--tool-call-id", help="ID of the tool call.")
@click.option("--command", help="Command that was run, or a summary of the tool's arguments.")
@click.option("--session", help="Conversation or run that the payload belongs to.")
@click.option("--source", help="URL that the payload came from.")
@click.option("--status", type=int, help="HTTP status with which the page came.")
@click.option("--final-url", help="Where redirects led from --source.")
@click.option("--content-type", help="What the page's server called it; --media-type is that of the payload.")
@click.option("--fetched-at", metavar="TIME", help="When the page was fetched: 2026-01-31T12:00:00Z.")
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
@timeout_option
def put(service: ServiceClient, file: str, **fields: Any) -> None:  # noqa: ANN401
    """Store FILE (- for standard input) and print what the model should read instead.

    If anything fails, the text is printed anyway, and the reason on standard error: text of up to --inline-tokens
    unchanged, of a longer one both ends in --card-tokens, with a line that says what is left out. If FILE breaks off,
    what came of it is printed with lines that say so. A payload that was refused because of a secret in it is withheld.
    With --json, a receipt with "stored": false contains the text. Exit code 4: the service could not store it, or
    cannot be reached.
    """
    size = _size(file)
    with open_input(file) as stream:
        # From here on the text is printed whatever happens: options, connection and answer are checked inside.
        payload = _Payload(_pieces(file, stream, size), fields, as_json=service.as_json)
        with payload.print_on_failure():
            body = service.ask(
                "POST",
                "/v1/artifacts/raw",
                {"text": str, "stored": bool},
                params=_params(file, fields),
                headers=_headers(file, fields, size),
                content=_chunks(iter(payload), size),
            )
    _show(body, as_json=service.as_json)
    if not body["stored"]:  # the text is printed, and a warning on standard error has said why
        sys.exit(Exit.UNREACHABLE)


_FIELDS: Final = (
    "tool_name",
    "tool_call_id",
    "command",
    "session",
    "kind",
    "status",
    "final_url",
    "content_type",
    "fetched_at",
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
    # A pipe has a name like `/dev/fd/63`, which is no title.
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
    params.append(("allow_empty", "true"))  # an empty file is meant: a missing one has been refused already
    return httpx.QueryParams(tuple((name, sendable(value)) for name, value in params))


def _headers(file: str, fields: dict[str, Any], size: int | None) -> dict[str, str]:
    media_type = fields["media_type"] or guess_media_type(file)
    if media_type and not in_header(media_type):
        fail(Exit.WRONG, f"--media-type {media_type!r} is not a media type such as text/plain; charset=utf-8")
    headers = {"content-type": media_type} if media_type else {}
    return headers if size is None else {**headers, "content-length": str(size)}


def _size(file: str) -> int | None:
    """Returns the size of a regular file.

    Returns None for a pipe, and for a file whose size is given as 0: the content of such a file may be generated while
    it is read, as in /proc.
    """
    return Path(file).stat().st_size or None if _regular(file) else None


def _regular(file: str) -> bool:
    return file != PIPE and Path(file).is_file()


def _chunks(pieces: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    """Yields the pieces. For a long file, shows a progress bar on a terminal."""
    if size is None or size < PROGRESS_FROM or not is_terminal(sys.stderr):
        yield from pieces
        return
    with click.progressbar(length=size, label="Uploading", file=sys.stderr) as bar:
        for chunk in pieces:
            yield chunk
            bar.update(len(chunk))


def _pieces(file: str, stream: BufferedReader, size: int | None) -> Iterator[bytes]:
    """Yields the file in pieces, up to its announced size."""
    sent_bytes = 0
    # Lines that are appended to a log during the upload exceed the announced size: they are left for the next put.
    while chunk := _piece(file, stream, CHUNK_BYTES if size is None else min(CHUNK_BYTES, size - sent_bytes)):
        yield chunk
        sent_bytes += len(chunk)
    if size is not None and sent_bytes < size:
        fail(
            Exit.WRONG, f"{sendable(file)} became shorter while it was being read. Store it again when it is complete."
        )


def _piece(file: str, stream: BufferedReader, size: int) -> bytes:
    try:
        return stream.read1(size)  # only what has arrived: an output may be slow
    except OSError as error:
        unreadable(file, error)


@click.command()
@click.argument("artifact_id")
@service_options
@click.option("--tokens", type=int, help="Token budget of the card (600).")
@click.option("--query", help="What you are looking for; the excerpts are chosen for it.")
@click.option(
    "--no-tools", "tools", flag_value="none", help="The model cannot read further: leave the tool out of the card."
)
def card(service: ServiceClient, artifact_id: str, **parameters: str | int | None) -> None:
    """Print the card of an artifact again, with any token budget."""
    path = f"{artifact_path(artifact_id)}/card"
    _show(service.ask("GET", path, {"text": str}, params=encode_options(parameters)), as_json=service.as_json)


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
def read(service: ServiceClient, artifact_id: str, **parameters: str | int | None) -> None:
    """Print a part of an artifact."""
    path = f"{artifact_path(artifact_id)}/read"
    body = service.ask("GET", path, {"text": str}, params=encode_options(parameters))
    _show(body, as_json=service.as_json)
    if not service.as_json and body.get("next"):
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
def search(service: ServiceClient, artifact_id: str, pattern: str, **parameters: str | int | None) -> None:
    """Print the lines of an artifact that match PATTERN (RE2), as grep does."""
    params = {"pattern": pattern} | encode_options(parameters)
    path = f"{artifact_path(artifact_id)}/search"
    body = service.ask("GET", path, {"text": str, "matches": list}, params=params)
    _show(body, as_json=service.as_json)
    if not body["matches"]:
        sys.exit(Exit.NOTHING)
