"""Commands about artifacts as a whole, model requests and namespaces, through a running service."""

import json
from pathlib import Path

import pytest

from cli.terminal import Ended, call
from support.service import Service, serving

MARKDOWN = b"# Tides\n\nThe Moon draws the sea.\n\n## Springs\n\nSun and Moon in a line.\n"


def ask(service: Service, *args: str, stdin: bytes = b"") -> Ended:
    return call(*args, stdin=stdin, settings={"url": service.url})


def put(service: Service, payload: bytes, *args: str) -> str:
    ended = ask(service, "put", "-", "--json", *args, stdin=payload)
    assert ended.code == 0, ended.err
    artifact: str = json.loads(ended.out)["id"]
    return artifact


def test_artifacts_are_listed_by_what_they_contain_and_where_they_came_from(service: Service) -> None:
    first = put(service, b"zebra crossing\n", "--session", "listed", "--title", "one")
    second = put(service, b"zebra finch\n", "--session", "listed", "--tool-name", "grep")
    lines = ask(service, "list", "--session", "listed").text.splitlines()
    assert [line[:22] for line in lines] == [second, first]
    assert lines[1].endswith("15 bytes  one")
    assert [item["id"] for item in json.loads(ask(service, "list", "zebra", "finch", "--json").out)["items"]] == [
        second
    ]
    assert len(ask(service, "list", "--session", "listed", "--limit", "1").text.splitlines()) == 1
    nothing = ask(service, "list", "--session", "nobody's")
    assert (nothing.code, nothing.out, nothing.err) == (0, b"", "No artifact was found.\n")


def test_pages_are_listed_with_the_status_that_is_not_a_page_and_where_they_led(service: Service) -> None:
    said = ("--session", "pages", "--source", "https://example.org/a", "--fetched-at", "2026-01-31T12:00:00Z")
    led = ("--final-url", "https://example.org/login", "--content-type", "application/pdf")
    missing = put(service, b"not here\n", *said, "--status", "404")
    moved = put(service, b"sign in\n", *said, "--status", "200", *led)
    lines = ask(service, "list", "--session", "pages").text.splitlines()
    assert [line[:22] for line in lines] == [moved, missing]
    assert lines[0].endswith("  https://example.org/a -> https://example.org/login")
    assert lines[1].endswith("  HTTP 404  https://example.org/a")
    for only, expected in (("--status", "404"), missing), (led[:2], moved):
        assert [line[:22] for line in ask(service, "list", *only).text.splitlines()] == [expected]
    known = json.loads(ask(service, "get", moved, "--json").out)
    assert (known["fetched_at"], known["content_type"]) == ("2026-01-31T12:00:00Z", "application/pdf")
    ended = ask(service, "put", "-", "--final-url", "javascript:x", stdin=b"words\n")
    assert (ended.code, ended.text, "--final-url must be" in ended.err) == (2, "words\n", True)
    ended = ask(service, "put", "-", "--status", "999", stdin=b"words\n")
    assert (ended.code, ended.text, "[invalid_request]" in ended.err) == (2, "words\n", True)


@pytest.mark.parametrize("payload", [b"", b"\0\xff\r\n" * 99, b"x" * 3_000_000], ids=["empty", "bytes", "large"])
def test_a_payload_comes_back_byte_for_byte_on_standard_output_and_in_a_file(
    service: Service, payload: bytes, tmp_path: Path
) -> None:
    artifact = put(service, payload)
    assert ask(service, "get", artifact).out == payload
    assert ask(service, "get", artifact, "-o", str(tmp_path / "copy")).code == 0
    assert (tmp_path / "copy").read_bytes() == payload
    again = ask(service, "get", artifact, "-o", str(tmp_path / "copy"))
    assert (again.code, "cannot be written" in again.err) == (2, True)
    assert json.loads(ask(service, "get", artifact, "--json").out)["size"]["bytes"] == len(payload)


def test_an_outline_names_parts_that_can_be_read_searched_and_got(service: Service) -> None:
    artifact = put(service, MARKDOWN, "--media-type", "text/markdown", "--inline-tokens", "0")
    assert "Springs" in ask(service, "outline", artifact).text
    entries = json.loads(ask(service, "outline", artifact, "--json").out)["entries"]
    part = next(each["section"] for each in entries if each["title"] == "Springs")
    assert ask(service, "read", artifact, "--view", "text", "--section", part).text.startswith("## Springs")
    assert ask(service, "get", artifact, "--view", "text", "--section", part).text.startswith("## Springs")
    assert "in a line" in ask(service, "search", artifact, "Moon", "--view", "text", "--section", part).text
    plain = put(service, b"nothing of note\n")
    assert ask(service, "outline", plain).code == 1


def test_what_is_deleted_is_gone(service: Service) -> None:
    ids = [put(service, b"delete me %d\n" % number) for number in range(2)]
    assert ask(service, "delete", *ids).text == "".join(f"{each} is deleted.\n" for each in ids)
    for command in ("get", "read", "card"):
        ended = ask(service, command, ids[0])
        assert (ended.code, ended.out, "[artifact_gone]" in ended.err) == (3, b"", True)


def test_a_model_request_comes_back_smaller_and_as_a_request(service: Service, tmp_path: Path) -> None:
    output = "".join(f"line {n} of a very long listing of files\n" for n in range(3000))
    messages = [
        {"role": "user", "content": "List."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": output},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks."},
    ]
    (tmp_path / "request.json").write_text(json.dumps({"model": "gpt-5", "messages": messages}))
    ended = ask(service, "compact", str(tmp_path / "request.json"), "--session", "compacted")
    body = json.loads(ended.out)
    assert (ended.code, "1 change; --json says which" in ended.err) == (0, True)
    assert (len(body["messages"]), len(ended.out) < len(output) // 10) == (5, True)
    assert body["messages"][2]["content"].startswith("[art_")
    assert 'read_artifact(artifact_id="' not in body["messages"][2]["content"], "the request declares no tool"
    assert "The body declares no read_artifact" in ended.err
    del messages[2]
    asked = json.dumps({"model": "gpt-5", "messages": messages}).encode()
    ended = ask(service, "compact", "-", "--repair", "--no-tools", stdin=asked)
    assert json.loads(ended.out)["messages"][2]["content"] == "No output of this call was recorded."
    assert "/messages/1/tool_calls/0 was given an output" in ended.err
    refused = ask(service, "compact", "-", stdin=b"{")
    assert (refused.code, "is not JSON" in refused.err) == (2, True)


def test_namespaces_are_made_switched_and_emptied(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        data = ("--data", str(service.data))
        root, user = (call("key", "create", "x", "--namespace", name, *data).text.strip() for name in ("*", "team-b"))
        assert call("put", "-", "--key", user, stdin=b"x", settings={"url": service.url}).code == 0
        _switch_and_empty(service, root)


def _switch_and_empty(service: Service, root: str) -> None:
    def ask(_: Service, *args: str) -> Ended:
        return call(*args, settings={"url": service.url, "key": root})

    assert ask(service, "namespace", "create", "team-b").text.startswith("team-b: enabled, created ")
    assert "team-b: disabled since " in ask(service, "namespace", "disable", "team-b").text
    assert "team-b: enabled" in ask(service, "namespace", "enable", "team-b").text
    assert "team-b: enabled" in ask(service, "namespace", "list").text
    unsure = ask(service, "namespace", "delete", "team-b")
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    assert ask(service, "namespace", "delete", "team-b", "--yes").text == "team-b is being emptied: 1 artifact to go.\n"
    assert ask(service, "namespace", "disable", "../keys").code == 2


@pytest.mark.parametrize(
    ("args", "exit_code", "code"),
    [
        (("read", "art_000000000000000000"), 2, "invalid_artifact_id"),
        (("get", "art_447226963802976146"), 3, "artifact_not_found"),
        (("list", "--kind", "no kind"), 2, "invalid_request"),
        (("backup", "/nowhere/x", "--data", "/nowhere"), 2, None),
    ],
    ids=["ID", "absent", "kind", "store"],
)
def test_with_json_an_error_is_an_object_on_standard_error(
    service: Service, args: tuple[str, ...], exit_code: int, code: str | None
) -> None:
    ended = ask(service, *args, "--json")
    said = json.loads(ended.err)
    assert (ended.code, ended.out, said["exit"], said["code"]) == (exit_code, b"", exit_code, code)
    assert len(said["detail"]) > 20


def test_a_file_that_cannot_be_reached_says_so_as_for_every_command(service: Service) -> None:
    ended = call("get", put(service, b"x"), settings={"url": "http://127.0.0.1:9"})
    assert (ended.code, "Is it running?" in ended.err) == (4, True)
