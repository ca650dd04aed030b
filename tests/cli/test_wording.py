"""What commands say: one is one, a field is called by its option, and nothing is claimed that is not known."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Ended, call
from coatcheck.cli.command_setup import render_size
from coatcheck.cli.retention_text import plan_text, status_text, undone_text
from support.service import Service, serving


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Service]:
    """A service of each test's own, which sweeps often."""
    with serving(tmp_path / "data", sweep_seconds=1) as running:
        yield running


def ask(place: Service, *args: str, stdin: bytes = b"") -> Ended:
    return call(*args, stdin=stdin, settings={"url": place.url})


def loaded(place: Service, *args: str, stdin: bytes = b"") -> Any:  # noqa: ANN401 - JSON
    ended = ask(place, *args, "--json", stdin=stdin)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_one_artifact_is_one_from_its_plan_to_its_return(place: Service, tmp_path: Path) -> None:
    artifact = loaded(place, "put", "-", "--session", "s", stdin=b"few words\n")["id"]
    assert ask(place, "usage").text.startswith("default: 1 artifact, ")
    loaded(place, "policy", "set", "max_artifacts=1")
    assert ask(place, "usage").text.startswith("default: 1 of 1 artifact, ")
    scope = ("--namespace", "default", "--session", "s")
    assert "  WILL REMOVE 1 of 1 artifact: " in ask(place, "retention", "plan", "session", *scope).text
    assert "  WILL LOOK AT 1 blob, " in ask(place, "retention", "plan", "verify").text
    held = loaded(place, "hold", "add", "--artifact", artifact, "--reason", "case 7")["id"]
    assert "  1 more is HELD and will stay." in ask(place, "retention", "plan", "session", *scope).text
    assert ask(place, "hold", "release", held).code == 0
    digest = loaded(place, "retention", "plan", "session", *scope)["digest"]
    applied = ask(place, "retention", "apply", digest, "--confirm").text
    assert "  Removed the one planned artifact, 10 B.\n" in applied
    run = loaded(place, "retention", "runs", "--job", "session")["items"][0]["id"]
    assert applied.endswith(f" coatcheck retention undo --run {run}\n")
    assert "  1 artifact, 10 B, by " in ask(place, "retention", "runs", "--job", "session").text
    assert "To be swept: 1 blob, " in ask(place, "retention", "status").text
    assert ask(place, "retention", "undo", "--run", run).text == "Brought back 1 artifact.\n"
    assert "  1 artifact, 10 B" in ask(place, "audit", "list", "--action", "artifact").text
    assert call("backup", str(tmp_path / "b"), "--data", str(place.data)).text.startswith(
        f"{tmp_path / 'b'} holds 1 artifact as of "
    )
    restored = call("restore", str(tmp_path / "b"), "--data", str(tmp_path / "c")).text
    assert restored.startswith(f"{tmp_path / 'c'} holds 1 artifact as of ")
    assert call("check", "--data", str(tmp_path / "c")).text.endswith(
        "OK: 1 blob, 10 bytes read and compared with their digests; found nothing.\n"
    )


def test_one_byte_is_one() -> None:
    assert [render_size(count) for count in (0, 1, 1023, 1024)] == ["0 bytes", "1 byte", "1,023 bytes", "1.0 KiB"]


def test_the_hint_for_undoing_a_run_of_expire_brings_back_what_it_removed(place: Service) -> None:
    artifact = loaded(place, "put", "-", "--ttl", "1", stdin=b"soon over\n")["id"]
    while not (found := loaded(place, "retention", "runs", "--job", "expire", "--outcome", "finished")["items"]):
        pass
    shown = ask(place, "retention", "runs", found[0]["id"]).text
    hint = next(line.partition("coatcheck ")[2] for line in shown.splitlines() if line.startswith("To bring it back"))
    refused = ask(place, *hint.removesuffix(" --ttl 7d").split())
    assert (refused.code, "set its new lifetime with --ttl (seconds" in refused.text) == (1, True)
    assert ask(place, *hint.split()).text == "Brought back 1 artifact.\n"
    assert place.content(artifact) == b"soon over\n"


def test_a_job_that_only_looks_is_not_said_to_remove_nothing_of_what_it_looked_for(place: Service) -> None:
    assert ask(place, "retention", "plan", "storage").text.splitlines() == [
        "Plan: storage: all namespaces",
        "  NOTHING to look at: no bytes are stored.",
        "  What it does: compares names and sizes of all stored bytes with the catalogue; removes nothing.",
    ]
    assert "  NOTHING to remove.\n  Looked for: " in ask(place, "retention", "plan", "expire").text


def test_when_a_job_ran_last_is_said_to_the_minute(place: Service) -> None:
    while "not run yet" in (said := ask(place, "retention", "status").text.partition("  index")[0]):
        pass
    (last,) = {line.partition("last ")[2] for line in said.splitlines() if line.startswith("  sweep")}
    assert len(last) == len("2026-01-01 00:00Z: done")


def test_a_refusal_names_options_where_the_service_names_fields(place: Service) -> None:
    for args, said in (
        (("put", "-", "--card-tokens", "1"), "coatcheck: --card-tokens must be a whole number "),
        (("put", "-", "--session", "x" * 900), "coatcheck: --session must be "),
        (("policy", "set", "ttl=soon"), "coatcheck: 'ttl' must be "),
        (("retention", "plan", "session", "--session", "x"), "name it with --namespace."),
        (("retention", "plan", "session", "--namespace", "default"), " needs its --session. "),
        (("retention", "plan", "evict", "--namespace", "default"), " needs a target: --max-bytes or --max-artifacts."),
    ):
        ended = ask(place, *args, stdin=b"x")
        assert (ended.code, said in ended.err) == (2, True), ended.err


def test_what_a_refusal_quotes_is_left_as_it_is(place: Service) -> None:
    artifact = loaded(place, "put", "-", stdin=b"x\n")["id"]
    ended = ask(place, "search", artifact, "max_tokens (try ignore_case")
    assert (ended.code, 'missing ) in "max_tokens (try ignore_case"' in ended.err) == (2, True)
    assert "use -F. [" in ended.err


def test_numbers_and_their_nouns_agree_where_nothing_or_much_is_said_of() -> None:
    assert undone_text({"restored": [], "there": ["a"], "failed": []}).endswith("\n1 was there already.")
    assert undone_text({"restored": ["a"] * 2000, "there": ["a"] * 2, "failed": []}) == (
        "Brought back 2,000 artifacts.\n2 were there already."
    )
    nothing = {"expired": 1, "oldest_overdue_seconds": 5.0, "dead_blobs": 0, "dead_bytes": 0, "artifacts": None}
    said = status_text({**nothing, "jobs": [], "running": []})
    assert said.splitlines()[0].startswith("Overdue:     1 artifact, the oldest by 5 s")
    assert said.endswith("Under way:   0 runs")
    scope = {"namespace": None, "session": None}
    held = {"job": "expire", "scope": scope, "artifacts": 0, "items": 0, "why": "old ones", "held": 2}
    assert plan_text(held).endswith("  2 more are HELD and will stay.")
