"""`put`, `card`, `read`, `search` against a running service."""

import json
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Ended, call, run
from support.service import Service

LOG = "".join(f"{n:05d} step {n * 7919 % 1000} took {n % 97} ms\n" for n in range(4000)).encode()


def ask(service: Service, *args: str, stdin: bytes = b"", folder: Path | None = None) -> Ended:
    settings = {"url": service.url}
    return (
        call(*args, stdin=stdin, settings=settings) if folder is None else run(*args, folder=folder, settings=settings)
    )


def loaded(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    body: dict[str, Any] = json.loads(ended.out)
    return body


def put(service: Service, payload: bytes, *args: str) -> str:
    """Hand over a payload and answer its ID."""
    artifact_id: str = loaded(ask(service, "put", "-", "--json", *args, stdin=payload))["id"]
    return artifact_id


def test_a_small_output_comes_back_from_the_pipe_byte_for_byte(service: Service) -> None:
    for payload in (b"ok\n", "日本\n".encode()):
        assert run("put", "-", "--url", service.url, stdin=payload) == Ended(0, payload, "")
    assert ask(service, "put", "-", stdin=b"no newline").out == b"no newline\n"


def test_what_was_run_and_what_to_compare_with_are_said_beside_the_payload(service: Service) -> None:
    run = ("--session", "runs", "--tool-name", "bash", "--command", "make all", "--compare-to", "previous")
    text = "".join(f"## Part {n}\n\n{f'What part {n} says of everything. ' * 90}\n\n" for n in range(30)).encode()
    first, second = put(service, text, *run), put(service, text + b"The end.\n", *run)
    known = service.client.get(f"/v1/artifacts/{second}").json()["artifact"]
    assert (known["command"], known["compared_to"]) == ("make all", first)
    assert b"read_artifact" in ask(service, "put", "-", *run, stdin=text).out
    assert b"read_artifact" not in ask(service, "put", "-", *run, "--no-tools", stdin=text).out
    assert b"read_artifact" in ask(service, "card", first).out
    assert b"read_artifact" not in ask(service, "card", first, "--no-tools").out


def test_a_large_file_becomes_the_card_that_the_service_cuts(service: Service, tmp_path: Path) -> None:
    (tmp_path / "build.log").write_bytes(LOG)
    ended = ask(
        service,
        "put",
        "build.log",
        "--tool-name",
        "make",
        "--session",
        "large",
        "--card-tokens",
        "300",
        folder=tmp_path,
    )
    assert (ended.code, ended.err) == (0, "")
    found = re.match(r"\[(art_\d{18}) ", ended.text)
    assert found is not None
    assert service.content(found[1]) == LOG
    known = service.get(f"/v1/artifacts/{found[1]}")["artifact"]
    assert (known["title"], known["tool_name"]) == ("build.log", "make")
    again = ask(service, "card", found[1], "--tokens", "300")
    assert again == ended
    assert len(ask(service, "card", found[1], "--tokens", "100").out) < len(ended.out)
    assert "02345 step" in ask(service, "card", found[1], "--query", "02345").text


def test_everything_that_can_be_said_arrives(service: Service, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(b"<html><title>A page</title><p>text</p></html>")
    options = {
        "--tool-name": "fetch",
        "--tool-call-id": "c1",
        "--session": "s1",
        "--source": "https://example.org/p?q=1",
        "--title": "Mine",
        "--kind": "web_page",
        "--ttl": "12h",
    }
    args = [part for pair in options.items() for part in pair]
    file = str(tmp_path / "page.html")
    body = loaded(ask(service, "put", file, "--json", "--label", "a", "--label", "b", *args))
    known = service.get(f"/v1/artifacts/{body['id']}")["artifact"]
    said = {name.removeprefix("--").replace("-", "_").replace("source", "url"): text for name, text in options.items()}
    assert {**{name: known[name] for name in said}, "ttl": "12h"} == said
    assert (known["ttl"], known["labels"], known["media_type"]) == (43200, ["a", "b"], "text/html")
    pinned = loaded(ask(service, "put", "-", "--json", "--pin", stdin=b"pin me\n"))
    assert service.get(f"/v1/artifacts/{pinned['id']}")["artifact"]["expires_at"] is None


def test_json_is_the_services_whole_answer(service: Service) -> None:
    body = loaded(ask(service, "put", "-", "--json", stdin=LOG * 2))
    assert set(body) == {
        "id",
        "stored",
        "expires_at",
        "inline",
        "text",
        "content",
        "same_as",
        "tokens",
        "image_tokens",
        "card",
        "warnings",
    }
    assert loaded(ask(service, "card", body["id"], "--json"))["text"] == body["text"]
    assert loaded(ask(service, "read", body["id"], "--json", "--limit", "1"))["text"] == "00000 step 0 took 0 ms\n"
    assert loaded(ask(service, "search", body["id"], "00007", "--json"))["matches"][0]["line"] == 8


def test_a_pipe_of_twenty_megabytes_is_kept_exactly(service: Service) -> None:
    payload = random.Random(7).randbytes(20_000_000)
    ended = run("put", "-", "--json", "--url", service.url, stdin=payload)
    assert service.content(loaded(ended)["id"]) == payload


def test_a_named_pipe_is_read_to_its_end_though_it_has_no_size(service: Service, tmp_path: Path) -> None:
    """As `put <(make 2>&1)` does in a shell."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(LOG,))
    writer.start()
    body = loaded(run("put", str(pipe), "--json", "--session", "pipe", "--url", service.url))
    writer.join()
    assert service.content(body["id"]) == LOG
    assert service.get(f"/v1/artifacts/{body['id']}")["artifact"]["title"] is None


def test_an_empty_file_is_a_payload(service: Service, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    body = loaded(ask(service, "put", str(tmp_path / "empty"), "--json"))
    assert (service.content(body["id"]), body["text"]) == (b"", "")


def test_following_the_cursor_prints_the_file_to_its_end(service: Service) -> None:
    payload = LOG[: LOG.index(b"02000")]
    artifact_id = put(service, payload)
    out, args = b"", ["--max-tokens", "8000"]
    while True:
        ended = ask(service, "read", artifact_id, *args)
        assert ended.code == 0, ended.err
        out += ended.out
        more = re.fullmatch(r"coatcheck: there is more: --cursor (\S+)\n", ended.err)
        if more is None:
            assert ended.err == ""
            break
        args = ["--cursor", more[1], "--max-tokens", "8000"]
    assert out == payload


def test_a_part_is_read_by_line_character_and_byte(service: Service) -> None:
    artifact_id = put(service, "aé\nzwei\ndrei\n".encode() * 2000)
    lines = ask(service, "read", artifact_id, "--offset", "2", "--limit", "2")
    assert lines.out == b"zwei\ndrei\n"
    assert ask(service, "read", artifact_id, "--unit", "char", "--offset", "1", "--limit", "2").out == "é\n".encode()
    assert ask(service, "read", artifact_id, "--unit", "byte", "--offset", "0", "--limit", "1").out == b"a\n"


def test_search_prints_as_grep_does_and_says_by_its_exit_code_that_nothing_matched(service: Service) -> None:
    artifact_id = put(service, LOG)
    bare = ask(service, "search", artifact_id, "^01234 ", "-C", "0")
    assert (bare.code, bare.out) == (0, b"1235:01234 step 46 took 70 ms\n")
    around = ask(service, "search", artifact_id, "^01234 ", "-C", "1").text.splitlines()
    assert [line[:11] for line in around] == ["1234-01233 ", "1235:01234 ", "1236-01235 "]
    wrong = ask(service, "search", artifact_id, "(")
    assert (wrong.code, wrong.out, "[invalid_pattern]" in wrong.err) == (2, b"", True)
    assert "use -F. [" in wrong.err
    nothing = ask(service, "search", artifact_id, "no such line")
    assert (nothing.code, nothing.out) == (1, b"")
    assert nothing.err == 'coatcheck: No match for "no such line" in 4,000 lines; try -i.\n'
    assert ask(service, "search", artifact_id, "STEP").code == 1
    assert ask(service, "search", artifact_id, "STEP", "-i", "--limit", "1").code == 0
    assert ask(service, "search", artifact_id, "took.1", "-F").code == 1
    second = ask(service, "search", artifact_id, "took 1 ms", "-F", "-C", "0", "--offset", "1", "--limit", "1")
    assert second.text.startswith("99:00098 ")


def test_a_pattern_that_starts_with_a_dash_can_be_searched_after_two(service: Service) -> None:
    artifact_id = put(service, b"a\n--flag\n")
    assert "2:--flag" in ask(service, "search", artifact_id, "--", "--flag").text


@pytest.mark.parametrize(
    "args",
    [
        ("card", "art_1"),
        ("card", "../../health/live"),
        ("read", "art_000000000000000098", "--unit", "page"),
        ("put", "-", "--ttl", "soon"),
        ("put", "-", "--card-tokens", "1"),
        ("put", "no-such-file"),
        ("put", "."),
        ("card", "art_000000000000000098", "--url", "not a url"),
    ],
)
def test_a_wrong_request_ends_with_2_and_a_sentence(service: Service, args: tuple[str, ...]) -> None:
    ended = ask(service, *args, stdin=b"x")
    assert (ended.code, ended.out) == (2, b"x\n" if "-" in args else b""), ended.err
    assert ended.err


def test_what_is_not_there_or_no_longer_ends_with_3(service: Service) -> None:
    artifact_id = put(service, b"to be deleted\n")
    assert service.client.delete(f"/v1/artifacts/{artifact_id}").status_code == 204
    for args in (("card", artifact_id), ("read", artifact_id), ("search", artifact_id, "x")):
        ended = ask(service, *args)
        assert (ended.code, ended.out) == (3, b"")
        assert ended.err.endswith("[artifact_gone]\n")
    unknown = ask(service, "card", "art_000000000000000098")
    assert (unknown.code, unknown.err.endswith("[artifact_not_found]\n")) == (3, True)
