"""What commands say: one is one, a field is called by its option, and nothing is claimed that is not known."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Ended, call
from coatcheck.cli.command_setup import size_of
from coatcheck.cli.retention_text import plan_text, status_text, undone_text, verified_text
from support.service import Service, serving

NO_HEAD = "0" * 64


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
    assert [size_of(count) for count in (0, 1, 1023, 1024)] == ["0 bytes", "1 byte", "1,023 bytes", "1.0 KiB"]


def test_the_hint_for_undoing_a_run_of_expire_brings_back_what_it_removed(place: Service) -> None:
    artifact = loaded(place, "put", "-", "--ttl", "1", stdin=b"soon over\n")["id"]
    while not (found := loaded(place, "retention", "runs", "--job", "expire", "--outcome", "finished")["items"]):
        pass
    shown = ask(place, "retention", "runs", found[0]["id"]).text
    hint = next(line.partition("coatcheck ")[2] for line in shown.splitlines() if line.startswith("To bring it back"))
    refused = ask(place, *hint.removesuffix(" --ttl 7d").split())
    assert (refused.code, "say how long it shall live now, with --ttl (seconds" in refused.text) == (1, True)
    assert ask(place, *hint.split()).text == "Brought back 1 artifact.\n"
    assert place.content(artifact) == b"soon over\n"


def test_a_verification_says_of_the_audit_only_what_it_knows(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as place:
        assert ask(place, "audit", "verify").text.startswith("The audit is whole: it has no lines yet.\n")
        for n in range(3):
            held = loaded(place, "hold", "add", "--all", "--reason", f"case {n}")["id"]
            if n == 0:
                one = ask(place, "audit", "verify").text.partition(".\n")[0]
                assert (one.startswith("The audit is whole: 1 line, 2"), " to " in one) == (True, False)
            assert ask(place, "hold", "release", held).code == 0
        assert ask(place, "audit", "verify").text.startswith("The audit is whole: 6 lines, 2")
        not_kept = "line {} is not the one whose hash was kept: the chain was rewritten."
        for line in (1, 6):
            forged = ask(place, "audit", "verify", "--head", f"{line}:{NO_HEAD}")
            assert (forged.code, forged.text.splitlines()) == (
                1,
                [
                    f"THE AUDIT IS NOT WHOLE (not_kept): {not_kept.format(line)}",
                    "Any line, from the first on, may have been replaced. Before anything else, copy the database.",
                ],
            )
        cut = ask(place, "audit", "verify", "--head", f"9:{NO_HEAD}").text
        assert "NOT WHOLE, from line 7 on (truncated)" in cut
        assert "\nLines 1 to 6 are as they were written. " in cut
    known = {1: "No line is known to be as it was written. ", 2: "Line 1 is as it was written. "}
    for gone in (2, 1):
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "coatcheck.db")) as conn, conn:
            conn.execute("DELETE FROM audit WHERE seq = ?", (gone,))
        with serving(tmp_path / "data") as place:
            ended = ask(place, "audit", "verify")
        assert (ended.code, f"NOT WHOLE, from line {gone} on (missing)" in ended.text) == (1, True)
        assert f"\n{known[gone]}Before anything else, copy the database.\n" in ended.text


def test_a_head_that_does_not_fit_leaves_every_line_in_doubt() -> None:
    breach = {"line": 5, "what": "head", "detail": "the head row does not fit the last line, 5"}
    said = verified_text({"whole": False, "lines": 5, "breach": breach})
    assert said.startswith("THE AUDIT IS NOT WHOLE (head): the head row does not fit the last line, 5.\nAny line, ")


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
        (("put", "-", "--source", "x" * 9000), "coatcheck: --source must be "),
        (("policy", "set", "ttl=soon"), "coatcheck: 'ttl' must be "),
        (("retention", "plan", "session", "--session", "x"), "say which with --namespace."),
        (("retention", "plan", "session", "--namespace", "default"), " needs its --session. "),
        (("retention", "plan", "evict", "--namespace", "default"), " needs --max-bytes or --max-artifacts: "),
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
