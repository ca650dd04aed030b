"""What `put` and `compact` print if anything fails: the text, or both its ends; never what was refused for a secret.

Every failure comes from a server that really fails.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import COMMAND, Ended, call, run
from client.servers import FAULTS, be_silent, handling, nobody
from support.service import Service, serving, start

LOG = b"".join(b"%05d step %d took %d ms\n" % (n, n * 7919 % 1000, n % 97) for n in range(40_000))
SMALL = "fine: äöü\n".encode()
SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
ENDS = {
    "stopped": (4, "Is it running? Start it with: coatcheck serve"),
    "no TLS": (4, "cannot talk to"),
    "silent": (4, "timed out"),
    "connection reset": (4, "cannot talk to"),
    "half an answer": (4, "cannot talk to"),
    "another protocol": (4, "cannot talk to"),
    "no key": (2, "[unauthenticated]"),
    "no scope": (2, "[forbidden]"),
    "another path": (3, "[not_found]"),
    "too large": (2, "[payload_too_large]"),
    "too often": (2, "[rate_limited]"),
    "a bug": (4, "[internal]"),
    "overloaded": (4, "[overloaded]"),
    "a full quota": (4, "[quota_exceeded]"),
    "a proxy's page": (4, "not as Coatcheck does"),
    "a page as the answer": (4, "not as Coatcheck does"),
    "another service": (4, "not as Coatcheck does"),
    "a list": (4, "not as Coatcheck does"),
    "a redirect": (4, "not as Coatcheck does"),
    "no such host": (4, "cannot talk to"),
    "not a URL": (2, "not the URL of a service"),
}
"""How a command ends by the server's way of failing: its exit code, and what it says on standard error."""
SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    **FAULTS,
    "no such host": lambda: contextlib.nullcontext("http://no-such-host.invalid"),
    "not a URL": lambda: contextlib.nullcontext("ftp://example.org"),
}


def in_stderr(ended: Ended, reason: str) -> None:
    assert reason in ended.err, ended.err


def has_both_ends(text: str) -> None:
    first, *_, last = text.splitlines()
    assert first.startswith("[NOT STORED")
    assert "\n00000 step 0 took 0 ms\n" in text
    assert "\n¦ left out: about " in text
    assert last == LOG.decode().splitlines()[-1]
    assert len(text.encode()) <= 600 * 3


@pytest.mark.parametrize("name", SERVERS)
def test_put_prints_the_text_or_its_ends_whatever_fails(name: str) -> None:
    code, reason = ENDS[name]
    with SERVERS[name]() as url:
        put = ("put", "-", "--url", url, "--timeout", "1" if name == "silent" else "30")
        small, large = call(*put, stdin=SMALL), run(*put, stdin=LOG)
        as_json = call(*put, "--json", stdin=LOG)
    assert (small.code, small.out) == (code, SMALL)
    assert large.code == code
    has_both_ends(large.text)
    for ended in (small, large):
        in_stderr(ended, reason)
    receipt = json.loads(as_json.out)
    assert (as_json.code, receipt["id"], receipt["stored"], receipt["inline"]) == (code, None, False, False)
    has_both_ends(receipt["text"])
    error = json.loads(as_json.err)
    assert error["exit"] == code
    assert receipt["warnings"][0]["code"] == (error["code"] or ("unreachable" if code == 4 else "invalid_request"))


def test_without_a_fault_put_prints_the_card(service: Service) -> None:
    small, large = (call("put", "-", "--url", service.url, stdin=payload) for payload in (SMALL, LOG))
    assert (small, large.code, large.err) == (Ended(0, SMALL, ""), 0, "")
    assert large.text.startswith("[art_")
    receipt = json.loads(call("put", "-", "--url", service.url, "--json", stdin=LOG).out)
    with nobody() as url:
        away = json.loads(call("put", "-", "--url", url, "--json", stdin=LOG).out)
    assert (receipt["stored"], set(receipt)) == (True, set(away)), "one form, whatever happens"


# ---------------------------------------------------------------------------------------------- a real service


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 - a generator
    """A service that needs keys, takes at most a megabyte at a time, and refuses secrets; and a key that only reads."""
    data = tmp_path_factory.mktemp("limited") / "data"
    assert call("migrate", "--data", str(data)).code == 0
    keys = [
        json.loads(call("key", "create", name, "--json", "--data", str(data), "--scope", name).out)["key"]
        for name in ("ingest", "read")
    ]
    with serving(data, payload_limit=1_000_000, redaction="refuse") as running:
        yield running.url, *keys


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("--key", "ck_live_wrong"), 2, "[unauthenticated]"),
        (("--key", "READ"), 2, "[forbidden]"),
        (("--key", "INGEST", "--ttl", "soon"), 2, "--ttl"),
        (("--key", "INGEST", "--session", "s" * 300), 2, "--session"),
        (("--key", "no key"), 2, "characters that a key cannot have"),
        (("--key", "INGEST", "--media-type", "a\nb"), 2, "--media-type"),
        (("--card-tokens", "many"), 2, "--card-tokens"),
        (("--no-such-option",), 2, "--no-such-option"),
    ],
)
def test_put_prints_the_ends_of_what_a_service_refuses(
    limited: tuple[str, str, str], options: tuple[str, ...], code: int, reason: str
) -> None:
    url, ingest, read = limited
    given = [{"INGEST": ingest, "READ": read}.get(option, option) for option in options]
    ended = call("put", "-", "--url", url, *given, stdin=LOG[:900_000] + LOG[-100_000:][:99_999])
    assert (ended.code, ended.text.startswith("[NOT STORED (")) == (code, True), ended
    in_stderr(ended, reason)


def test_put_prints_the_ends_of_what_is_too_large_and_the_card_of_what_is_not(limited: tuple[str, str, str]) -> None:
    url, ingest, _ = limited
    put = ("put", "-", "--url", url, "--key", ingest)
    ended = call(*put, stdin=LOG * 20)
    assert (ended.code, ended.text.startswith("[NOT STORED (payload_too_large)")) == (2, True)
    in_stderr(ended, "--keep-ends")
    assert call(*put, stdin=LOG[:900_000]).text.startswith("[art_")


def test_put_withholds_what_was_refused_for_a_secret(limited: tuple[str, str, str], tmp_path: Path) -> None:
    url, ingest, _ = limited
    file = tmp_path / "secret.log"
    file.write_text(f"token={SECRET}\n" + "a line of the log\n" * 5_000)
    put = ("put", "--url", url, "--key", ingest)
    for options, stdin in ((("-",), file.read_bytes()), ((str(file),), b""), (("-", "--json"), file.read_bytes())):
        ended = call(*put, *options, stdin=stdin)
        assert (ended.code, SECRET in ended.text, SECRET in ended.err) == (2, False, False)
        assert "withheld: the service refused to keep them [secret_refused]" in ended.text
    # Without the service nobody knows that there is one.
    with nobody() as nowhere:
        assert SECRET in call("put", "-", "--url", nowhere, stdin=file.read_bytes()).text


def test_a_full_quota_is_answered_with_a_card_and_exit_code_4(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as running:
        assert call("policy", "set", "max_bytes=1", "--url", running.url).code == 0
        ended = call("put", "-", "--url", running.url, stdin=LOG)
    assert (ended.code, "NOT STORED" in ended.text.splitlines()[0]) == (4, True), ended
    in_stderr(ended, "[quota_exceeded]")


def test_a_service_that_is_killed_in_the_middle_costs_only_the_middle(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(killable(tmp_path / "data"))
        process = stack.enter_context(started("put", "-", "--url", running.url))
        assert process.stdin is not None
        process.stdin.write(LOG * 3)
        running.kill()
        process.stdin.write(LOG * 3)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, b"cannot talk to" in err) == (4, True), err
    has_both_ends(out.decode())
    assert f"of {len(LOG) * 6} bytes" in out.decode()


@contextlib.contextmanager
def killable(data: Path) -> Generator[Service]:
    running = start(data)
    try:
        yield running
    finally:
        running.kill()


@contextlib.contextmanager
def started(*args: str) -> Generator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *args], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def hear(connection: socket.socket, arrived: threading.Event) -> None:
    """Wait for the small payload, and be silent."""
    heard = b""
    while SMALL not in heard and (piece := connection.recv(65_536)):
        heard += piece
    arrived.set()
    be_silent(connection)


def test_ctrl_c_prints_what_has_arrived_and_that_it_broke_off() -> None:
    arrived = threading.Event()
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child would ignore what we do
    with handling(lambda connection: hear(connection, arrived)) as url, started("put", "-", "--url", url) as process:
        assert process.stdin is not None
        process.stdin.write(SMALL)
        process.stdin.flush()
        assert arrived.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    signal.signal(signal.SIGINT, ours)
    assert (process.returncode, b"interrupted" in err) == (130, True)
    is_marked_as_broken_off(out.decode(), "interrupted", SMALL)


def is_marked_as_broken_off(text: str, code: str, part: bytes) -> None:
    first, second, *shown, last = text.splitlines()
    assert first.startswith(f"[NOT STORED ({code}): of {len(part)} bytes, after which it broke off, only what follows")
    assert (second, last) == ("¦ what came", "¦ here it broke off")
    assert shown == part.decode().splitlines()


@contextlib.contextmanager
def breaking_off(part: bytes) -> Generator[int]:
    """An input that has a first part, and then an error in place of an end."""
    there, here = socket.socketpair()
    with here:
        with there:
            there.sendall(part)
            here.sendall(b"this is not read, so the connection is reset")
        yield here.fileno()


@pytest.mark.parametrize("options", [(), ("--json",), ("--no-such-option",)])
def test_an_input_that_breaks_off_is_neither_stored_nor_printed_as_if_it_were_whole(
    service: Service, options: tuple[str, ...]
) -> None:
    for url, code, name in ((service.url, 2, "invalid_request"), (None, 4, "unreachable")):
        with nobody() as away, breaking_off(SMALL) as stdin:
            put = [*COMMAND, "put", "-", "--url", url or away, "--session", "broken off", *options]
            done = subprocess.run(put, stdin=stdin, capture_output=True, check=False)
        wrong = "--no-such-option" in options
        assert done.returncode == (2 if wrong else code), done.stderr
        assert b"standard input cannot be read: Connection reset by peer." in done.stderr
        plain: dict[str, Any] = {"text": done.stdout.decode(), "inline": False}
        receipt = json.loads(done.stdout) if "--json" in options else plain
        is_marked_as_broken_off(receipt["text"], "invalid_request" if wrong else name, SMALL)
        assert not receipt["inline"]
    assert service.get("/v1/artifacts", session="broken off")["items"] == []


def test_both_ends_of_what_came_of_a_long_input_are_within_the_budget() -> None:
    part = LOG[:100_000]
    with nobody() as url, breaking_off(part) as stdin:
        put = [*COMMAND, "put", "-", "--url", url, "--card-tokens", "200"]
        text = subprocess.run(put, stdin=stdin, capture_output=True, check=False).stdout.decode()
    assert text.startswith("[NOT STORED (unreachable): of 100000 bytes, after which it broke off, only what follows")
    assert text.endswith(f"{part.decode().splitlines()[-1]}\n¦ here it broke off\n")
    assert len(text.encode()) <= 200 * 3


def test_a_request_that_breaks_off_is_not_printed() -> None:
    for options in ((), ("--no-such-option",)):
        with breaking_off(b'{"messages": [') as stdin:
            compact = [*COMMAND, "compact", "-", *options]
            done = subprocess.run(compact, stdin=stdin, capture_output=True, check=False)
        assert (done.returncode, done.stdout, b"Traceback" in done.stderr) == (2, b"", False)
        assert b"standard input cannot be read: Connection reset by peer." in done.stderr


# ---------------------------------------------------------------------------------------------- what is given


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", b""),
        (b"no newline", b"no newline\n"),
        (b"\x00\x01" * 50_000, b"\xc2\xa6 no text is shown\n"),
        ("a line of latin: \xe9\n".encode("latin-1") * 5_000, "a line of latin: \ufffd\n".encode()),
        (b"\n".join([b"<|im_start|>system"] * 9_000), b"im_start"),
    ],
    ids=["empty", "no newline", "binary", "latin-1", "tags of a template"],
)
def test_any_payload_comes_back_as_text(payload: bytes, shown: bytes) -> None:
    with nobody() as url:
        ended = call("put", "-", "--url", url, stdin=payload)
    assert (ended.code, shown in ended.out, b"<|im_start|>" in ended.out) == (4, True, False)
    assert ended.text == "" or len(ended.text.encode()) <= 600 * 3


def test_a_file_a_named_pipe_and_a_long_stream_come_back_like_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_bytes(LOG)
    with nobody() as url:
        from_file, from_stdin = call("put", str(file), "--url", url), call("put", "-", "--url", url, stdin=LOG)
        script = f'{" ".join(COMMAND)} put <(cat {file}) --url {url} "$@"'
        pipes = [
            subprocess.run(["bash", "-c", script, "bash", *options], capture_output=True, check=False)
            for options in ((), ("--wrong",))
        ]
        long = call("put", "-", "--url", url, stdin=LOG * 40)
    assert from_file == from_stdin
    assert [pipe.returncode for pipe in pipes] == [4, 2]
    for text in (from_file.text, *(pipe.stdout.decode() for pipe in pipes), long.text):
        has_both_ends(text)


def test_the_budgets_are_those_of_the_options() -> None:
    with nobody() as url:
        whole = call("put", "-", "--url", url, "--inline-tokens", "9000", stdin=LOG[:20_000])
        short = call("put", "-", "--url", url, "--card-tokens", "100", "--inline-tokens", "0", stdin=SMALL * 100)
    assert whole.out == LOG[:20_000] + b"\n" * (not LOG[:20_000].endswith(b"\n"))
    assert short.text.startswith("[NOT STORED")
    assert len(short.out) <= 300


def test_a_file_that_is_not_there_and_a_folder_leave_nothing_to_print(tmp_path: Path) -> None:
    for file in (tmp_path / "none", tmp_path):
        ended = call("put", str(file))
        assert (ended.code, ended.out) == (2, b"")
        in_stderr(ended, str(file))


def test_an_output_that_nobody_reads_is_no_further_error() -> None:
    out, into = os.pipe()
    os.close(out)
    with nobody() as url, os.fdopen(into, "wb") as closed:
        done = subprocess.run(
            [*COMMAND, "put", "-", "--url", url], input=LOG, stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr.count(b"\n"), b"Is it running?" in done.stderr) == (141, 1, True)


# ---------------------------------------------------------------------------------------------- compact


@pytest.mark.parametrize("name", SERVERS)
def test_compact_prints_the_request_as_it_came_whatever_fails(name: str) -> None:
    code, reason = ENDS[name]
    request = b'{"messages": [ {"role": "user",  "content": "' + LOG.replace(b"\n", b"\\n") + b'"} ]}\n'
    with SERVERS[name]() as url:
        compact = ("compact", "-", "--url", url, "--timeout", "1" if name == "silent" else "30")
        plain, as_json = call(*compact, stdin=request), call(*compact, "--json", stdin=request)
    assert (plain.code, plain.out == request) == (code, True)
    in_stderr(plain, reason)
    assert json.loads(as_json.out) == {"body": json.loads(request), "report": None}


@pytest.mark.parametrize(
    ("request_", "options"), [(b"{ no JSON \xff", ()), (b"[" * 200_000, ()), (b'{"a":1}\n', ("--max-tokens", "x"))]
)
def test_compact_prints_what_it_cannot_send(request_: bytes, options: tuple[str, ...], service: Service) -> None:
    ended = call("compact", "-", "--url", service.url, *options, stdin=request_)
    assert (ended.code, ended.out) == (2, request_)
    as_json = call("compact", "-", "--url", service.url, *options, "--json", stdin=request_)
    body = json.loads(as_json.out)["body"]
    assert body == ({"a": 1} if options else request_.decode(errors="replace"))


@pytest.mark.parametrize("value", ["NaN", "1e999"])
def test_a_request_that_json_cannot_represent_is_printed_as_it_came(service: Service, value: str) -> None:
    written = f'{{"messages": [{{"role": "user", "content": "x"}}], "temperature": {value}}}'.encode()
    ended = call("compact", "-", "--url", service.url, stdin=written)
    assert (ended.code, ended.out) == (2, written)
    assert "the request is not JSON" in ended.err


def test_half_of_a_surrogate_pair_is_compacted_as_anything_else(service: Service) -> None:
    written = b'{"messages":[{"role":"user","content":"half \\ud83d"}]}'
    for options in ((), ("--json",)):
        ended = call("compact", "-", "--url", service.url, *options, stdin=written)
        assert ended.code == 0, ended.err
        answer = json.loads(ended.out)
        assert (answer["body"] if options else answer)["messages"] == json.loads(written)["messages"]
