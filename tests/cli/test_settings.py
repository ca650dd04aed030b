"""Settings: units, bounds, names, and what wins."""

import sys
from pathlib import Path

import pytest

from coatcheck.settings import Settings, describe, load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90),
        ("90s", 90),
        ("2m", 120),
        ("3h", 10_800),
        ("2d", 172_800),
        ("1w", 604_800),
        ("4kib", 4096),
        ("64MiB", 64 * 1024**2),
        (" 1gib ", 1024**3),
    ],
)
def test_whole_numbers_take_a_unit(text: str, value: int) -> None:
    assert load({"COATCHECK_TTL": text}).ttl == value


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "1e3", "0x10", "5 m", "5y", "5mb", "\u0661", "1_000", "9" * 16, "1\n2"]
)
def test_what_is_no_whole_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"COATCHECK_TTL=.*is not a whole number"):
        load({"COATCHECK_TTL": text})


@pytest.mark.parametrize(("text", "value"), [("1", True), ("TRUE", True), ("yes", True), ("0", False), ("No", False)])
def test_yes_and_no_have_three_spellings(text: str, value: bool) -> None:
    assert load({"COATCHECK_ALLOW_UNAUTHENTICATED": text}).allow_unauthenticated is value


@pytest.mark.parametrize("text", ["", "on", "2", "maybe"])
def test_anything_else_is_neither(text: str) -> None:
    with pytest.raises(ValueError, match="is not true or false"):
        load({"COATCHECK_ALLOW_UNAUTHENTICATED": text})


BOUNDS = {
    "port": (0, 65535),
    "card_tokens": (64, 8192),
    "inline_tokens": (0, 100_000),
    "search_max_searches": (0, 10_000),
    "search_max_searches_per_turn": (0, 10_000),
    "search_max_results": (1, 20),
    "search_max_tokens_per_result": (64, 8192),
    "search_max_total_tokens": (128, 32_768),
    "ttl": (1, 10**10),
    "tombstone_ttl": (0, 10**10),
    "audit_ttl": (86400, 10**10),
    "payload_limit": (1, 64 * 1024**3),
    "json_limit": (1024, 1024**3),
    "inline_bytes": (0, 1024**2),
    "sweep_seconds": (1, 86400),
    "database_connections": (1, 1000),
    "fallback_bytes": (0, 64 * 1024**3),
    "reserve_bytes": (0, 1024**3),
    "grace_seconds": (0, 7 * 86400),
    "lease_seconds": (1, 86400),
    "workers": (1, 256),
    "threads": (0, 256),
    "readers": (1, 256),
    "ingests": (1, 10_000),
    "ingests_waiting": (0, 100_000),
    "ingests_wait_seconds": (1, 600),
    "rate_requests": (0, 10**9),
    "rate_bytes": (0, 10**14),
    "extract_workers": (0, 64),
    "extract_seconds": (1, 60),
    "extract_memory": (256 * 1024**2, 64 * 1024**3),
    "events": (0, 10_000_000),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_both_bounds_are_allowed_and_one_beyond_is_not(name: str) -> None:
    variable = f"COATCHECK_{name.upper()}"
    low, high = BOUNDS[name]
    store = {"COATCHECK_DATABASE_URL": "postgresql://host/name"}  # several workers need one
    assert getattr(load({**store, variable: str(low)}), name) == low
    assert getattr(load({**store, variable: str(high)}), name) == high
    with pytest.raises(ValueError, match=f"{variable}={high + 1} is out of bounds"):
        load({variable: str(high + 1)})
    with pytest.raises(ValueError, match=f"{variable}={low - 1} is out of bounds"):
        load({}, **{name: low - 1})


def test_every_number_is_bounded() -> None:
    numbers = {name for name in Settings.__struct_fields__ if type(getattr(Settings(), name)) is int}
    assert numbers == set(BOUNDS)


def test_a_log_level_is_one_of_four() -> None:
    for level in ("debug", "info", "warning", "error"):
        assert load({"COATCHECK_LOG_LEVEL": level}).log_level == level
    with pytest.raises(ValueError, match="LOG_LEVEL"):
        load({"COATCHECK_LOG_LEVEL": "INFO"})


def test_a_log_format_is_one_of_two() -> None:
    assert [load({"COATCHECK_LOG_FORMAT": form}).log_format for form in ("text", "json")] == ["text", "json"]
    with pytest.raises(ValueError, match="LOG_FORMAT"):
        load({"COATCHECK_LOG_FORMAT": "xml"})


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318"}, False),
    ],
    ids=["nothing", "endpoint", "of traces", "disabled", "no exporter", "of metrics"],
)
def test_the_standard_variables_of_telemetry_are_understood(variables: dict[str, str], wanted: bool) -> None:
    assert load(variables).standard_telemetry is wanted


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL is not postgresql://"),
        ({"DATABASE_URL": "mysql://u:secret@h/d"}, "DATABASE_URL is not postgresql://"),
        ({"DATABASE_URL": "postgresql://u:secret@h:abc/d"}, "DATABASE_URL has a port that is not a number"),
        ({"DATABASE_URL": "postgresql://u:secret@h:70000/d"}, "DATABASE_URL has a port that is not a number"),
        ({"DATABASE_URL": "postgresql://u:secret@h:1,i:x/d"}, "DATABASE_URL has a port that is not a number"),
        ({"DATABASE_URL": "postgresql://u:secret/word@h:5432/d"}, "DATABASE_URL has a port that is not a number"),
        ({"BLOB_URL": "s3://b"}, "BLOB_URL needs COATCHECK_DATABASE_URL"),
        ({"BLOB_URL": "/data", "DATABASE_URL": "postgresql://h/d"}, "BLOB_URL is not s3://"),
    ],
)
def test_a_place_that_cannot_be_is_refused_without_its_secrets(variables: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        load({f"COATCHECK_{name}": value for name, value in variables.items()})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d",
        "postgres://u:p%2Fw@h:5432/d?sslmode=require",
        "postgresql+asyncpg://u@[::1]:5433/d",
        "postgresql://u:p@h:1,[::2]:2,i/d",
        "postgresql:///d?host=/run",
        "postgresql://h",
        "postgresql://[::1]/d",
    ],
)
def test_every_spelling_of_a_database_is_taken(url: str) -> None:
    assert load({"COATCHECK_DATABASE_URL": url, "COATCHECK_BLOB_URL": "s3://b"}).database_url == url


@pytest.mark.parametrize("name", ["COATCHECK_", "COATCHECK_TTLS", "COATCHECK_ttl", "COATCHECK_Port"])
def test_a_name_that_is_no_setting_stops_the_start(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is not a setting"):
        load({name: "1"})


def test_what_is_not_ours_is_ignored_and_nothing_given_is_the_defaults() -> None:
    settings = load({"PATH": "x", "coatcheck_ttl": "1", "COATCHECKS": "y"})
    assert settings == Settings(data=settings.data)


def test_data_are_here_if_they_were_before_and_else_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    if sys.platform == "linux":
        assert load({}).data == str(tmp_path / "share" / "coatcheck")
    assert Path(load({}).data).is_absolute()
    (tmp_path / "coatcheck-data").mkdir()
    assert load({}).data == "coatcheck-data"


def test_the_command_line_wins_where_it_says_something() -> None:
    environment = {"COATCHECK_PORT": "1", "COATCHECK_DATA": "a"}
    settings = load(environment, port=2, host=None)
    assert (settings.port, settings.data, settings.host) == (2, "a", "127.0.0.1")


def test_what_the_command_line_gives_is_bounded_too() -> None:
    with pytest.raises(ValueError, match="COATCHECK_PORT=70000"):
        load({}, port=70_000)


def test_every_setting_is_described_where_it_is_declared() -> None:
    rows = describe()
    assert [row["name"] for row in rows] == [f"COATCHECK_{name.upper()}" for name in Settings.__struct_fields__]
    assert [row["default"] for row in rows] == [getattr(Settings(), name) for name in Settings.__struct_fields__]
    for row in rows:
        assert str(row["meaning"]).endswith(".")


def test_a_text_may_come_from_a_file_and_only_once(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://u:p@h/d\n")
    name = "COATCHECK_DATABASE_URL"
    assert load({f"{name}_FILE": str(secret)}).database_url == "postgresql://u:p@h/d"
    with pytest.raises(ValueError, match=f"{name}_FILE and {name} are both set"):
        load({f"{name}_FILE": str(secret), name: "postgresql://h/d"})
    with pytest.raises(ValueError, match="cannot be read"):
        load({f"{name}_FILE": str(tmp_path / "nothing")})
    for wrong in ("COATCHECK_PORT_FILE", "COATCHECK_NOTHING_FILE"):
        with pytest.raises(ValueError, match="is not a setting"):
            load({wrong: str(secret)})
