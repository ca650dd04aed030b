"""Requests that are made up from the OpenAPI document: none breaks the service, and it answers as the document says."""

import json
from pathlib import Path
from typing import Any

import pytest

from fuzz.api_fuzz import Target, fuzz
from support.service import serving


@pytest.mark.timeout(300)
def test_hundreds_of_made_up_requests_are_answered_as_the_document_says(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        done = fuzz(Target(service, tmp_path), "examples", "fuzzing", examples=8, seed=1)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert report["operations"]["tested"] == report["operations"]["total"] > 50
    assert report["test_cases"]["generated"] > 300


def test_an_answer_that_the_document_does_not_describe_is_noticed(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        document = service.get("/v1/openapi.json")
        operation = document["paths"]["/v1/artifacts"]["get"]
        del operation["responses"]["400"]
        document["paths"] = {"/v1/artifacts": {"get": operation}}
        (tmp_path / "document.json").write_text(json.dumps(document))
        target = Target(service, tmp_path, document=str(tmp_path / "document.json"))
        done = fuzz(target, "fuzzing", examples=50, seed=1)
    assert (done.returncode, "Undocumented status code" in done.stdout) == (1, True), done.stdout
