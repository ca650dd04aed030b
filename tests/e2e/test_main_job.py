"""The main job on real input: post a payload, get a card, read further, through a real server process."""

import hashlib
import re
from pathlib import Path

from coatcheck.adapters.tokenizer import load_tokenizer
from support import payloads
from support.service import Service


def check_artifact(service: Service, payload: bytes, *, kind: str, **said: str) -> str:
    """Post a payload and hold everything that a card promises against the bytes; answer the card's text."""
    first = service.post(payload, card_tokens=500, inline_tokens=0, **said)
    assert not first["inline"]
    assert first["card"]["kind"] == kind
    text: str = first["text"]
    assert load_tokenizer().count(text) == first["tokens"] <= 500
    assert first["id"] in text

    assert service.content(first["id"]) == payload
    described = service.get(f"/v1/artifacts/{first['id']}")["artifact"]
    assert described["size"]["bytes"] == len(payload)
    assert described["sha256"] == hashlib.sha256(payload).hexdigest()

    again = service.post(payload, card_tokens=500, inline_tokens=0, **said)
    assert (again["id"], again["text"]) == (first["id"], text)

    excerpts = first["card"]["excerpts"]
    whole = service.content(first["id"], excerpts[0]["view"] if excerpts else "raw")
    shown = 0
    for excerpt in excerpts:
        start, end = excerpt["bytes"]["start"], excerpt["bytes"]["end"]
        shown += end - start
        if excerpt["exact"]:
            assert excerpt["text"] == whole[start:end].decode(errors="replace")
    left = sum(o["bytes"]["end"] - o["bytes"]["start"] for o in first["card"]["omitted"])
    assert shown + left == len(whole)
    return text


def walk(service: Service, artifact_id: str, *, unit: str, max_tokens: int) -> bytes:
    """Read an artifact from its start to its end by cursor, and put the windows' bytes together."""
    whole = service.content(artifact_id)
    answer = service.get(f"/v1/artifacts/{artifact_id}/read", unit=unit, max_tokens=max_tokens)
    out = bytearray()
    while True:
        window = answer["window"]["bytes"]
        assert window["start"] == len(out)
        out += whole[window["start"] : window["end"]]
        assert answer["tokens"] <= max_tokens
        if answer["next"] is None:
            return bytes(out)
        cursor = answer["next"]["cursor"]
        answer = service.get(f"/v1/artifacts/{artifact_id}/read", cursor=cursor, max_tokens=max_tokens)


def test_the_card_of_a_failing_test_run_shows_its_end_and_the_failure_is_found(
    service: Service, tmp_path: Path
) -> None:
    log = payloads.failing_test_run(tmp_path)
    text = check_artifact(service, log, kind="command_output", tool_name="bash")
    assert "1 failed, 999 passed" in text
    artifact = service.post(log, tool_name="bash", card_tokens=500, inline_tokens=0)["id"]
    hits = service.get(f"/v1/artifacts/{artifact}/search", pattern=r"^E +AssertionError")
    assert "713 is unlucky" in hits["text"]
    line = hits["matches"][0]["line"]
    there = service.get(f"/v1/artifacts/{artifact}/read", unit="line", offset=line, limit=1)
    assert there["text"].encode() == log.splitlines(keepends=True)[line - 1]


def test_an_interpreters_import_log_is_kept_whole_and_can_be_walked_by_cursor(service: Service) -> None:
    log = payloads.import_log()
    check_artifact(service, log, kind="command_output", tool_name="python")
    artifact = service.post(log, tool_name="python", card_tokens=500, inline_tokens=0)["id"]
    assert walk(service, artifact, unit="line", max_tokens=8000) == log


def test_a_recursive_listing_of_many_megabytes_has_a_card_and_its_last_lines_are_read_directly(
    service: Service,
) -> None:
    listing = payloads.recursive_listing()
    check_artifact(service, listing, kind="command_output", tool_name="bash")
    artifact = service.post(listing, tool_name="bash", card_tokens=500, inline_tokens=0)["id"]
    lines = listing.decode().splitlines(keepends=True)
    tail = service.get(f"/v1/artifacts/{artifact}/read", unit="line", offset=len(lines) - 4, limit=5)
    assert tail["text"] == "".join(lines[-5:])
    assert tail["total"]["lines"] == len(lines)
    assert tail["next"] is None


def test_a_lock_file_is_a_file_and_a_package_is_found_in_it(service: Service) -> None:
    lock = payloads.lock_file()
    check_artifact(service, lock, kind="code_or_file", tool_name="read_file", title="requirements.lock")
    artifact = service.post(lock, tool_name="read_file", title="requirements.lock", inline_tokens=0)["id"]
    hits = service.get(f"/v1/artifacts/{artifact}/search", pattern="litestar==", literal=True)
    assert re.search(r"^\d+:litestar==", hits["text"], re.MULTILINE)


def test_an_installed_page_is_a_web_page_with_its_title(service: Service) -> None:
    _, page = payloads.largest(".html")
    text = check_artifact(service, page, kind="web_page", tool_name="web_fetch", url="https://example.org/page?q=1#top")
    assert "https://example.org/page?q=1" in text


def test_minified_javascript_on_few_lines_can_be_walked_to_its_end(service: Service) -> None:
    name, script = payloads.largest(".js", at_most=400_000)
    check_artifact(service, script, kind="code_or_file", tool_name="read_file", title=name)
    artifact = service.post(script, tool_name="read_file", title=name, inline_tokens=0)["id"]
    assert walk(service, artifact, unit="char", max_tokens=8000) == script


def test_a_binary_is_described_and_never_shown(service: Service) -> None:
    _, library = payloads.largest(".so")
    text = check_artifact(service, library, kind="binary", tool_name="read_file")
    assert text.isprintable() or "\n" in text
    assert "ELF" in text or "Mach-O" in text
