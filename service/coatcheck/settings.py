"""The settings: read once, from the environment, typed and documented where they are declared.

A name that starts with `COATCHECK_` and is not listed here stops the start: a misspelt limit must not be ignored.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

import msgspec
from msgspec import Struct

PREFIX = "COATCHECK_"
FILE = "_FILE"
"""A text setting may be given in a file, for secrets: `COATCHECK_DATABASE_URL_FILE=/run/secrets/database-url`."""
SECRET = frozenset({"database_url", "key"})
"""Settings whose values are not shown."""
_UNITS = {
    "": 1,
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 604800,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set. A field `x_y` is read from `COATCHECK_X_Y`."""

    host: str = "127.0.0.1"
    """Address to listen on. There are no keys in this release, so an address beyond loopback is refused unless
    `allow_unauthenticated` is set."""
    port: int = 8321
    """Port to listen on; 0 takes a free one and prints it."""
    data: str = "coatcheck-data"
    """Directory of the embedded store: the SQLite catalogue and the blobs."""
    database_url: str = ""
    """`postgresql://user:password@host/database`: the catalogue, shared by any number of replicas. Empty: the embedded
    store in `data`. Not through a pooler that shares connections between transactions."""
    database_connections: int = 8
    """Connections to PostgreSQL that read; one more writes."""
    blob_url: str = ""
    """`s3://bucket/prefix?endpoint=https://…&region=…`: where the bytes of larger payloads are. Credentials come from
    the standard AWS variables. Empty: files in `data`, which every replica must see."""
    allow_unauthenticated: bool = False
    """Listen beyond loopback although nobody needs a key. Only behind something that authenticates callers."""
    allowed_hosts: str = ""
    """Host names, separated by commas, under which callers may address the service, beside loopback names."""
    card_tokens: int = 600
    """Token budget of a card when the caller names none; 64 to 8192."""
    inline_tokens: int = 1000
    """Payloads of at most this many tokens are answered inline, unchanged; 0 makes a card of everything."""
    ttl: int = 30 * 86400
    """Seconds that an artifact is kept when the caller names no time; a unit may follow: `30d`, `12h`."""
    tombstone_ttl: int = 30 * 86400
    """Seconds for which a deleted or expired artifact is still answered with "gone, because"."""
    payload_limit: int = 1024**3
    """Largest payload in bytes after decoding; a unit may follow: `64mib`, `1gib`."""
    json_limit: int = 32 * 1024**2
    """Largest JSON request body in bytes. Larger payloads are streamed to `/v1/artifacts/raw`."""
    inline_bytes: int = 32 * 1024
    """Stored (compressed) bytes up to which a payload lives in the catalogue instead of in a file of its own."""
    fallback_bytes: int = 64 * 1024**2
    """Memory for payloads that storage does not take, compressed, until it does; the oldest go first. 0 keeps none."""
    sweep_seconds: int = 10
    """Pause between two runs of expiry, reaping and sweeping."""
    grace_seconds: int = 600
    """How long the bytes of a dead blob stay, because a reader may still hold them."""
    lease_seconds: int = 900
    """How long an upload may go without progress before it is reaped."""
    workers: int = 8
    """Threads for hashing, compressing, counting and file access."""
    extract_workers: int = 2
    """Processes that make text of large pages and documents; started when first needed. 0 makes it in threads, without
    limits of time and memory, and leaves out what is larger than 2 MiB."""
    extract_seconds: int = 8
    """How long one text may take before its process is ended and a simpler way is tried."""
    extract_memory: int = 1024**3
    """Bytes of memory that such a process may address (not enforced on macOS)."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""
    url: str = "http://127.0.0.1:8321"
    """For the client commands (`put`, `card`, `read`, `search`): where the service is."""
    key: str = ""
    """For the client commands: the key to present. Not needed on loopback."""


def load(environment: Mapping[str, str] | None = None, **overrides: str | int | None) -> Settings:
    """Read the settings from the environment; overrides (from the command line) that are not None win.

    Raises:
        ValueError: an unknown name or a value of the wrong form, with a sentence for the operator.
    """
    env = os.environ if environment is None else environment  # noqa: TID251 - the one place that reads it
    hints = get_type_hints(Settings)
    values: dict[str, object] = {}
    for name, text in env.items():
        if not name.startswith(PREFIX):
            continue
        field = name.removeprefix(PREFIX).lower()
        if name == name.upper() and hints.get(field.removesuffix(FILE.lower())) is str and field not in hints:
            field = field.removesuffix(FILE.lower())
            if name.removesuffix(FILE) in env:
                raise ValueError(f"{name} and {name.removesuffix(FILE)} are both set. Use one of them.")
            values[field] = _read(name, text)
            continue
        if field not in hints or name != name.upper():
            raise ValueError(f"{name} is not a setting. `coatcheck settings` lists them; misspelt?")
        values[field] = _parse(name, text, hints[field])
    values.update({k: v for k, v in overrides.items() if v is not None})
    settings = msgspec.convert(values, Settings)
    _check(settings)
    return settings


def _read(name: str, path: str) -> str:
    """The text of a file, without the line end that editors leave."""
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}={path!r} cannot be read: {error}") from error


def _parse(name: str, text: str, kind: type) -> object:
    if kind is bool:
        if text.lower() not in {"1", "0", "true", "false", "yes", "no"}:
            raise ValueError(f"{name}={text!r} is not true or false.")
        return text.lower() in {"1", "true", "yes"}
    if kind is int:
        m = re.fullmatch(r"([0-9]{1,15})([a-z]{0,3})", text.strip().lower())
        if not m or m[2] not in _UNITS:
            raise ValueError(f"{name}={text!r} is not a whole number (a unit may follow: s m h d w kib mib gib).")
        return int(m[1]) * _UNITS[m[2]]
    return text


def _check(s: Settings) -> None:
    bounds = {
        "port": (0, 65535),
        "card_tokens": (64, 8192),
        "inline_tokens": (0, 100_000),
        "ttl": (1, 10**10),
        "tombstone_ttl": (0, 10**10),
        "payload_limit": (1, 64 * 1024**3),
        "json_limit": (1024, 1024**3),
        "inline_bytes": (0, 1024**2),
        "fallback_bytes": (0, 64 * 1024**3),
        "sweep_seconds": (1, 86400),
        "grace_seconds": (0, 7 * 86400),
        "lease_seconds": (1, 86400),
        "workers": (1, 256),
        "extract_workers": (0, 64),
        "extract_seconds": (1, 60),
        "extract_memory": (256 * 1024**2, 64 * 1024**3),
        "database_connections": (1, 1000),
    }
    for name, (low, high) in bounds.items():
        value = getattr(s, name)
        if not low <= value <= high:
            raise ValueError(f"{PREFIX}{name.upper()}={value} is out of bounds: {low} to {high}.")
    if s.log_level not in {"debug", "info", "warning", "error"}:
        raise ValueError(f"{PREFIX}LOG_LEVEL={s.log_level!r} is not one of debug, info, warning, error.")


def describe() -> list[dict[str, object]]:
    """Every setting with its default and its documentation, for `coatcheck settings` and the documentation."""
    source = Path(__file__).read_text(encoding="utf-8")
    rows: list[dict[str, object]] = []
    for f in msgspec.structs.fields(Settings):
        m = re.search(rf'^    {f.name}: .*\n    """((?:.|\n)*?)"""', source, re.MULTILINE)
        text = " ".join(m[1].split()) if m else ""
        rows.append({"name": PREFIX + f.name.upper(), "default": f.default, "meaning": text})
    return rows
