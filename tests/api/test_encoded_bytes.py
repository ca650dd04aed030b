"""Bytes that are written as text, over HTTP: cards, reads, patterns and questions name them, and only view=raw shows
them.
"""

import base64
import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from support.service import Service, serving

BYTES: Final = b"\x89PNG\r\n\x1a\n" + random.Random(41).randbytes(66_000)
CODE: Final = base64.b64encode(BYTES).decode()
URI: Final = f"data:image/png;base64,{CODE}"
NAME: Final = "[image/png, 66 kB]"
LINES: Final = [f"Paragraph {n} tells about item {n * 7} of the stock." for n in range(60)]
LOG: Final = [f"2026-03-04T12:00:{n:02d}Z INFO step {n} of the job" for n in range(60)]
PROSE: Final = "\n".join(LINES)

TEXTS: Final = {
    "Markdown": f"{PROSE}\n![the logo of Zanzibar]({URI}) is blue.\n{PROSE}\n",
    "CSS": f"{'a { color: red }'}\n" * 40 + f".zanzibar {{ background: url({URI}) }}\n" + "b { color: red }\n" * 40,
    "log": "\n".join([*LOG, f"2026-03-04T12:01:00Z ERROR Zanzibar failed body={URI} status=500", ""]),
    "JSON lines": "\n".join(
        [
            *(json.dumps({"time": line[:20], "level": "info", "message": line[26:]}) for line in LOG),
            json.dumps(
                {"time": "2026-03-04T12:01:00Z", "level": "error", "message": f'Zanzibar failed: "{CODE}", 500'}
            ),
            "",
        ]
    ),
    "one line": f"{' '.join(LINES)} the logo of Zanzibar <image href='{URI}'/> {' '.join(LINES)}",
    "JSON": json.dumps({"zanzibar": [{"mimeType": "image/png", "data": CODE}, {"text": "Zanzibar is blue"}]}),
    "indented JSON": json.dumps({"lines": [{"n": line} for line in LINES], "Zanzibar": CODE}, indent=1),
    "JSON of PHP": json.dumps({"lines": [{"n": line} for line in LINES], "Zanzibar": URI}).replace("/", "\\/"),
    "wrapped in JSON": json.dumps({"Zanzibar": {"encoding": "base64", "content": base64.encodebytes(BYTES).decode()}}),
    "in an output": json.dumps({"exit_code": 0, "stdout": f"{PROSE}\nlogo of Zanzibar: {URI}\n{PROSE}", "stderr": ""}),
    "parts": json.dumps([{"type": "text", "text": f"{PROSE}\nZanzibar {URI}"}, {"type": "x", "zanzibar": CODE}]),
}


def put(service: Service, text: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return service.post(text, inline_tokens=0, **fields)


def shows_bytes(text: str) -> bool:
    """Whether any 24 of the characters that encode the bytes are in a text."""
    return any(CODE[at : at + 24] in text for at in range(0, len(CODE) - 24, 12))


@pytest.mark.parametrize("form", TEXTS)
def test_encoded_bytes_are_named_wherever_text_leaves(service: Service, form: str) -> None:
    made = put(service, TEXTS[form], query="Zanzibar")
    ref = made["id"]
    answers = {
        "card": made["text"],
        "lines": service.read(ref, offset=1),
        "pattern": service.read(ref, pattern="(?i)zanzibar"),
        "query": service.read(ref, query="What failed in Zanzibar?"),
        "name": service.read(ref, pattern=r"image/png, 66|text/plain, 66|66 kB"),
    }
    assert [name for name, answer in answers.items() if shows_bytes(answer)] == []
    assert "66 kB]" in answers["lines"]
    assert "66 kB]" in answers["name"], "a pattern matches what was shown"
    assert "view=raw shows them" in answers["lines"]
    assert "anzibar" in answers["pattern"]
    assert shows_bytes(service.read(ref, view="raw", pattern="iVBOR"))
    assert service.content(ref).decode() == TEXTS[form], "what is stored stays"


@pytest.mark.parametrize("form", ["Markdown", "log", "JSON lines"])
def test_a_pattern_matches_the_bytes_and_a_quotation_stands(service: Service, form: str) -> None:
    ref = put(service, TEXTS[form])["id"]
    assert CODE[600:640] in service.read(ref, pattern=f"{CODE[600:640].replace('+', '[+]')}")
    line = next(line for line in service.read(ref, offset=1).splitlines() if NAME in line)
    for quote, verdicts in (
        (line, {"exact", "normalised"}),
        (line.replace("anzibar", "anguebar"), {"fuzzy", "missing"}),
    ):
        body = {"quotes": [{"quote": quote, "citation": ref}]}
        result = service.client.post("/v1/citations/verify", json=body).json()["results"][0]["checked"]
        assert result["verdict"] in verdicts, quote


CERTIFICATE: Final = (
    f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(BYTES[8:2_000]).decode()}-----END CERTIFICATE-----\n"
)


@pytest.mark.parametrize(
    "text",
    [
        CERTIFICATE,
        json.dumps({"certificate": CERTIFICATE}),
        json.dumps({"cursor": CODE[100:1_500]}),
        json.dumps({"digests": " ".join(f"{n:064x}" for n in range(40))}),
        json.dumps({"packages": {f"p{n}": {"integrity": f"sha512-{CODE[n : n + 86]}=="} for n in range(60)}}),
        "!function(){" + ";".join(f"var a{n}=b{n}.c{n}(d{n})" for n in range(200)) + "}()",
        json.dumps({"mappings": ";".join("AAAA,SAASA,KAAKC" for _ in range(200))}),
        "/".join(["Usr2/share3/Very_long-path"] * 40),
    ],
    ids=["PEM", "PEM in JSON", "cursor", "digests", "lock file", "minified", "source map", "path"],
)
def test_what_only_looks_like_encoded_bytes_stays(service: Service, text: str) -> None:
    ref = put(service, text)["id"]
    shown = service.read(ref, offset=1)
    assert " kB]" not in shown
    assert " bytes]" not in shown
    assert text[210:230] in shown


def test_a_secret_in_encoded_text_is_named_not_shown_and_one_beside_it_is_masked(tmp_path: Path) -> None:
    token = "ghp_" + CODE[50:86].replace("+", "a").replace("/", "b")
    page = base64.b64encode(f"<p>The token is {token}</p>".encode() + b"<p>text</p>" * 200).decode()
    text = f"{PROSE}\npage: data:text/html;base64,{page}\ntoken {token}\n"
    with serving(tmp_path / "shown", redaction="shown") as service:
        ref = put(service, text)["id"]
        shown = service.read(ref, offset=1) + service.read(ref, view="raw", pattern="base64|token")
    assert token not in shown
    assert page[:40] not in shown
    assert "token [redacted: github-pat]" in shown
    with serving(tmp_path / "refuse", redaction="refuse") as service:
        body = {"content": f"{PROSE}\npage: data:text/html;base64,{page}\n"}
        assert service.client.post("/v1/artifacts", json=body).json()["code"] == "secret_refused"
        assert service.client.post("/v1/artifacts", json={"content": PROSE}).status_code == 201
