"""The settings. The service reads them once from the environment; each field below has its type and documentation.

If the environment has another name that starts with `COATCHECK_`, the service refuses to start: a misspelt limit must
not be ignored.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, get_type_hints

import msgspec
import platformdirs
from msgspec import Struct

PREFIX = "COATCHECK_"
FILE = "_FILE"
"""Suffix of a variable that names a file with the value of a text setting. Such a file keeps secrets out of the
environment: `COATCHECK_DATABASE_URL_FILE=/run/secrets/database-url`."""
SECRET = frozenset({"database_url", "key"})
"""Settings whose values are never shown."""
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
    """All settings. A field `x_y` is read from `COATCHECK_X_Y`.

    The annotation of a number contains its bounds, both inclusive; the annotation of a word contains all allowed words.
    """

    host: str = "127.0.0.1"
    """Address to listen on. An address other than loopback is refused while no key is required: create a key first
    (`coatcheck key create`), or set `COATCHECK_REQUIRE_KEYS` or `COATCHECK_ALLOW_UNAUTHENTICATED`."""
    port: Annotated[int, (0, 65535)] = 8321
    """Port to listen on; 0 takes a free one and prints it."""
    data: str = "coatcheck-data"
    """Directory of the embedded store: the SQLite catalogue and the blobs. If this setting is not given and there is no
    `./coatcheck-data`, it is the user's folder for data of programs, such as `~/.local/share/coatcheck`."""
    database_url: str = ""
    """`postgresql://user:password@host/database`: the catalogue, shared by any number of replicas. Empty: the embedded
    store in `data`. Not through a pooler that shares connections between transactions."""
    database_connections: Annotated[int, (1, 1000)] = 8
    """Connections to PostgreSQL for reading; one more is for writing."""
    blob_url: str = ""
    """`s3://bucket/prefix?endpoint=https://…&region=…`: where the bytes of larger payloads are stored. Credentials come
    from the standard AWS variables. Empty: files in `data`, which every replica must see."""
    require_keys: bool = False
    """Require a key from every caller, even while no key exists. Otherwise keys are required once the first one
    exists."""
    allow_unauthenticated: bool = False
    """Listen on addresses other than loopback although no key is required. Use it only behind something that
    authenticates callers."""
    allowed_hosts: str = ""
    """Host names, separated by commas, that requests may use in addition to loopback names."""
    card_tokens: Annotated[int, (64, 8192)] = 600
    """Token budget of a card when the caller names none; 64 to 8192."""
    inline_tokens: Annotated[int, (0, 100_000)] = 1000
    """Payloads of at most this many tokens are returned unchanged instead of as a card; 0 makes a card of
    everything."""
    search_enabled: bool = True
    """Whether responses of web searches are accepted when no policy decides. If not, the answer says that web searches
    are off, and nothing is stored."""
    search_keep_summary: bool = True
    """Whether later turns keep sentences and sources of a web search when no policy decides; otherwise they keep only
    one line."""
    search_max_searches: Annotated[int, (0, 10_000)] = 0
    """Maximum searches with results in a session when no policy names a number; 0: no limit."""
    search_max_searches_per_turn: Annotated[int, (0, 10_000)] = 0
    """Maximum searches with results in a turn that the caller names; 0: no limit."""
    search_max_results: Annotated[int, (1, 20)] = 3
    """Results of a web search whose text is shown when neither the caller nor a policy names a number; 1 to 20."""
    search_max_tokens_per_result: Annotated[int, (64, 8192)] = 2048
    """Maximum tokens of one result of a web search; 64 to 8192."""
    search_max_total_tokens: Annotated[int, (128, 32_768)] = 8192
    """Maximum tokens of the whole text of a web search; 128 to 32768."""
    ttl: Annotated[int, (1, 10**10)] = 30 * 86400
    """Seconds that an artifact is kept if the caller gives no `ttl`; a unit may follow: `30d`, `12h`."""
    tombstone_ttl: Annotated[int, (0, 10**10)] = 30 * 86400
    """Seconds for which reads of a deleted or expired artifact still say that it is gone, and why."""
    audit_ttl: Annotated[int, (86400, 10**10)] = 90 * 86400
    """Seconds that a line of the audit log is kept; a unit may follow: `365d`."""
    events: Annotated[int, (0, 10_000_000)] = 100_000
    """Events (who read what, searches, compactions) that are kept, the latest of all namespaces, for 30 days at most;
    0 keeps none."""
    payload_limit: Annotated[int, (1, 64 * 1024**3)] = 1024**3
    """Largest payload in bytes after decoding; a unit may follow: `64mib`, `1gib`."""
    redaction: Annotated[str, ("off", "shown", "stored", "refuse")] = "off"
    """What happens to secrets in payloads when no policy decides: `off`: nothing; `shown`: masked in everything that a
    model sees; `stored`: masked before storing; `refuse`: the payload is refused."""
    redaction_rules: str = ""
    """Names of redaction rules, separated by commas: a name turns on a rule that is off by default, `-` before a name
    turns a rule off. `coatcheck redaction` lists them all."""
    json_limit: Annotated[int, (1024, 1024**3)] = 32 * 1024**2
    """Largest JSON request body in bytes. Larger payloads are streamed to `/v1/artifacts/raw`."""
    inline_bytes: Annotated[int, (0, 1024**2)] = 32 * 1024
    """Payloads of at most this many stored (compressed) bytes are kept in the catalogue instead of in a file or
    object."""
    fallback_bytes: Annotated[int, (0, 64 * 1024**3)] = 64 * 1024**2
    """Bytes of memory for compressed payloads while storage does not accept them; the oldest are dropped first. 0: no
    buffer."""
    reserve_bytes: Annotated[int, (0, 1024**3)] = 32 * 1024**2
    """Size in bytes of a file that reserves disk space in the data directory of the embedded store, so that deletions
    work on a full disk. No payloads are stored while the file cannot be made. 0: no file, so that only an administrator
    can free a full disk."""
    sweep_seconds: Annotated[int, (1, 86400)] = 10
    """Seconds between two runs of expiry, reaping and sweeping."""
    grace_seconds: Annotated[int, (0, 7 * 86400)] = 600
    """Seconds that the bytes of a dead blob are kept, because a reader may still use them."""
    lease_seconds: Annotated[int, (1, 86400)] = 900
    """Seconds that an upload may go without progress before it is reaped."""
    workers: Annotated[int, (1, 256)] = 1
    """Processes that serve, on one port; more than 1 only with PostgreSQL. Each has its own threads, connections,
    limits and buffers, like a replica; the metrics cover all of them."""
    threads: Annotated[int, (0, 256)] = 0
    """Threads that hash, compress and count payloads at ingest; 0: as many as there are processors, at least 2. More
    threads ingest no faster, and delay everything else."""
    readers: Annotated[int, (1, 256)] = 4
    """Threads in a separate pool for reads, so that reads never queue behind writes."""
    ingests: Annotated[int, (1, 10_000)] = 64
    """Uploads received at the same time, at most half of them from one caller; each may use a few MiB of memory.
    Payloads that have arrived completely have as many slots of their own."""
    ingests_waiting: Annotated[int, (0, 100_000)] = 256
    """Uploads that may wait for an ingest slot, and as many payloads that have arrived completely. Any further payload
    gets a card at once, but is not stored."""
    ingests_wait_seconds: Annotated[int, (1, 600)] = 5
    """Maximum seconds that a payload waits for an ingest slot before it gets a card without being stored; keep it below
    the clients' own timeouts."""
    rate_requests: Annotated[int, (0, 10**9)] = 0
    """Requests that a caller may make per minute, unless its key sets another limit; 0: no limit. Each process counts
    separately."""
    rate_bytes: Annotated[int, (0, 10**14)] = 0
    """Bytes that a caller may send per minute, unless its key sets another limit; a unit may follow; 0: no limit. A
    larger body is always refused."""
    extract_workers: Annotated[int, (0, 64)] = 2
    """Processes that extract text from large pages and documents; started on first use. 0: extract in threads, without
    limits on time and memory, and skip payloads over 2 MiB."""
    extract_seconds: Annotated[int, (1, 60)] = 8
    """Seconds that one extraction may take before its process is ended and a simpler method is tried."""
    extract_memory: Annotated[int, (256 * 1024**2, 64 * 1024**3)] = 1024**3
    """Bytes of memory that an extraction process may address (not enforced on macOS)."""
    log_level: Annotated[str, ("debug", "info", "warning", "error")] = "info"
    """`debug`, `info`, `warning` or `error`."""
    log_format: Annotated[str, ("text", "json")] = "text"
    """`text`, or `json`: one object per line, for log collectors."""
    access_log: bool = False
    """Log every request: ID, route, status, duration, key ID, artifact. Never its content; probes and scrapes only if
    they fail."""
    metrics_open: bool = False
    """Serve `/metrics` without a key and under any host name. Otherwise it needs a key of the namespace `*` wherever
    keys are required, because it counts what all namespaces do."""
    page: bool = True
    """Serve the administrator's page at `/`. It asks for a key wherever keys are required, and
    shows what the key may see."""
    otlp_endpoint: str = ""
    """`http://collector:4318`: where to send traces, by OTLP over HTTP. Needs `coatcheck[telemetry]`. Empty: the
    standard `OTEL_EXPORTER_OTLP_ENDPOINT` applies; without either there are no traces."""
    standard_telemetry: bool = False
    """Send traces as the standard `OTEL_` variables say. On by default if they name an endpoint."""
    url: str = "http://127.0.0.1:8321"
    """URL of the service, for commands that call a running one (`put`, `read`, `mcp`, `hook`, `policy`, `retention` and
    the like) and for the Python client."""
    key: str = ""
    """Key that the Python client uses, and commands that call a running service. Not needed on loopback as long as no
    key is required."""


def load(environment: Mapping[str, str] | None = None, **overrides: str | int | None) -> Settings:
    """Reads the settings from the environment. Overrides, which come from the command line, win unless they are None.

    Raises:
        ValueError: a name is unknown, or a value has the wrong form; the error explains it to the operator.
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
    values.setdefault("data", default_data())
    values.setdefault("standard_telemetry", _has_standard_telemetry(env))
    values.update({k: v for k, v in overrides.items() if v is not None})
    settings = msgspec.convert(values, Settings)
    _check(settings)
    return settings


def default_data() -> str:
    """Returns the directory of the embedded store when none is set.

    That is `./coatcheck-data` if it exists, otherwise the user's folder for data of programs.
    """
    here = Settings().data
    return here if Path(here).exists() else str(platformdirs.user_data_path("coatcheck", appauthor=False))


def is_set(field: str) -> bool:
    """Returns whether the environment contains a setting, either its value or the name of a file with its value."""
    name = PREFIX + field.upper()
    return name in os.environ or name + FILE in os.environ  # noqa: TID251 - as above


def _has_standard_telemetry(env: Mapping[str, str]) -> bool:
    """Returns whether OpenTelemetry's own variables ask for traces by OTLP over HTTP."""
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if env.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() not in {"", "otlp"}:
        return False
    return any(env.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in ("", "TRACES_"))


def is_loopback(host: str) -> bool:
    """Returns whether only programs on this machine can connect to an address on which the service listens."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(name: str, path: str) -> str:
    """Returns the text of the file with a setting's value, without the newline that editors add at the end."""
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
    # The bounds come from the annotations of the fields, so that no field can be forgotten here.
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        for allowed in getattr(hint, "__metadata__", ()):
            value, variable = getattr(s, name), f"{PREFIX}{name.upper()}"
            if isinstance(value, str) and value not in allowed:
                raise ValueError(f"{variable}={value!r} is not one of {', '.join(allowed)}.")
            if not isinstance(value, str) and not allowed[0] <= value <= allowed[1]:
                raise ValueError(f"{variable}={value} is out of bounds: {allowed[0]} to {allowed[1]}.")
    for name, value in msgspec.structs.asdict(s).items():
        # Surrogates are how Python passes on bytes that are no text.
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise ValueError(f"{PREFIX}{name.upper()} has bytes that are not UTF-8.")
    _check_store_urls(s)
    if s.require_keys and s.allow_unauthenticated:
        raise ValueError(f"{PREFIX}REQUIRE_KEYS and {PREFIX}ALLOW_UNAUTHENTICATED contradict each other. Set one.")


def _check_store_urls(s: Settings) -> None:
    """Raises ValueError for URLs that cannot name a store. Opening the store later shows whether it exists."""
    scheme, _, rest = s.database_url.partition(":")
    if s.database_url and scheme not in {"postgresql", "postgres", "postgresql+asyncpg"}:
        raise ValueError(f"{PREFIX}DATABASE_URL is not postgresql://… Without it the store is embedded.")
    hosts = re.split("[/?#]", rest.removeprefix("//"), maxsplit=1)[0].rpartition("@")[2]
    for host in hosts.split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if not re.fullmatch("[0-9]{0,5}", port) or int(port or 0) > 65535:  # noqa: PLR2004 - the last port there is
            raise ValueError(  # the message does not repeat the port, which may be a part of the password
                f"{PREFIX}DATABASE_URL has a port that is not a number up to 65535. In a user's name or password, "
                "write : / ? # @ as %3A %2F %3F %23 %40."
            )
    if s.blob_url and not s.blob_url.startswith("s3://"):
        raise ValueError(f"{PREFIX}BLOB_URL is not s3://… Without it the bytes are files in {PREFIX}DATA.")
    if s.workers > 1 and not s.database_url:
        raise ValueError(
            f"{PREFIX}WORKERS={s.workers} needs {PREFIX}DATABASE_URL: the embedded store belongs to one process, which "
            "alone writes its database. Serve with one, or keep the catalogue in PostgreSQL."
        )
    if s.blob_url and not s.database_url:
        raise ValueError(
            f"{PREFIX}BLOB_URL needs {PREFIX}DATABASE_URL: the embedded store keeps its bytes beside its database."
        )


def describe() -> list[dict[str, object]]:
    """Returns every setting with its default and its docstring, for `coatcheck settings` and the documentation."""
    source = Path(__file__).read_text(encoding="utf-8")
    rows: list[dict[str, object]] = []
    for f in msgspec.structs.fields(Settings):
        m = re.search(rf'^    {f.name}: .*\n    """((?:.|\n)*?)"""', source, re.MULTILINE)
        text = " ".join(m[1].split()) if m else ""
        rows.append({"name": PREFIX + f.name.upper(), "default": f.default, "meaning": text})
    return rows
