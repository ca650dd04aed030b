"""How commands end when it is not their work that fails: what they are given, where they print, who answers."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from cli.terminal import COMMAND, Ended, call, run
from client.servers import answering
from coatcheck.cli import COMMANDS, main
from support.service import Service

ARTIFACT = "art_000000000000000098"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
FULL = Path("/dev/full")
UNREADABLE = Path("/proc/self/mem")
NO_HOST = f"http://{'a' * 70}.example"
"""A URL whose host has a part that is too long for a name."""

ASKING = [
    ("put", "-"),
    ("put", "-", "--json"),
    ("card", ARTIFACT),
    ("read", ARTIFACT),
    ("search", ARTIFACT, "x"),
    ("usage",),
    ("usage", "--json"),
    ("hold", "add", "--all", "--reason", "x"),
    ("hold", "list"),
    ("hold", "release", "hold_0000000000000000"),
    ("policy", "list"),
    ("policy", "show"),
    ("policy", "set", "ttl=7d"),
    ("policy", "remove"),
    ("policy", "explain"),
    ("key", "create", "x"),
    ("key", "list"),
    ("key", "revoke", "00000000000"),
    ("audit", "list"),
    ("retention", "plan", "expire"),
    ("retention", "apply", "0"),
    ("retention", "runs"),
    ("retention", "runs", "run_x"),
    ("retention", "status"),
    ("retention", "job", "sweep", "--pause"),
    ("retention", "undo", ARTIFACT),
]
"""Every way of asking a service."""


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"{}"), (200, b"[]"), (200, b'{"items": {}, "text": 1}'), (404, b'{"error": "no route"}')],
)
def test_another_programs_answer_is_recognised_by_every_command(status: int, body: bytes) -> None:
    with answering(status, body) as program:
        url = program.url
        for args in ASKING:
            ended = call(*args, "--url", url, stdin=b"x\n" if args[0] == "put" else b"")
            returned = json.loads(ended.out)["text"] if args == ("put", "-", "--json") else ended.text
            assert (ended.code, returned) == (4, "x\n" if args[0] == "put" else ""), args
            said = (
                json.loads(ended.err)["detail"] if "--json" in args else ended.err.removeprefix("coatcheck: ").rstrip()
            )
            assert said == f"{url} answered {status}, but not as Coatcheck does.", args


def test_bytes_of_a_name_that_are_no_text_do_not_keep_a_file_from_being_handed_over(
    service: Service, tmp_path: Path
) -> None:
    (tmp_path / "bad\udcff.log").write_bytes(b"what a bad name\n")
    ended = run("put", "bad\udcff.log", "--json", "--url", service.url, folder=tmp_path)
    known = service.get(f"/v1/artifacts/{json.loads(ended.out)['id']}")["artifact"]
    assert (ended.code, known["title"]) == (0, "bad\ufffd.log")
    ended = call("put", "-", "--json", "--title", "a \udcff b", "--url", service.url, stdin=b"what a bad title\n")
    known = service.get(f"/v1/artifacts/{json.loads(ended.out)['id']}")["artifact"]
    assert (ended.code, known["title"]) == (0, "a \ufffd b")


@pytest.mark.parametrize(
    "args",
    [
        ("put", "-", "--key", "ключ"),
        ("put", "-", "--key", "a\nb"),
        ("put", "-", "--key", "ck_live_1 "),
        ("card", ARTIFACT, "--key", "a b"),
        ("mcp", "--key", "ключ"),
        ("put", "-", "--media-type", "тест"),
        ("put", "-", "--media-type", "a/b\n"),
        ("put", "-", "--media-type", " text/plain"),
        ("search", ARTIFACT, "\udcff"),
        ("hold", "add", "--all", "--reason", "\udcff"),
        ("policy", "show", "--session", "\udcff"),
        ("retention", "runs", "a\nb"),
        ("retention", "runs", "\udcff"),
        ("status", "--session", "\udcff"),
        ("usage", "--session", "\udcff"),
        ("search-results", "-", "--query", "\udcff"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_a_wrong_one(service: Service, args: tuple[str, ...]) -> None:
    ended = call(*args, "--url", service.url, stdin=b"x")
    assert (ended.code, ended.out) == (2, b"x\n" if args[0] == "put" else b""), ended.err
    assert ended.err.startswith("coatcheck: ")
    assert "Is it running" not in ended.err
    assert "ck_live_1" not in ended.err


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that name it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        yield from commands(inner, *path, name)


NAMED_SETTINGS = [
    (path, option.opts[0], [argument for argument in command.params if isinstance(argument, click.Argument)])
    for path, command in commands(main)
    for option in command.params
    if option.name in {"service", "key", "data", "host"} and option.opts[0].startswith("--")
]
"""Every option that stands for a setting: its command, its name, and the arguments of the command."""
VALUES: Mapping[str | None, str] = {"artifact_id": ARTIFACT, "file": "-", "job": "expire", "server": "true"}


@pytest.mark.parametrize(("path", "option", "arguments"), NAMED_SETTINGS)
def test_a_setting_with_bytes_that_are_no_text_is_a_wrong_one(
    path: tuple[str, ...], option: str, arguments: list[click.Argument]
) -> None:
    reason = "--reason=x" if path == ("hold", "add") else None
    given = [VALUES.get(each.name, "x") for each in arguments if each.required]
    ended = call(*path, *filter(None, [reason]), option, "\udcff", *given, stdin=b"x")
    assert ended.code == (1 if path[0] == "hook" else 2), ended


def test_names_that_are_no_text_are_wrong_in_a_store_too(tmp_path: Path) -> None:
    store = ("--data", str(tmp_path / "data"))
    assert call("migrate", *store).code == 0
    for args in (("create", "x", "--session-prefix", "\udcff"), ("list", "--namespace", "\udcff")):
        ended = call("key", *args, *store)
        assert ended == Ended(2, b"", "coatcheck: this cannot be sent: an argument has bytes that are not UTF-8.\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/\udcff", "http://\udcff/", "http://", "http://a..b", NO_HOST])
def test_a_url_that_is_none_is_a_wrong_argument(url: str) -> None:
    for args in (("mcp-wrap", url), ("list", "--url", url), ("doctor", "--url", url)):
        ended = call(*args, stdin=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert (ended.code, ended.out) == (2, b""), ended
        assert ended.err.startswith("coatcheck: ")


def test_a_name_that_an_output_cannot_show_does_not_end_the_command(tmp_path: Path) -> None:
    store = ("--data", str(tmp_path / "data"))
    assert call("migrate", *store).code == 0
    env = {**ENVIRONMENT, "PYTHONIOENCODING": "latin-1:strict"}
    backup = [*COMMAND, "backup", "bäd…\udcff", *store]
    done = subprocess.run(backup, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.startswith(b"b\xe4d?? holds 0 artifacts"), done.stderr) == (0, True, b"")


@pytest.mark.skipif(not UNREADABLE.exists(), reason="this system has no file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_named_and_ends_with_2(service: Service) -> None:
    ended = run("put", str(UNREADABLE), "--url", service.url)
    assert ended == Ended(2, b"", "coatcheck: /proc/self/mem cannot be read: Input/output error.\n")


def test_a_file_that_becomes_shorter_while_it_is_read_is_not_taken_for_a_service_that_is_away(tmp_path: Path) -> None:
    log = tmp_path / "rotated.log"
    log.write_bytes(b"x" * 50_000_000)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        process = subprocess.Popen(
            [*COMMAND, "put", str(log), "--url", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)  # it has begun to send, and waits for somebody to take the rest
            os.truncate(log, 20_000_000)
            while connection.recv(1_000_000):
                pass
        out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err.startswith(f"coatcheck: {log} became shorter while it was being read.")
    assert out.startswith("[NOT STORED (invalid_request): of 20000000 bytes, after which it broke off, only what")
    assert out.endswith("x\n¦ here it broke off\n")


def closed(number: int, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command that was started without one of its three streams."""
    line = ["/bin/sh", "-c", f'exec "$@" {number}>&-', "sh", *COMMAND, *args]
    return subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)


def test_a_closed_standard_input_is_said(service: Service) -> None:
    for args, code in ((("put", "-"), 2), (("mcp",), 2), (("hook", "claude-code"), 0)):
        ended = closed(0, *args, "--url", service.url)
        assert (ended.returncode, ended.stdout) == (code, "")
        assert ended.stderr.startswith("coatcheck: ")
        assert "standard input is closed" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_without_standard_output_or_error_a_payload_is_handed_over_all_the_same(
    service: Service, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("few words\n")
    for number, printed in ((1, ""), (2, "few words\n")):
        ended = closed(number, "put", str(tmp_path / "x"), "--url", service.url)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, printed, "")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_what_cannot_be_printed_ends_with_5_and_a_sentence(service: Service, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("".join(f"line {n}\n" for n in range(5000)))
    url = ("--url", service.url)
    artifact = json.loads(call("put", str(tmp_path / "long"), "--json", *url).out)["id"]
    for args in (
        ("usage", *url),
        ("put", str(tmp_path / "long"), *url),
        ("read", artifact, "--max-tokens", "8000", *url),
        ("openapi",),
        ("put", "--help"),
        ("--help",),
    ):
        with FULL.open("wb") as full:
            done = subprocess.run([*COMMAND, *args], stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
        said = done.stderr.decode()
        assert done.returncode == 5, said
        assert said.strip() == "coatcheck: the answer could not be printed: No space left on device."
    with FULL.open("wb") as full:
        done = subprocess.run([*COMMAND, "card", "art_1"], stderr=full, env=ENVIRONMENT, check=False)
    assert done.returncode == 2


def test_who_stops_reading_is_told_nothing_and_sees_141(service: Service, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("few words\n")
    artifact = service.post("few words\n" * 40_000)["id"]
    for args in (("put", str(tmp_path / "x")), ("read", artifact), ("usage",)):
        out, into = os.pipe()
        os.close(out)
        with os.fdopen(into, "wb") as pipe:
            line = [*COMMAND, *args, "--url", service.url]
            done = subprocess.run(line, stdout=pipe, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
        assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupted_command_ends_with_130(service: Service, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*COMMAND, "put", str(pipe), "--url", service.url], stderr=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    with pipe.open("wb"):  # which waits until the command has opened it, too
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "coatcheck: interrupted.\n")


def asks(command: click.Command) -> bool:
    """Whether it asks the service that the settings name; `key` opens the database unless it is told otherwise."""
    if isinstance(command, click.Group):
        return command.name != "key" and all(asks(each) for each in command.commands.values())
    return any("--url" in each.opts for each in command.params)


def test_the_help_says_what_every_exit_code_means_and_who_asks_a_service() -> None:
    said = " ".join(call("--help").text.split())
    for code in (0, 1, 2, 3, 4, 5, 130, 141):
        assert f" {code}: " in said
    last = said.rpartition(". put, ")[2]
    assert "COATCHECK_URL" in last
    named = {"put", *last.partition(" use the running service")[0].replace(" and ", ", ").split(", ")}
    assert named == {name for name in COMMANDS if asks(command_of(name))}


def command_of(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def test_the_help_says_of_every_command_what_its_own_help_begins_with() -> None:
    for name, (_, said) in COMMANDS.items():
        assert " ".join((command_of(name).help or "").split()).startswith(said)


def test_the_help_loads_no_command() -> None:
    script = "import sys; from coatcheck.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()
    assert "coatcheck.cli.exits" in loaded
    assert {f"coatcheck.cli.{module}" for module, _ in COMMANDS.values()}.isdisjoint(loaded)
    assert {"httpx", "numpy", "sqlalchemy", "litestar"}.isdisjoint(loaded)
