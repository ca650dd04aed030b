"""Archives and databases over HTTP and through the tool, by a service whose workers read them."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from media.formats import sqlite, tarred, zipped
from support.service import Service, serving

SOURCE = "".join(f"line {n} of the program\n" for n in range(300))
FILES = {"src/main.py": SOURCE.encode(), "README.md": b"# Tides\n", "readme.md": b"small\n", "logo": b"\0\1\2" * 99}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("archives")
    with serving(folder / "data", extract_workers=1) as running:
        yield running


def read(service: Service, artifact_id: str, **arguments: Any) -> str:  # noqa: ANN401 - JSON
    """What a model reads."""
    call = {"name": "read_artifact", "arguments": {"artifact_id": artifact_id, **arguments}}
    response = service.client.post("/v1/tools/call", json=call)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert not answer["is_error"], answer
    return str(answer["text"])


@pytest.mark.parametrize(
    ("payload", "first"),
    [
        (zipped(FILES), "ZIP archive: 4 files, "),
        (gzip.compress(tarred(FILES), mtime=0), "tar archive (gzip): 4 files, "),
    ],
    ids=["zip", "tar.gz"],
)
def test_an_archive_is_read_by_lines_and_by_the_names_of_its_files(
    service: Service, payload: bytes, first: str
) -> None:
    receipt = service.post(payload, inline_tokens=0)
    artifact = receipt["id"]
    assert f"[{artifact} · binary · as text " in receipt["text"]
    assert f"\n{first}" in receipt["text"]
    begin = read(service, artifact, limit=9).splitlines()
    assert begin[1].startswith(first)
    assert f"{len(SOURCE)}\tsrc/main.py" in begin
    assert "## src/main.py\nline 0 of the program\n" in read(service, artifact, section="src/main.py")
    assert "line 150 of the program" in read(service, artifact, pattern="line 150 ")
    assert "# Tides" in read(service, artifact, section="README.md")
    assert "small" in read(service, artifact, section="readme.md")
    assert "[binary data: not shown]" in read(service, artifact, section="logo")
    assert service.content(artifact, "text").decode().startswith(first)


def test_a_database_is_read_by_the_names_of_its_tables(service: Service) -> None:
    payload = sqlite("CREATE TABLE prod_usage (id INTEGER, name TEXT); INSERT INTO prod_usage VALUES (1, 'Ann')")
    artifact = service.post(payload, inline_tokens=0)["id"]
    whole = read(service, artifact)
    assert "SQLite database: 1 table\nprod_usage: id INTEGER, name TEXT; 1 row\n" in whole
    assert "Rows: 1 row\nid\tname\n1\tAnn\n" in read(service, artifact, section="prod_usage")
    assert "prod_usage" in read(service, artifact, section="outline")


def test_the_files_of_an_archive_are_found_by_their_words(service: Service) -> None:
    receipt = service.post(zipped({"a.txt": b"a zeppelin over the harbour"}), session="words")
    for _ in range(60):  # a query waits two seconds for the index
        if service.get("/v1/artifacts", q="zeppelin", session="words")["items"]:
            break
    listed = service.get("/v1/artifacts", q="zeppelin", session="words")
    assert [item["id"] for item in listed["items"]] == [receipt["id"]]


def test_a_broken_archive_has_no_text_and_keeps_its_bytes(service: Service) -> None:
    payload = zipped(FILES)[:-40]
    artifact = service.post(payload, inline_tokens=0)["id"]
    response = service.client.get(f"/v1/artifacts/{artifact}/content", params={"view": "text"})
    assert (response.status_code, response.json()["code"]) == (422, "view_not_available")
    assert service.content(artifact) == payload


def test_xml_in_an_encoding_that_it_declares_is_read_as_its_text(service: Service) -> None:
    rows = "".join(f"<p>Корабль {n} вошёл в гавань, где целый год ждали.</p>\r\n" for n in range(300))
    text = f'<?xml version="1.0" encoding="windows-1251"?>\r\n<doc>\r\n{rows}</doc>\r\n'
    receipt = service.post(text.encode("windows-1251"), inline_tokens=0)
    artifact = receipt["id"]
    assert f"[{artifact} · text · 303 lines" in receipt["text"]
    assert "from CP1251" in receipt["text"].splitlines()[0]
    assert "<p>Корабль 0 вошёл в гавань, где целый год ждали.</p>" in receipt["text"]
    assert "<p>Корабль 150 вошёл" in read(service, artifact, pattern="Корабль 150 ")
    assert "<p>Корабль 200 вошёл" in read(service, artifact, offset=203, limit=1)
    assert service.content(artifact, "text").decode() == text
    assert service.content(artifact).decode("windows-1251") == text
