"""`policy`, `hold` and `usage` against a running service: what is decided holds, and exit codes say what happened."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cli.terminal import Ended, call
from support.service import Service, serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of these tests' own: what they decide is nobody else's."""
    with serving(tmp_path_factory.mktemp("decisions")) as running:
        yield running


def ask(place: Service, *args: str, stdin: bytes = b"") -> Ended:
    return call(*args, stdin=stdin, settings={"url": place.url})


def loaded(place: Service, *args: str, stdin: bytes = b"") -> dict[str, Any]:
    ended = ask(place, *args, "--json", stdin=stdin)
    assert ended.code == 0, ended.err
    body: dict[str, Any] = json.loads(ended.out)
    return body


def request(place: Service, method: str, path: str) -> httpx.Response:
    return httpx.request(method, f"{place.url}{path}", trust_env=False, timeout=60)


def test_a_policy_is_set_in_parts_explained_and_removed(place: Service) -> None:
    assert ask(place, "policy", "show", "--kind", "log").code == 3
    first = loaded(place, "policy", "set", "--kind", "log", "ttl=7d", "card_tokens=256")
    assert first["policy"] == {"ttl": 604_800, "card_tokens": 256}
    second = loaded(place, "policy", "set", "--kind", "log", "ttl=forever", "card_tokens=")
    assert (second["policy"], second["version"]) == ({"ttl": None}, first["version"] + 1)
    kept = loaded(place, "policy", "set", "--kind", "diff", "keep_card_text=TRUE")
    assert kept["policy"] == {"keep_card_text": True}
    assert "keep_card_text=true" in ask(place, "policy", "list").out.decode()
    assert ask(place, "policy", "set", "--kind", "diff", "keep_card_text=perhaps").code != 0
    automatic = loaded(place, "policy", "set", "--kind", "diff", "card_tokens=auto", "keep_card_text=")
    assert automatic["policy"] == {"card_tokens": "auto"}
    assert ask(place, "policy", "explain", "--kind", "diff").text == "card_tokens = auto  (from default/kind=diff)\n"
    loaded(place, "policy", "remove", "--kind", "diff")
    loaded(place, "policy", "set", "--namespace", "*", "max_ttl=30d")
    explained = ask(place, "policy", "explain", "--kind", "log")
    assert explained.text == "max_ttl = 2592000  (from *)\nttl = none  (from default/kind=log)\n"
    assert ask(place, "policy", "list").text == "*: max_ttl=2592000\ndefault/kind=log: ttl=none\n"
    shown = loaded(place, "policy", "show", "--kind", "log")
    assert [version["policy"] for version in shown["versions"]] == [{"ttl": None}, first["policy"]]
    for scope in (("--kind", "log"), ("--namespace", "*")):
        assert ask(place, "policy", "remove", *scope).code == 0
        assert ask(place, "policy", "remove", *scope).code == 3
    assert ask(place, "policy", "list").err == "No policy has been set: the settings apply.\n"


def test_what_cannot_be_decided_is_refused_with_the_reason(place: Service) -> None:
    wrong_ones = [("colour=red",), ("ttl",), ("max_bytes=many",), ("--kind", "log", "max_bytes=1gib"), ("ttl=0",)]
    for wrong in (*wrong_ones, ("card_tokens=automatic",), ("card_tokens=63",), ("inline_tokens=auto",)):
        ended = ask(place, "policy", "set", *wrong)
        assert (ended.code, ended.out) == (2, b"")
        assert ended.err.startswith("coatcheck: ")


def test_a_quota_refuses_and_usage_shows_it(place: Service) -> None:
    loaded(place, "put", "-", stdin=b"something\n")
    before = loaded(place, "usage")["items"][0]
    loaded(place, "policy", "set", f"max_artifacts={before['artifacts']}")
    refused = ask(place, "put", "-", stdin=b"something else\n")
    assert refused.code == 4
    assert "[quota_exceeded]" in refused.err
    after = loaded(place, "usage", "--namespace", "default")["items"][0]
    assert after == before | {"max_artifacts": before["artifacts"]}
    assert "refuses when full" in ask(place, "usage").text
    assert ask(place, "policy", "remove").code == 0


def test_a_sessions_tokens_are_shown_and_another_namespaces_are_not_asked_for(place: Service) -> None:
    assert ask(place, "usage", "--session", "a/b c").text == "a/b c: nothing has been counted yet.\n"
    log = "".join(f"step {n}: built target module_{n * 7919} in {n} ms\n" for n in range(400))
    artifact = loaded(place, "put", "-", "--session", "a/b c", stdin=log.encode())["id"]
    assert ask(place, "read", artifact, "--limit", "5").code == 0
    body = {"messages": [{"role": "user", "content": "Build it."}]}
    measured = httpx.post(f"{place.url}/v1/context/measure", json={"body": body, "session": "a/b c"}, trust_env=False)
    assert measured.status_code == 200
    account = loaded(place, "usage", "--session", "a/b c")
    first, *lines = ask(place, "usage", "--session", "a/b c").text.splitlines()
    assert first == (
        f"a/b c: 1 artifact of {account['raw_tokens']:,} tokens, {account['given_tokens']:,} given, "
        f"{account['read_tokens']:,} read back in 1 read; {account['saved_tokens']:,} saved"
    )
    assert lines == measured.json()["lines"] == ask(place, "status").text.splitlines()
    refused = ask(place, "usage", "--session", "s", "--namespace", "other")
    assert (refused.code, refused.out) == (2, b"")


def test_a_hold_is_placed_keeps_and_is_released(place: Service) -> None:
    artifact = loaded(place, "put", "-", "--session", "s", stdin=b"evidence\n")["id"]
    held = loaded(place, "hold", "add", artifact, "--reason", "case 7", "--ttl", "90d")
    assert (held["artifact"], held["session"], held["reason"]) == (artifact, None, "case 7")
    answer = request(place, "DELETE", f"/v1/artifacts/{artifact}")
    assert (answer.status_code, answer.json()["code"], answer.json()["holds"]) == (423, "held", held["id"])
    assert loaded(place, "hold", "list") == {"items": [held]}
    assert ask(place, "hold", "release", held["id"]).text.startswith(f"Released: {held['id']}  {artifact} in default")
    assert ask(place, "hold", "release", held["id"]).code == 3
    assert ask(place, "hold", "release", "nothing").code == 2
    assert request(place, "DELETE", f"/v1/artifacts/{artifact}").status_code == 204
    assert ask(place, "hold", "add", "--artifact", artifact, "--reason", "late").code == 3
    assert ask(place, "hold", "add", "--reason", "of what?").code == 2
    assert ask(place, "hold", "add", artifact, "--session", "s", "--reason", "which?").code == 2
    for nothing in (("",), ("--artifact", ""), ("--session", "")):
        assert ask(place, "hold", "add", *nothing, "--reason", "an empty variable").code == 2
    assert loaded(place, "hold", "list") == {"items": []}
    everything = loaded(place, "hold", "add", "--all", "--reason", "case 8")
    assert request(place, "DELETE", "/v1/admin/namespaces/default").status_code == 423
    assert ask(place, "hold", "release", everything["id"]).code == 0


def test_a_namespace_is_deleted_and_can_be_used_again(place: Service) -> None:
    artifact = loaded(place, "put", "-", stdin=b"to go\n")["id"]
    begun = request(place, "DELETE", "/v1/admin/namespaces/default")
    assert (begun.status_code, begun.json()["namespace"]) == (202, "default")
    assert request(place, "DELETE", "/v1/admin/namespaces/nobody").status_code == 404
    del artifact
