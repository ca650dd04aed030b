"""What `coatcheck doctor` says of situations that are broken, each one of them alone, with a real service."""

import json
import os
import socket
import subprocess
from collections.abc import Generator
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from client.servers import handling
from coatcheck import __version__
from coatcheck.adapters.system import SystemClock
from coatcheck.cli.doctor import Diagnosis, examine
from coatcheck.settings import Settings
from support.http_server import QuietHandler, http_server
from support.service import COMMAND, Service, serving

HOOK = {"type": "command", "command": "coatcheck hook claude-code"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory and a project in which no host is configured."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def running(service: Service) -> Settings:
    """The settings of somebody who uses a service that is well."""
    return Settings(url=service.url, data=str(service.data), reserve_bytes=2**20)


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def hook_settings(hook: dict[str, Any], matcher: str = "Bash|Grep", **members: object) -> dict[str, Any]:
    return {"hooks": {"PostToolUse": [{"matcher": matcher, "hooks": [hook]}]}, **members}


def http_hook(url: str) -> dict[str, Any]:
    return {"type": "http", "url": f"{url}/v1/hooks/claude-code"}


def only(settings: Settings, check: str) -> Diagnosis:
    """The finding of one check, which is there once."""
    (finding,) = [each for each in examine(settings) if each.check == check]
    return finding


def wrong(settings: Settings, check: str) -> str:
    """What is said of the only thing that is wrong."""
    (finding,) = [each for each in examine(settings) if each.state == "wrong"]
    assert finding.check == check
    return finding.message


def test_nothing_is_wrong_with_a_service_that_is_well(running: Settings) -> None:
    states = {finding.check: finding.state for finding in examine(running)}
    assert states == {
        **dict.fromkeys(["service", "version", "clock", "key", "disk", "redaction"], "ok"),
        **dict.fromkeys(["extra mcp", "extra documents", "extra telemetry"], "ok"),
        **dict.fromkeys(["Claude Code", "MCP"], "note"),
    }


def test_a_service_that_is_away_is_named_with_how_to_start_it(home: Path) -> None:
    message = wrong(Settings(url="http://127.0.0.1:1", data=str(home)), "service")
    assert "cannot be reached" in message
    assert "coatcheck serve" in message


@pytest.mark.parametrize("answered", [("/health/ready",), ("/health/ready", "/v1/openapi.json")])
def test_a_service_that_stops_answering_meanwhile_is_a_finding(home: Path, answered: tuple[str, ...]) -> None:
    body = json.dumps({"status": "ready", "info": {"version": __version__}}).encode()

    def handle(connection: socket.socket) -> None:
        if connection.recv(65_536).decode().split(" ")[1] in answered:
            head = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)

    with handling(handle) as url:
        message = wrong(Settings(url=url, data=str(home)), "service")
    assert "stopped answering" in message


@pytest.fixture
def other_program() -> Generator[tuple[str, dict[str, Any]]]:
    """Another program on the port: its URL, and what it answers to each path."""
    answers: dict[str, Any] = {"headers": {}}

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, json.dumps(answers.get(self.path, {"name": "another"})).encode(), **answers["headers"])

        do_POST = do_DELETE = do_GET  # noqa: N815 - the names that http.server calls

        def send_response(self, code: int, message: str | None = None) -> None:
            """Sends no date of its own."""
            self.send_response_only(code, message)

    with http_server(Handler) as url:
        yield url, answers


def test_another_program_on_the_port_is_told_apart(other_program: tuple[str, dict[str, Any]], home: Path) -> None:
    assert "another program" in wrong(Settings(url=other_program[0], data=str(home)), "service")


def test_a_service_that_is_not_ready_says_why(other_program: tuple[str, dict[str, Any]], home: Path) -> None:
    url, answers = other_program
    answers["/health/ready"] = {"status": "degraded", "reasons": ["blobs_unavailable"]}
    assert "degraded (blobs_unavailable)" in only(Settings(url=url, data=str(home)), "service").message


@pytest.mark.parametrize("version", ["0.1.0", "0.9.3"])
def test_a_service_of_an_older_release_is_to_be_upgraded(
    other_program: tuple[str, dict[str, Any]], home: Path, version: str
) -> None:
    url, answers = other_program
    answers |= {"/health/ready": {"status": "ready"}, "/v1/openapi.json": {"info": {"version": version}}}
    finding = only(Settings(url=url, data=str(home)), "version")
    assert finding.state == "wrong"
    assert "pip install --upgrade" in finding.message


@pytest.mark.parametrize(("hours", "word"), [(-2, "behind"), (3, "ahead of")])
def test_a_clock_that_is_off_is_told(
    other_program: tuple[str, dict[str, Any]], home: Path, hours: int, word: str
) -> None:
    url, answers = other_program
    answers["/health/ready"] = {"status": "ready"}
    answers["headers"] = {"date": format_datetime(SystemClock().now() + timedelta(hours=hours), usegmt=True)}
    finding = only(Settings(url=url, data=str(home)), "clock")
    assert finding.state == "wrong"
    assert f"s {word} this one" in finding.message


def test_a_key_is_asked_for_checked_and_its_scopes_are_told(tmp_path: Path) -> None:
    with serving(tmp_path / "keyed", require_keys="true") as service:
        settings = Settings(url=service.url, data=str(service.data), reserve_bytes=2**20)
        assert "needs a key" in wrong(settings, "key")
        unknown = "ck_live_" + "0" * 60

        def keyed(text: str) -> Settings:
            return Settings(url=service.url, data=str(service.data), reserve_bytes=2**20, key=text)

        assert "does not know the key" in wrong(keyed(unknown), "key")
        reads, works = (create_key(service.data, *scopes) for scopes in (["read"], ["read", "ingest"]))
        assert "also needs ingest" in wrong(keyed(reads), "key")
        assert only(keyed(works), "key").message == "The key may read, ingest."


def create_key(data: Path, *scopes: str) -> str:
    options = [part for scope in scopes for part in ("--scope", scope)]
    done = subprocess.run(
        [*COMMAND, "key", "create", "-".join(scopes), *options, "--data", str(data), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    key: str = json.loads(done.stdout)["key"]
    return key


def test_a_full_disk_and_a_reserve_that_is_not_whole_are_told(running: Settings) -> None:
    terabytes = Settings(url=running.url, data=running.data, reserve_bytes=2**60)
    assert "are free for" in wrong(terabytes, "disk")
    reserve = Path(running.data) / "coatcheck.reserve"
    size = reserve.stat().st_size
    os.truncate(reserve, 10)
    try:
        assert "10 bytes of 1.0 MiB" in wrong(running, "disk")
    finally:
        os.truncate(reserve, size)


def test_rules_that_are_old_are_told(running: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coatcheck.cli.doctor.RELEASED", "2020-01-01")
    finding = only(running, "redaction")
    assert finding.state == "note"
    assert "a newer release" in finding.message


def test_an_extra_that_is_not_installed_is_told_with_its_command(
    running: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coatcheck.cli.doctor._EXTRAS", {"documents": ("no_such_module.inside", "text of documents")})
    assert "pip install 'coatcheck[documents]'" in only(running, "extra documents").message


@pytest.mark.parametrize("form", ["http", "command"])
def test_a_hook_that_works_has_replaced_an_output(
    running: Settings, home: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_URL", running.url)
    hook = http_hook(running.url) if form == "http" else HOOK | {"command": f"{' '.join(COMMAND)} hook claude-code"}
    write(home / ".claude/settings.json", hook_settings(hook))
    finding = only(running, "Claude Code")
    assert finding.state == "ok", finding.message
    assert "was replaced" in finding.message


def test_a_hook_that_does_not_answer_is_told(running: Settings, home: Path) -> None:
    write(home / ".claude/settings.json", hook_settings(http_hook("http://127.0.0.1:1")))
    assert "does not answer" in wrong(running, "Claude Code")


def test_a_hook_whose_command_is_missing_is_told(running: Settings, home: Path) -> None:
    hook = HOOK | {"command": "/nowhere/coatcheck hook claude-code"}
    write(home / ".claude/settings.json", hook_settings(hook))
    assert "not found" in wrong(running, "Claude Code")


def test_a_hook_that_is_switched_off_is_told(running: Settings, home: Path) -> None:
    write(home / ".claude/settings.json", hook_settings(http_hook(running.url), disableAllHooks=True))
    assert "disableAllHooks" in wrong(running, "Claude Code")


def test_a_hook_for_other_tools_is_told(running: Settings, home: Path) -> None:
    write(home / ".claude/settings.json", hook_settings(http_hook(running.url), matcher="mcp__.*"))
    assert "not for Bash" in only(running, "Claude Code").message


def test_settings_that_cannot_be_read_are_told(running: Settings, home: Path) -> None:
    write(home / ".claude/settings.json", "{ this is no JSON")
    assert str(home / ".claude/settings.json") in wrong_or_note(running, "Claude Code")


def wrong_or_note(settings: Settings, check: str) -> str:
    return " ".join(each.message for each in examine(settings) if each.check == check)


def test_a_hook_of_codex_is_told_to_be_without_effect(running: Settings, home: Path) -> None:
    write(home / ".codex/config.toml", '[[hooks.PostToolUse]]\ncommand = "coatcheck hook claude-code"\n')
    assert "mcp-wrap" in wrong(running, "Codex")


def test_servers_that_codex_starts_with_us_are_told(running: Settings, home: Path) -> None:
    write(
        home / ".codex/config.toml", '[mcp_servers.workers]\ncommand = "coatcheck"\nargs = ["mcp-wrap", "--", "true"]\n'
    )
    assert "workers" in only(running, "Codex").message


def test_an_mcp_server_whose_command_is_not_there_is_told(running: Settings, home: Path) -> None:
    write(home / ".mcp.json", {"mcpServers": {"files": {"command": "/nowhere/coatcheck", "args": ["mcp-wrap"]}}})
    assert "not in PATH" in wrong(running, "MCP")


def test_an_mcp_server_at_the_service_is_found(running: Settings, home: Path) -> None:
    write(home / ".mcp.json", {"mcpServers": {"coatcheck": {"type": "http", "url": f"{running.url}/mcp"}}})
    assert only(running, "MCP").state == "ok"


def test_settings_of_another_form_and_another_name_of_this_machine_are_no_trouble(
    running: Settings, home: Path
) -> None:
    url = f"{running.url.replace('127.0.0.1', 'localhost')}/mcp"
    odd = [None, 3, ["coatcheck"], {"coatcheck": None}, {"PostToolUse": None}, {"PostToolUse": [None, {"hooks": 1}]}]
    for value in odd:
        write(home / ".mcp.json", {"mcpServers": value})
        write(home / ".claude/settings.json", {"hooks": value})
        write(home / ".codex/config.toml", 'mcp_servers = 1\nhooks = ["x"]\n')
        assert {only(running, check).state for check in ("MCP", "Claude Code")} == {"note"}
    write(home / ".mcp.json", {"mcpServers": {"coatcheck": {"url": "http://[coatcheck"}}})
    assert only(running, "MCP").state == "note"
    write(home / ".mcp.json", {"mcpServers": {"coatcheck": {"url": url}}})
    assert only(running, "MCP").state == "ok"


def test_the_command_prints_a_line_each_and_ends_with_1_if_something_is_wrong(
    running: Settings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*COMMAND, "doctor", "--url", running.url, "--data", running.data]
    monkeypatch.setenv("COATCHECK_RESERVE_BYTES", str(2**20))
    well = subprocess.run(command, capture_output=True, text=True, check=False)
    assert well.returncode == 0, well.stdout
    assert {line[:4] for line in well.stdout.splitlines()} == {"ok  ", "note"}
    write(home / ".claude/settings.json", hook_settings(http_hook("http://127.0.0.1:1")))
    ill = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert ill.returncode == 1
    assert [each["check"] for each in json.loads(ill.stdout)["items"] if each["state"] == "wrong"] == ["Claude Code"]
