"""`coatcheck doctor`: checks what works between a host and its service, and says what to do about the rest.

It prints one line for each check and changes nothing, with one exception: it tests each hook with an output of its own,
which the service removes within minutes.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Generator, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from os.path import expandvars
from pathlib import Path
from typing import Any, Final, Literal, cast

import click
import httpx
from msgspec import Struct, structs

from coatcheck import __version__
from coatcheck.adapters.redaction_rules import RELEASED
from coatcheck.adapters.system import NAME as RESERVE_FILE
from coatcheck.adapters.system import SystemClock
from coatcheck.cli.command_setup import holds_store, render_size, settings_for
from coatcheck.cli.exits import Exit
from coatcheck.cli.http_client import ServiceClient, read_object, service_options
from coatcheck.settings import Settings, is_loopback

_ANSWER_SECONDS: Final = 5.0
"""Seconds that the service may take for an answer."""
_HOOK_SECONDS: Final = 15.0
"""Seconds that a hook may take. Claude Code itself waits for the `timeout` in its settings: 10 in our example."""
_CLOCK_SECONDS: Final = 60.0
"""Seconds by which the clocks here and at the service may differ. People and agents compare `expires_at` and `ttl` with
their own clock."""
_RULES_DAYS: Final = 365
"""Days after which redaction rules count as old: new kinds of keys appear every few months."""
_OUTPUT_LINES: Final = 2_000
"""Lines of the output that tests a hook: more than any limit up to which an output stays whole."""
_EXTRAS: Final = {
    "mcp": ("mcp", "the tools over MCP"),
    "documents": ("pypdf", "text of PDF documents and workbooks"),
    "telemetry": ("opentelemetry.sdk", "traces"),
}
"""For each extra, a module that it installs, and what needs that module."""
_CLAUDE_SETTINGS: Final = (
    "~/.claude/settings.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)
"""Files in which Claude Code has its hooks."""
_CODEX_SETTINGS: Final = ("~/.codex/config.toml", ".codex/config.toml")
"""Files in which Codex has its hooks and MCP servers."""
_MCP_SETTINGS: Final = (
    ".mcp.json",
    "~/.claude.json",
    "~/.cursor/mcp.json",
    ".cursor/mcp.json",
    "~/.config/Claude/claude_desktop_config.json",
    "~/Library/Application Support/Claude/claude_desktop_config.json",
)
"""Files in which hosts name their MCP servers, under `mcpServers`."""


class Diagnosis(Struct, frozen=True):
    """The result of one check."""

    check: str
    state: Literal["ok", "note", "wrong"]
    """`note`: nothing is wrong, but something is missing or worth knowing."""
    message: str
    """What the check found; usually also what to do about it, unless the state is `ok`."""


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    help="Directory of the embedded store (`coatcheck settings` shows it).",
)
@service_options
def doctor(service: ServiceClient, data: str | None) -> None:
    """Say what works between this machine and the service, and what to do about the rest.

    Looks at the service, the key, clocks, the disk, extras, and the configuration of hosts in this directory and in the
    home directory. Exit code 1: something is wrong.
    """
    settings = service.settings
    if data is not None:
        settings = structs.replace(settings, data=settings_for(data).data)
    findings = list(examine(settings))
    width = max(len(finding.check) for finding in findings)
    service.echo_items(
        [structs.asdict(finding) for finding in findings],
        lambda each: f"{each['state']:5}  {each['check']:{width}}  {each['message']}",
        "",
    )
    if any(finding.state == "wrong" for finding in findings):
        raise SystemExit(Exit.NOTHING)


def examine(settings: Settings) -> Generator[Diagnosis]:
    """Yields the result of each check, in the order in which one would repair things."""
    headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    with httpx.Client(base_url=settings.url, headers=headers, timeout=_ANSWER_SECONDS, trust_env=False) as client:
        try:
            reached = yield from _examine_service(client)
            if reached:
                yield from _examine_key(client, has_key=bool(settings.key))
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            yield Diagnosis("service", "wrong", f"{client.base_url} stopped answering ({reason}): see its log.")
    yield from _examine_disk(settings)
    yield _examine_rules()
    yield from _examine_extras()
    yield from _examine_claude_code()
    yield from _examine_codex()
    yield _examine_mcp(settings)


def _examine_service(client: httpx.Client) -> Generator[Diagnosis, None, bool]:
    try:
        ready = client.get("/health/ready")
    except httpx.HTTPError as error:
        yield Diagnosis(
            "service",
            "wrong",
            f"{client.base_url} cannot be reached ({error}). Start it with `coatcheck serve`, or name another with "
            "--url or COATCHECK_URL.",
        )
        return False
    status = read_object(ready)
    if "status" not in status:
        yield Diagnosis("service", "wrong", f"{client.base_url} is another program: it answers {ready.status_code}.")
        return False
    reasons = ", ".join(status.get("reasons", ()))
    if status["status"] == "ready":
        yield Diagnosis("service", "ok", f"{client.base_url} answers and is ready.")
    else:
        yield Diagnosis(
            "service",
            "wrong",
            f"{client.base_url} answers, but is {status['status']} ({reasons}): see its log, and "
            "docs/how-to/troubleshooting.md.",
        )
    yield _examine_version(client)
    yield _examine_clock(ready)
    return True


def _examine_version(client: httpx.Client) -> Diagnosis:
    version = str(_object(read_object(client.get("/v1/openapi.json")).get("info")).get("version", ""))
    if version == __version__:
        return Diagnosis("version", "ok", f"{version}, here and at the service.")
    state: Literal["note", "wrong"] = "wrong" if _numbers(version) < _numbers(__version__) else "note"
    return Diagnosis(
        "version",
        state,
        f"The service is {version or 'unknown'}, and this command is {__version__}: upgrade the older one with "
        "`pip install --upgrade coatcheck`.",
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Returns the first two numbers of a version, which compare as versions do."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _examine_clock(response: httpx.Response) -> Diagnosis:
    try:
        server_time = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError):
        return Diagnosis("clock", "note", "The service does not tell its time.")
    seconds = (SystemClock().now() - server_time).total_seconds()
    if abs(seconds) <= _CLOCK_SECONDS:
        return Diagnosis("clock", "ok", f"Its clock and this one differ by {abs(seconds):.0f} s.")
    return Diagnosis(
        "clock",
        "wrong",
        f"Its clock is {abs(seconds):,.0f} s {'behind' if seconds > 0 else 'ahead of'} this one, so that times to live "
        "mean other moments here: set both by NTP.",
    )


def _examine_key(client: httpx.Client, *, has_key: bool) -> Generator[Diagnosis]:
    """Finds out what the key allows, by one request for each scope. None of these requests changes anything.

    If the key lacks the scope of a request, the service refuses the request before it examines anything else. So any
    other answer shows that the key has the scope.
    """
    probes: dict[str, Callable[[], httpx.Response]] = {
        "read": lambda: client.get("/v1/artifacts", params={"limit": 1}),
        "ingest": lambda: client.post("/v1/artifacts", json={}),
        "delete": lambda: client.delete("/v1/artifacts/art_000000000000000000"),
        "admin": lambda: client.get("/v1/admin/usage", params={"limit": 1}),
    }
    answers = {scope: probe() for scope, probe in probes.items()}
    if any(answer.status_code == HTTPStatus.UNAUTHORIZED for answer in answers.values()):
        what = "does not know the key (--key, COATCHECK_KEY)" if has_key else "needs a key"
        yield Diagnosis(
            "key",
            "wrong",
            f"The service {what}: create one where it runs with `coatcheck key create NAME`, and set COATCHECK_KEY.",
        )
        return
    scopes = [scope for scope, answer in answers.items() if answer.status_code != HTTPStatus.FORBIDDEN]
    if missing := {"read", "ingest"}.difference(scopes):
        yield Diagnosis(
            "key",
            "wrong",
            f"The key may {', '.join(scopes) or 'do nothing'}, but an agent also needs {', '.join(sorted(missing))}: "
            "create one with --scope ingest --scope read.",
        )
    else:
        who = "The key may" if has_key else "No key is needed; callers may"
        yield Diagnosis("key", "ok", f"{who} {', '.join(scopes)}.")


def _examine_disk(settings: Settings) -> Generator[Diagnosis]:
    """Looks at the data directory, if it is on this machine."""
    if settings.database_url or not is_loopback(httpx.URL(settings.url).host.replace("localhost", "127.0.0.1")):
        return
    if not holds_store(settings):
        yield Diagnosis(
            "disk", "note", f"There is no store in {Path(settings.data).resolve()}: name its directory with --data."
        )
        return
    free, reserve = shutil.disk_usage(settings.data).free, Path(settings.data) / RESERVE_FILE
    held = reserve.stat().st_size if reserve.exists() else 0
    if free + held < 2 * settings.reserve_bytes:
        yield Diagnosis(
            "disk",
            "wrong",
            f"{render_size(free)} are free for {settings.data}: payloads are refused soon. Free some space, or lower "
            "times to live with `coatcheck policy`.",
        )
    elif held < settings.reserve_bytes:
        yield Diagnosis(
            "disk",
            "wrong",
            f"The reserve for deletions on a full disk has {render_size(held)} of "
            f"{render_size(settings.reserve_bytes)}: no payloads are stored until the service has made it again. Free "
            "some space.",
        )
    else:
        yield Diagnosis("disk", "ok", f"{render_size(free)} free, and a reserve of {render_size(held)}.")


def _examine_rules() -> Diagnosis:
    days = (SystemClock().now() - datetime.fromisoformat(RELEASED).replace(tzinfo=UTC)).days
    if days <= _RULES_DAYS:
        return Diagnosis("redaction", "ok", f"The rules are of {RELEASED}.")
    return Diagnosis(
        "redaction", "note", f"The rules are of {RELEASED}, {days} days ago: a newer release knows newer keys."
    )


def _examine_extras() -> Generator[Diagnosis]:
    for extra, (module, what) in _EXTRAS.items():
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # the package that contains the module is missing
            found = False
        if found:
            yield Diagnosis(f"extra {extra}", "ok", f"Installed: {what}.")
        else:
            yield Diagnosis(f"extra {extra}", "note", f"Not here, so no {what}: pip install 'coatcheck[{extra}]'")


def _examine_claude_code() -> Generator[Diagnosis]:
    """Looks for our hooks in the settings of Claude Code, and tests each of them."""
    hooks: list[tuple[Path, str, dict[str, Any]]] = []
    is_off = False
    for path, content in _read_each(_CLAUDE_SETTINGS, json.loads):
        if isinstance(content, str):
            yield Diagnosis("Claude Code", "wrong", f"{path} cannot be read, and Claude Code ignores it: {content}")
            continue
        is_off = is_off or content.get("disableAllHooks") is True
        for group in _members(_object(content.get("hooks")).get("PostToolUse")):
            hooks += [
                (path, str(group.get("matcher") or ""), hook) for hook in _members(group.get("hooks")) if _is_ours(hook)
            ]
    if not hooks:
        yield Diagnosis("Claude Code", "note", "No hook is installed: see docs/how-to/claude-code.md.")
    for path, matcher, hook in hooks:
        what = f"The hook in {path}"
        if is_off:
            yield Diagnosis("Claude Code", "wrong", f"{what} is ignored, because disableAllHooks is true.")
        elif (reason := _try_hook(hook)) is not None:
            yield Diagnosis("Claude Code", "wrong", f"{what} does not answer: {reason}")
        elif matcher not in {"", "*"} and "Bash" not in matcher:
            yield Diagnosis("Claude Code", "note", f"{what} answers, but not for Bash: its matcher is {matcher!r}.")
        else:
            yield Diagnosis("Claude Code", "ok", f"{what} answers, and an output was replaced by its card.")
    if len(hooks) > 1:
        yield Diagnosis("Claude Code", "wrong", f"{len(hooks)} hooks replace the same results: keep one of them.")


def _is_ours(hook: dict[str, Any]) -> bool:
    return "/v1/hooks/claude-code" in str(hook.get("url", "")) or "hook claude-code" in str(hook.get("command", ""))


def _try_hook(hook: dict[str, Any]) -> str | None:
    """Returns why a hook does not replace a long output; None if the hook replaces it."""
    output = "\n".join(f"line {number} of the output of coatcheck doctor" for number in range(_OUTPUT_LINES))
    event = {
        "hook_event_name": "PostToolUse",
        "session_id": "coatcheck-doctor",
        "tool_name": "Bash",
        "tool_use_id": "coatcheck-doctor",
        "tool_input": {"command": "coatcheck doctor"},
        "tool_response": {"stdout": output, "stderr": "", "interrupted": False, "isImage": False},
    }
    try:
        if url := hook.get("url"):
            # As Claude Code sends it: with the headers of its settings, in which environment variables are expanded.
            headers = {name: expandvars(value) for name, value in _object(hook.get("headers")).items()}
            address = httpx.URL(url).copy_merge_params({"ttl": "60"})
            response = httpx.post(address, json=event, headers=headers, timeout=_HOOK_SECONDS, trust_env=False)
            if not response.is_success:
                return f"{url} answers {response.status_code} ({read_object(response).get('code', 'another program')})."
            answer = read_object(response)
        else:
            done = subprocess.run(  # noqa: S602 - the host runs this line in a shell, too
                f"{hook['command']} --ttl 60",
                shell=True,
                input=json.dumps(event),
                capture_output=True,
                text=True,
                timeout=_HOOK_SECONDS,
                check=False,
            )
            if done.returncode or not done.stdout.strip():
                return (
                    done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"it exits with {done.returncode}."
                )
            answer = json.loads(done.stdout)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"{error}. Is the service at the address that the hook names?"
    if "updatedToolOutput" not in _object(_object(answer).get("hookSpecificOutput")):
        return "it leaves a long output as it is. See the service's log: it may be busy, or its storage away."
    return None


def _examine_codex() -> Generator[Diagnosis]:
    """Looks for our hooks, which Codex ignores because no hook can replace an output there, and for our MCP servers."""
    for path, content in _read_each(_CODEX_SETTINGS, tomllib.loads):
        if isinstance(content, str):
            yield Diagnosis("Codex", "wrong", f"{path} cannot be read: {content}")
        elif "hook claude-code" in json.dumps(content.get("hooks", {}), default=str):
            yield Diagnosis(
                "Codex",
                "wrong",
                f"The hook in {path} is ignored: Codex lets no hook replace an output. Put its servers behind "
                "`coatcheck mcp-wrap` instead: docs/how-to/codex.md.",
            )
        elif names := _our_servers(_object(content.get("mcp_servers"))):
            yield Diagnosis("Codex", "ok", f"{path} starts {', '.join(names)} with coatcheck.")


def _examine_mcp(settings: Settings) -> Diagnosis:
    """Looks for MCP servers that Coatcheck provides or wraps, in the settings of hosts."""
    found: list[str] = []
    for path, content in _read_each(_MCP_SETTINGS, json.loads):
        if isinstance(content, str):
            return Diagnosis("MCP", "wrong", f"{path} cannot be read, so its host starts no server: {content}")
        servers = _object(content.get("mcpServers"))
        for name in _our_servers(servers):
            command, url = servers[name].get("command"), servers[name].get("url")
            if command is not None and shutil.which(str(command)) is None:
                return Diagnosis(
                    "MCP", "wrong", f"{path} starts {name} with {command!r}, which is not in PATH: use its whole path."
                )
            if url is not None and _host(url) != _host(settings.url):
                return Diagnosis("MCP", "note", f"{path} has {name} at {url}, another service than {settings.url}.")
            found.append(f"{name} ({path})")
    if found:
        return Diagnosis("MCP", "ok", f"Found: {', '.join(found)}.")
    return Diagnosis("MCP", "note", "No host here has the tools over MCP: see docs/how-to/read-artifact.md.")


def _our_servers(servers: dict[str, Any]) -> list[str]:
    """Returns the names of MCP servers that Coatcheck provides or wraps."""
    objects = {name: _object(server) for name, server in servers.items()}
    return [
        name
        for name, server in objects.items()
        if server and "coatcheck" in json.dumps([name, server.get("command"), server.get("args"), server.get("url")])
    ]


def _host(url: object) -> str:
    """Returns the host of a URL, under one name if it is this machine; empty if there is none."""
    try:
        host = httpx.URL(str(url)).host
    except httpx.InvalidURL:
        return ""
    return "localhost" if is_loopback(host) else host


def _object(value: object) -> dict[str, Any]:
    """Returns a JSON object; an empty one if the value is something else, because anybody may write these files."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _members(value: object) -> list[dict[str, Any]]:
    """Returns the objects in a JSON array; none if the value is something else."""
    return [_object(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def _read_each(names: Iterable[str], parse: Callable[[str], Any]) -> Generator[tuple[Path, dict[str, Any] | str]]:
    """Yields each file that exists, with its content or with a sentence on what is wrong with it."""
    # If the current directory is the home directory, two of the names are one file.
    for path in dict.fromkeys(Path(name).expanduser().absolute() for name in names):
        if path.is_file():
            try:
                content = parse(path.read_text("utf-8"))
                yield path, content if isinstance(content, dict) else "it has no object"
            except (OSError, ValueError) as error:
                yield path, str(error)
