"""Payloads whose text is not their bytes, over HTTP: what cards, reads, patterns and paths say of them."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.service import Service


def put(service: Service, data: bytes, media_type: str, **query: str) -> dict[str, Any]:
    return service.post(data, media_type=media_type, inline_tokens=0, **query)


def clock(n: int) -> str:
    return f"2026-03-04T12:{n // 60:02d}:{n % 60:02d}Z"


SERVICES = "\r\n".join([*(f"svc{n:02d} Running" for n in range(60)), "spooler Stopped", ""])


@pytest.mark.parametrize("declared", ["text/plain", "text/plain; charset=utf-16", "application/octet-stream"])
def test_a_redirect_in_utf_16_is_a_text_of_lines(service: Service, declared: str) -> None:
    data = b"\xff\xfe" + SERVICES.encode("utf-16-le")
    made = put(service, data, declared, tool_name="powershell")
    assert "61 lines" in made["text"]
    assert "UTF-16" in made["text"].splitlines()[0]
    assert "spooler Stopped" in made["text"]
    assert "61:spooler Stopped" in service.read(made["id"], pattern="spooler")
    assert service.client.get(f"/v1/artifacts/{made['id']}/content").content == data


def test_a_large_text_in_a_legacy_charset_is_read_at_its_end(service: Service) -> None:
    lines = [f"{n}: Überprüfung der Größe für Müller abgeschlossen" for n in range(60_000)]
    data = "\n".join(lines).encode("cp1252")
    assert len(data) > 2 * 1024**2
    made = put(service, data, "text/plain; charset=windows-1252")
    assert "60,000 lines" in made["text"] or "60000 lines" in made["text"]
    assert lines[-1] in made["text"]
    assert lines[-1] in service.read(made["id"], offset=-2)
    assert lines[31_000] in service.read(made["id"], pattern="^31000: Überprüfung")


def test_a_guess_is_called_a_guess(service: Service) -> None:
    made = put(service, "\n".join(["Échec de la connexion à la base de données"] * 20).encode("cp1252"), "text/plain")
    assert "(a guess)" in made["text"].splitlines()[0]
    assert "Échec de la connexion" in made["text"]


def test_lines_that_end_in_cr_are_lines(service: Service) -> None:
    rows = ["id,name,amount", *(f"{n},customer {n},{n * 3 + 0.5:.2f}" for n in range(150))]
    made = put(service, ("\r".join(rows) + "\r").encode(), "text/csv", title="export.csv")
    assert "151 lines" in made["text"]
    assert "150 rows" in made["text"]
    assert rows[90] in service.read(made["id"], offset=91, limit=1)


@pytest.mark.parametrize("steps", [900, 60_000], ids=["small", "over 512 KiB"])
def test_a_log_in_an_envelope_is_a_log(service: Service, steps: int) -> None:
    log = "\n".join([*(f"step {n} is done" for n in range(steps)), "ERROR: disk on fire", *map(str, range(40))])
    body = json.dumps({"exit_code": 3, "stdout": log, "stderr": ""}).encode()
    made = put(service, body, "application/json")
    first = made["text"].splitlines()[0]
    assert "command_output" in first
    assert "unwrapped" in first
    assert "ERROR: disk on fire" in made["text"]
    assert "exit_code: 3" in made["text"]
    assert "ERROR: disk on fire" in service.read(made["id"], pattern="^ERROR")
    assert '"exit_code":3' in service.read(made["id"], view="raw").replace(" ", "")
    assert "\n3\n" in service.read(made["id"], path="$.exit_code")


def test_a_document_behind_a_sentence_has_paths(service: Service) -> None:
    rows = [{"id": n, "state": "corrupt" if n == 44 else "ok"} for n in range(90)]
    made = put(service, b"90 rows\n" + json.dumps({"rows": rows}).encode() + b"\nbye\n", "text/plain")
    assert "\nFailing: 1 of 90 $.rows[*]\n$.rows[44]: state=corrupt\n" in made["text"]
    assert '"state":"corrupt"' in service.read(made["id"], path="$.rows[44]")
    assert "90 rows" in made["text"]


def test_times_are_left_out_said_and_found(service: Service) -> None:
    lines = [f"2026-03-04T12:{n // 60:02d}:{n % 60:02d}.{n * 7919 % 1000:03d}Z step {n} of the run" for n in range(900)]
    made = put(service, ("\n".join(lines) + "\n").encode(), "text/plain")
    assert "without time" in made["text"].splitlines()[0]
    assert "step 0 of the run" in made["text"]
    assert "2026-03-04T12" not in made["text"]
    answer = service.read(made["id"], offset=5, limit=2)
    assert answer.splitlines()[1:3] == ["step 4 of the run", "step 5 of the run"]
    assert "without time (12:00:04 to 12:00:05; view=raw shows all)" in answer.splitlines()[0]
    assert lines[4] in service.read(made["id"], offset=5, limit=2, view="raw")
    assert "step 125 of the run" in service.read(made["id"], pattern="T12:02:05")
    window = service.get(f"/v1/artifacts/{made['id']}/read", view="text", offset=5, limit=2)["window"]
    raw = service.get(f"/v1/artifacts/{made['id']}/read", view="raw", offset=5, limit=2)["window"]
    assert window == raw


def test_hits_and_passages_are_messages_too(service: Service) -> None:
    lines = [f"2026-03-04T12:{n // 60:02d}:{n % 60:02d}.{n * 7919 % 1000:03d}Z step {n} of the run" for n in range(900)]
    lines[500] = lines[500].replace("step 500 of the run", "the reactor of \x1b[1mpump\x1b[0m 7 overheats")
    made = put(service, ("\n".join(lines) + "\n").encode(), "text/plain")
    assert "without time (12:00 to 12:14)" in made["text"].splitlines()[0]
    answer = service.read(made["id"], pattern="reactor", context=1)
    assert answer.splitlines()[1:4] == [
        "500-step 499 of the run",
        "501:the reactor of pump 7 overheats",
        "502-step 501 of the run",
    ]
    assert "without time (view=raw shows all)" in answer.splitlines()[0]
    answer = service.read(made["id"], query="when did which reactor overheat?")
    assert "of pump 7 overheats" in answer
    assert re.search(r"^¦ lines? [\d-]+, 2026-03-04 12:08:\d\d", answer, re.MULTILINE)
    assert "2026-03-04T12:08" not in answer
    whole = service.read(made["id"], pattern="T12:08:2[01]", context=0)
    assert [line.split(":", 1)[1][:10] for line in whole.splitlines()[1:3]] == ["2026-03-04", "2026-03-04"]
    assert "without time (12:08:20 to 12:08:21; view" in service.read(made["id"], offset=501, limit=2).splitlines()[0]


def test_a_quotation_of_what_reads_show_verifies(service: Service) -> None:
    lines = [f"2026-03-04T12:00:{n % 60:02d}.{n:03d}Z step {n}: \x1b[32m{n * 7} parts\x1b[0m done" for n in range(90)]
    made = put(service, ("\n".join(lines) + "\n").encode(), "text/plain")
    quote = "step 41: 287 parts done\nstep 42: 294 parts done"
    assert quote in service.read(made["id"], offset=42, limit=2)
    for asked, verdict in ((quote, "exact"), (quote.replace("287", "288"), "fuzzy")):
        body = {"quotes": [{"quote": asked, "citation": made["id"]}]}
        result = service.client.post("/v1/citations/verify", json=body).json()["results"][0]["checked"]
        assert result["verdict"] == verdict
        window = result["window"]
        assert (window["lines"]["first"], window["lines"]["last"]) == (42, 43)
    assert result["text"] != quote


def test_nothing_is_shown_for_a_question_that_nothing_answers(service: Service) -> None:
    text = "\n".join(f"The harbour office closes berth {n} for repairs of the quay wall." for n in range(300))
    made = put(service, text.encode(), "text/plain")
    answer = service.read(made["id"], query="which insurance broker repairs the airline's ticket counter software?")
    assert "berth" not in answer
    assert "of its words there are only repairs (300)" in answer
    assert "berth 7 for repairs" in service.read(made["id"], query="who closes berth 7 for repairs of the quay?")


def test_no_match_says_what_was_not_searched(service: Service) -> None:
    page = "<html><head><script>var hidden_flag = 1</script></head><body><p>A short text.</p></body></html>"
    made = put(service, (page + "\n" * 3000).encode(), "text/html")
    assert "Only its text view was searched: view=raw" in service.read(made["id"], pattern="hidden_flag")
    assert "hidden_flag" in service.read(made["id"], pattern="hidden_flag", view="raw").split("\n", 1)[1]
    wide = put(service, b"\xff\xfe" + SERVICES.encode("utf-16-le"), "text/plain")
    answer = service.read(wide["id"], pattern="spooler", view="raw")
    assert "not the text in them: leave out view" in answer


LINES: dict[str, tuple[Callable[[int], str], str]] = {
    "docker": (
        lambda n: json.dumps({"log": f"Größe {n} ok\n", "stream": "stdout", "time": clock(n)}),
        "Größe 42 ok$",
    ),
    "members": (
        lambda n: json.dumps({"ts": clock(n), "level": "info", "msg": f'in "m{n}.py" now'}),
        'in "m42.py" now',
    ),
    "cells": (lambda n: f'{clock(n)},h,"in ""m{n}.py"" now"', '^in "m42.py"'),
    "colours": (lambda n: f"int \x1b[01;31m\x1b[Kbuffer\x1b[m\x1b[K_size_{n} = {n};", "buffer_size_42"),
    "times": (lambda n: f"{clock(n)} step {n} is done", "^step 42 is"),
    "entities": (lambda n: f"<td>cell &quot;{n}&quot;</td>", 'cell "42"'),
}


@pytest.mark.parametrize("form", LINES)
def test_what_a_line_is_shown_as_is_found(service: Service, form: str) -> None:
    line, pattern = LINES[form]
    made = put(service, "".join(line(n) + "\n" for n in range(80)).encode(), "text/plain")
    answer = service.read(made["id"], pattern=pattern, context=0)
    assert answer.splitlines()[1].startswith("43:")
    assert "these match as read" in answer


def test_a_question_is_answered_by_what_lines_are_shown_as(service: Service) -> None:
    lines = [f'Größe {n}: der "Kühlwassertank" {n} läuft' for n in range(80)]
    lines[42] = 'Größe 42: das "Überdruckventil" öffnet nicht'
    logs = "".join(json.dumps({"log": f"{line}\n", "time": clock(n)}) + "\n" for n, line in enumerate(lines))
    answer = service.read(
        put(service, logs.encode(), "text/plain")["id"], query="welches Überdruckventil öffnet nicht?"
    )
    assert lines[42] in answer
    document = json.dumps({"rows": [{"id": n, "text": line} for n, line in enumerate(lines)]}, indent=1)
    answer = service.read(put(service, document.encode(), "application/json")["id"], query="Überdruckventil öffnet")
    assert r"\u00dcberdruckventil" in answer


def test_lines_that_are_taken_for_data_are_read_as_the_card_says(service: Service) -> None:
    lines = [json.dumps({"log": f"step {n} of Größe\n", "stream": "stdout", "time": clock(n)}) for n in range(81)]
    made = put(service, "\n".join([*lines, ""]).encode(), "application/x-ndjson")
    assert "json" in made["text"].splitlines()[0]
    assert "without stream=stdout, time" in made["text"].splitlines()[0]
    assert service.read(made["id"], offset=5, limit=1).splitlines()[1] == "step 4 of Größe"
    assert lines[4] in service.read(made["id"], offset=5, limit=1, view="raw")
    assert "step 7 of" in service.read(made["id"], path="$[7].log")


def test_no_match_as_read_is_true(service: Service) -> None:
    text = "".join(json.dumps({"log": f"Größe {n}\n", "time": clock(n)}) + "\n" for n in range(80))
    made = put(service, text.encode(), "text/plain")
    assert "43:Größe 42" in service.read(made["id"], pattern="größe 42", context=0)
    for pattern in ("Größe 420", "^Größe$"):
        assert "No match" in service.read(made["id"], pattern=pattern)


def test_a_match_in_a_long_line_is_shown_where_it_is(service: Service) -> None:
    words = [rf"Gr\u00f6\u00dfe {n} " for n in range(3_000)]
    made = put(service, ("x\n" + "".join(words) + "\n").encode(), "text/plain")
    answer = service.read(made["id"], pattern="Größe 1777 ", context=0)
    assert r"Gr\u00f6\u00dfe 1777 " in answer
    assert r"Gr\u00f6\u00dfe 1000 " not in answer


def test_a_binary_stays_one(service: Service) -> None:
    made = put(service, bytes(range(256)) * 40, "text/plain")
    assert "binary" in made["text"].splitlines()[0]
