"""The log: JSON lines with the facts of a request, and never a word of what was handed over."""

import contextlib
import json
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from coatcheck.cli.serving.process import JsonLines, TextLines, format_error
from coatcheck.core.errors import CoatcheckError, Code
from support.service import Service, serving

CANARY = "kwyjibo-3141"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def requests(text: str) -> list[dict[str, Any]]:
    return [line for line in lines(text) if line["logger"] == "coatcheck.access"]


@contextlib.contextmanager
def logged(folder: Path, **settings: str) -> Generator[tuple[Service, Path]]:
    """A service and the file that has its log."""
    with serving(folder / "data", None, **settings) as service:
        yield service, folder / "data.log"


def test_a_request_is_one_line_with_its_facts(tmp_path: Path) -> None:
    with logged(tmp_path, access_log="true", log_format="json") as (service, log):
        receipt = service.post("a short output\n", tool_name="bash")
        service.client.get(f"/v1/artifacts/{receipt['id']}", headers={"x-request-id": "mine-1"})
        service.client.get("/nowhere")
        service.client.get("/health/live")
        service.client.get("/metrics")
    found = requests(log.read_text())
    assert [(r["method"], r["route"], r["status"], r.get("artifact_id")) for r in found] == [
        ("POST", "/v1/artifacts", 201, receipt["id"]),
        ("GET", "/v1/artifacts/{artifact_id}", 200, receipt["id"]),
        ("GET", "none", 404, None),
    ]
    assert found[1]["request_id"] == "mine-1"
    assert set(found[1]) == {
        "at",
        "level",
        "logger",
        "message",
        "request_id",
        "method",
        "route",
        "status",
        "duration_ms",
        "received",
        "artifact_id",
    }
    assert all(isinstance(r["duration_ms"], float) and r["duration_ms"] > 0 for r in found)


def misuse(service: Service) -> None:
    """Everything that a caller can do wrong with a payload, and some that is right."""
    c = service.client
    receipt = service.post(f"{CANARY}\n" * 4000, tool_name="bash", query=CANARY)
    item = f"/v1/artifacts/{receipt['id']}"
    service.post(json.dumps({"items": [{"name": CANARY, "n": n} for n in range(3000)]}), media_type="application/json")
    page = f"<html><title>{CANARY}</title><main>{'<p>' + CANARY * 30 + '</p>' * 900}</main></html>"
    service.post(page, url="https://example.org/", media_type="text/html")
    bodies: list[tuple[str, bytes, dict[str, str]]] = [
        ("/v1/artifacts", f'{{"content": "{CANARY}"'.encode(), {"content-type": "application/json"}),
        ("/v1/artifacts", f'{{"content": {{"{CANARY}": 1}}}}'.encode(), {"content-type": "application/json"}),
        ("/v1/artifacts", f'{{"content": "x", "{CANARY}": 1}}'.encode(), {"content-type": "application/json"}),
        ("/v1/artifacts:batch", f'{{"items": ["{CANARY}"]}}'.encode(), {"content-type": "application/json"}),
        ("/v1/artifacts/raw", CANARY.encode(), {"content-encoding": "gzip"}),
        ("/v1/artifacts/raw", CANARY.encode(), {"content-digest": "sha-256=:AAAA:"}),
        ("/v1/artifacts", CANARY.encode(), {"content-type": "multipart/form-data; boundary=x"}),
        ("/v1/tools/call", f'{{"name": "{CANARY}", "arguments": "{CANARY}"}}'.encode(), {}),
        ("/v1/search-results", f'{{"response": "{CANARY}", "query": "{CANARY}"}}'.encode(), {}),
        ("/v1/citations/verify", f'{{"quotations": [{{"quote": "{CANARY}"}}]}}'.encode(), {}),
        ("/mcp", f'{{"jsonrpc": "2.0", "id": 1, "method": "{CANARY}"}}'.encode(), {}),
        ("/mcp", CANARY.encode(), {}),
    ]
    for path, body, headers in bodies:
        c.post(path, content=body, headers={"content-type": "application/json", **headers})
    call = {"name": "read_artifact", "arguments": {"artifact_id": receipt["id"], "pattern": f"({CANARY}"}}
    c.post("/v1/tools/call", json=call)
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call | {"_meta": CANARY}}
    accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    c.post("/mcp", json=mcp, headers=accept)
    for query in (
        f"pattern={CANARY}",
        f"pattern=({CANARY}",
        f"{CANARY}=1",
        f"cursor={CANARY}",
        f"path=$.{CANARY}[",
        f"query={CANARY}",
    ):
        for verb in ("search", "read", "json", "windows", "outline", "card"):
            c.get(f"{item}/{verb}?{query}")
    c.get("/v1/artifacts", params={"q": CANARY})
    c.get(f"/v1/artifacts/{CANARY}")
    c.get(f"/{CANARY}")
    c.delete(f"/v1/sessions/{CANARY}")
    c.patch(item, json={CANARY: 1})


def test_no_word_of_a_payload_comes_into_the_log(tmp_path: Path) -> None:
    with logged(tmp_path, log_format="json", log_level="debug") as (service, log):
        misuse(service)
        # and when what is stored cannot be read or written any more
        for blob in (service.data / "blobs").rglob("*"):
            if blob.is_file():
                blob.write_bytes(CANARY.encode())
        for item in service.client.get("/v1/artifacts").json()["items"]:
            with contextlib.suppress(httpx.HTTPError):
                service.client.get(f"/v1/artifacts/{item['id']}/content")
                service.client.get(f"/v1/artifacts/{item['id']}/read")
    text = log.read_text()
    assert text.count("/v1/artifacts") > 30
    assert CANARY not in text
    assert CANARY[:7] not in text


def test_an_exception_is_logged_by_its_type_and_place_and_without_words_that_data_may_be_in() -> None:
    def broken() -> None:
        try:
            int(CANARY)
        except ValueError as error:
            raise CoatcheckError(Code.INTERNAL, "The number is none.") from error

    with pytest.raises(CoatcheckError) as caught:
        broken()
    text = format_error(caught.value)
    assert "CoatcheckError: The number is none." in text
    assert "ValueError (its words are not shown" in text
    assert text.count("test_logs.py") == 3
    assert CANARY not in text


@pytest.mark.parametrize(
    "error",
    [KeyError(CANARY), UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY), RuntimeError(CANARY)],
    ids=["key", "unicode", "runtime"],
)
@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
def test_both_forms_hide_the_words_of_an_exception(formatter: logging.Formatter, error: Exception) -> None:
    record = logging.LogRecord(
        "coatcheck", logging.ERROR, __file__, 1, "failed", None, (type(error), error, error.__traceback__)
    )
    line = formatter.format(record)
    assert type(error).__name__ in line
    assert CANARY not in line


def test_a_json_line_is_one_line_whatever_is_in_it() -> None:
    record = logging.LogRecord("coatcheck", logging.INFO, __file__, 1, "two\nlines\u2028three %s", ("\0",), None)
    record.facts = {"route": "/x", "message": "no"}
    line = JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "at": json.loads(line)["at"],
        "level": "info",
        "logger": "coatcheck",
        "message": "two\nlines\u2028three \0",
        "route": "/x",
    }
