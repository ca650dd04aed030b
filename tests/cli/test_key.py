"""`coatcheck key`: directly in the database, beside a running service and through it; and services that need keys."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.terminal import COMMAND, call, run
from support.combos import EMBEDDED, POSTGRES, Combo, fresh_combo
from support.service import serving

SHAPE = re.compile(r"ck_live_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}\n")


@pytest.fixture(params=[EMBEDDED, POSTGRES])
def combo(request: pytest.FixtureRequest) -> Iterator[Combo]:
    with fresh_combo(request.param) as opened:
        yield opened


def made(data: Path, combo: Combo, *args: str) -> dict[str, Any]:
    """A key, made directly."""
    assert call("migrate", "--data", str(data), settings=combo.settings).code == 0
    ended = call("key", "create", "--json", "--data", str(data), *args, settings=combo.settings)
    assert ended.code == 0, ended.err
    answer: dict[str, Any] = json.loads(ended.out)
    return answer


def bearer(key: dict[str, Any]) -> dict[str, str]:
    return {"authorization": f"Bearer {key['key']}"}


def test_a_new_key_is_alone_on_standard_output_and_its_store_is_named_beside_it(tmp_path: Path) -> None:
    call("migrate", "--data", str(tmp_path / "data"))
    ended = call("key", "create", "mine", "--data", str(tmp_path / "data"))
    assert ended.code == 0
    assert SHAPE.fullmatch(ended.text)
    assert ended.text.strip() not in ended.err
    assert f" in {tmp_path / 'data'}, shown only this once" in ended.err
    files = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir() if path.is_file())
    assert ended.out.strip()[20:63] not in files


def test_a_service_that_starts_with_a_key_needs_one_and_says_so(tmp_path: Path, combo: Combo) -> None:
    key = made(tmp_path / "data", combo, "ci", "--namespace", "team-a", "--ttl", "1d")
    assert (key["namespace"], key["scopes"]) == ("team-a", ["delete", "ingest", "read"])
    with serving(tmp_path / "data", combo) as service:
        assert service.client.get("/v1/artifacts").status_code == 401
        assert service.client.get("/health/ready").status_code == 200
        assert service.client.get("/v1/artifacts", headers=bearer(key)).json() == {"items": [], "next": None}


def test_keys_are_made_and_revoked_beside_running_services_which_notice_at_once(tmp_path: Path, combo: Combo) -> None:
    data = tmp_path / "data"
    replicas = 1 if combo.name == EMBEDDED else 2
    with serving(data, combo) as one, serving(data if replicas > 1 else tmp_path / "other", combo) as other:
        services = [one, other][:replicas]
        assert [service.client.get("/v1/artifacts").status_code for service in services] == [200] * replicas
        key = made(data, combo, "ci")
        for service in services:
            assert service.client.get("/v1/artifacts", headers=bearer(key)).status_code == 200
            # Who had no key is refused within the second.
            while service.client.get("/v1/artifacts").status_code == 200:
                pass
        for _ in range(3):
            stored = services[0].client.post("/v1/artifacts", json={"content": "x"}, headers=bearer(key))
            assert stored.status_code in {200, 201}
        assert call("key", "revoke", key["id"], "--data", str(data), settings=combo.settings).code == 0
        for service in services:
            assert service.client.get("/v1/artifacts", headers=bearer(key)).status_code == 401
            refused = service.client.post("/v1/artifacts", json={"content": "x"}, headers=bearer(key))
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")


def test_keys_are_administered_through_a_running_service(tmp_path: Path) -> None:
    data, combo = tmp_path / "data", Combo(EMBEDDED)
    root = made(data, combo, "root", "--namespace", "*")
    assert root["scopes"] == ["admin"]
    with serving(data) as service:
        there = ("--url", service.url, "--key", root["key"])
        ended = call("key", "create", "ci", "--namespace", "team-a", "--scope", "read", *there)
        assert (ended.code, bool(SHAPE.fullmatch(ended.text))) == (0, True)
        listed: list[dict[str, Any]] = json.loads(call("key", "list", "--json", *there).out)["items"]
        assert {(item["name"], item["namespace"]) for item in listed} == {("ci", "team-a"), ("root", "*")}
        client = httpx.Client(base_url=service.url, headers={"x-api-key": ended.text.strip()}, trust_env=False)
        with client:
            assert client.get("/v1/artifacts").status_code == 200
            assert call("key", "revoke", ended.text[8:19], *there).code == 0
            assert client.get("/v1/artifacts").status_code == 401
        nobody = call("key", "list", "--url", service.url)
        assert (nobody.code, "[unauthenticated]" in nobody.err) == (2, True)
        absent = call("key", "revoke", "00000000000", *there)
        assert (absent.code, "[key_not_found]" in absent.err) == (3, True)
        # The other commands present theirs the same way.
        assert call("put", "-", "--url", service.url, stdin=b"x").code == 2
        user = made(data, combo, "user")
        put = call("put", "-", "--url", service.url, "--key", user["key"], stdin=b"hello\n")
        assert (put.code, put.out) == (0, b"hello\n")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("create", "x", "--namespace", "A"), 2),
        (("create", "x", "--ttl", "soon"), 2),
        (("create", "x", "--scope", "write"), 2),
        (("create", "x", "--bytes-per-minute", "64mb"), 2),
        (("create", "x", "--namespace", "*", "--scope", "read"), 2),
        (("revoke", "00000000000"), 3),
        (("revoke", "../keys"), 3),
    ],
    ids=["namespace", "ttl", "scope", "rate", "everywhere", "unknown", "no ID"],
)
def test_what_cannot_be_ends_with_its_code_and_a_sentence(args: tuple[str, ...], code: int, tmp_path: Path) -> None:
    assert call("migrate", "--data", str(tmp_path / "data")).code == 0
    ended = call("key", *args, "--data", str(tmp_path / "data"))
    assert (ended.code, ended.out) == (code, b"")
    assert len(ended.err) > 20


def test_a_key_has_limits_of_its_own_in_bytes_or_larger_units(tmp_path: Path, combo: Combo) -> None:
    limits = ("--requests-per-minute", "3", "--bytes-per-minute", "64mib")
    key = made(tmp_path / "data", combo, "ops", *limits)
    assert (key["requests_per_minute"], key["bytes_per_minute"]) == (3, 64 * 1024**2)


def test_the_first_key_of_a_store_also_administers_its_namespace_and_says_that_it_is_the_first(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    call("migrate", *data)
    first, second = call("key", "create", "one", *data), call("key", "create", "two", *data)
    assert ("first key" in first.err, "first key" in second.err) == (True, False)
    newest, oldest = call("key", "list", *data).text.splitlines()
    assert oldest.endswith("one: namespace default; may admin, delete, ingest, read")
    assert newest.endswith("two: namespace default; may delete, ingest, read")


def test_the_address_of_a_service_in_the_environment_is_asked_and_a_named_store_comes_first(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        there = {"url": service.url}
        first = call("key", "create", "one", settings=there)
        assert (first.code, f"of {service.url}, shown" in first.err, "first key" in first.err) == (0, True, True)
        refused = call("key", "create", "two", settings=there)
        assert (refused.code, "[unauthenticated]" in refused.err) == (2, True)
        keyed = there | {"key": first.text.strip()}
        assert call("key", "create", "two", settings=keyed).code == 0
        names = ("two: namespace default", "one: namespace default")
        assert all(name in call("key", "list", settings=keyed).text for name in names)
        assert all(name in call("key", "list", "--data", str(service.data), settings=there).text for name in names)
    both = call("key", "list", "--data", str(tmp_path), "--url", "http://127.0.0.1:1")
    assert (both.code, "one of the two" in both.err) == (2, True)


def test_a_refusal_for_a_missing_scope_names_the_command_that_makes_a_key_which_serves(tmp_path: Path) -> None:
    data = tmp_path / "data"
    user = made(data, Combo(EMBEDDED), "user", "--namespace", "team-a")
    with serving(data) as service:
        there = {"url": service.url}
        for command in (("policy", "list"), ("retention", "status")):
            refused = call(*command, settings=there | {"key": user["key"]})
            assert refused.code == 2
            named = re.search(r"coatcheck (key create NAME --namespace team-a --scope admin)", refused.err)
            assert named, refused.err
        key = call(*named[1].split(), "--data", str(data)).text.strip()
        assert call("policy", "list", settings=there | {"key": key}).code == 0
        refused = call("retention", "status", settings=there | {"key": key})
        assert "coatcheck key create NAME --namespace '*'" in refused.err
        key = call("key", "create", "NAME", "--namespace", "*", "--data", str(data)).text.strip()
        assert call("retention", "status", settings=there | {"key": key}).code == 0
        refused = call("put", "-", stdin=b"x", settings=there | {"key": key})
        assert "coatcheck key create NAME --namespace NAMESPACE --scope ingest" in refused.err


@pytest.mark.parametrize("args", [("create", "me"), ("list",), ("revoke", "00000000000")])
def test_a_directory_without_a_store_has_no_keys_to_look_at_and_gets_no_store(
    args: tuple[str, ...], tmp_path: Path
) -> None:
    ended = call("key", *args, "--data", str(tmp_path / "typo"))
    assert (ended.code, ended.out) == (2, b"")
    assert f"there is no store in {tmp_path / 'typo'}. Name its directory with --data." in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_list_says_which_keys_have_expired_and_that_a_namespace_has_none(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    made(tmp_path / "data", Combo(EMBEDDED), "short", "--ttl", "1")
    made(tmp_path / "data", Combo(EMBEDDED), "long", "--ttl", "1d")
    deadline = time.monotonic() + 20
    while "; expired 2" not in (listed := call("key", "list", *data).text):
        assert time.monotonic() < deadline
    long, short = listed.splitlines()
    assert ("; until 2" in long, "until" in short) == (True, False)
    assert call("key", "list", "--namespace", "nowhere", *data).err == "Namespace nowhere has no key.\n"


def first_line(tmp_path: Path, *args: str, **settings: str) -> tuple[int | None, str]:
    """What a service says when it starts, or its exit code and its last words."""
    env = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    env |= {f"COATCHECK_{name.upper()}": value for name, value in settings.items()}
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--data", str(tmp_path / "data"), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert process.stdout is not None
    line = process.stdout.readline() + process.stdout.readline()
    if line:
        process.terminate()
        process.communicate(timeout=30)
        return None, line
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_beyond_loopback_a_service_starts_only_where_a_key_is_needed_or_nobody_shall_need_one(tmp_path: Path) -> None:
    code, said = first_line(tmp_path, "--host", "0.0.0.0")  # noqa: S104 - refused
    assert (code, "coatcheck key create" in said) == (2, True)
    run("migrate", "--data", str(tmp_path / "data"))
    code, said = first_line(tmp_path, "--host", "0.0.0.0")  # noqa: S104 - refused
    assert (code, "coatcheck key create" in said) == (2, True)
    code, said = first_line(tmp_path, "--host", "0.0.0.0", allow_unauthenticated="true")  # noqa: S104 - asked for
    assert (code, "Nobody needs a key" in said) == (None, True)
    code, said = first_line(tmp_path, "--host", "0.0.0.0", require_keys="true")  # noqa: S104 - keys are needed
    assert (code, "Callers need a key" in said) == (None, True)
    made(tmp_path / "data", Combo(EMBEDDED), "first")
    code, said = first_line(tmp_path, "--host", "0.0.0.0")  # noqa: S104 - keys are needed
    assert (code, "Callers need a key" in said) == (None, True)


def test_on_loopback_a_service_without_keys_says_that_none_is_needed(tmp_path: Path) -> None:
    code, said = first_line(tmp_path)
    assert (code, "no key is needed" in said) == (None, True)
    code, said = first_line(tmp_path, require_keys="true")
    assert (code, "Callers need a key" in said) == (None, True)


def test_the_start_names_the_command_that_makes_a_key_in_this_very_store(tmp_path: Path) -> None:
    _, said = first_line(tmp_path, require_keys="true")
    assert said.endswith(f" key create me --data {tmp_path / 'data'}\n")


def test_keys_cannot_be_both_required_and_not(tmp_path: Path) -> None:
    ended = call(
        "serve", "--data", str(tmp_path / "data"), settings={"require_keys": "true", "allow_unauthenticated": "true"}
    )
    assert (ended.code, "contradict" in ended.err) == (2, True)
