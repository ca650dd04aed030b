"""Recognising payloads: the right kind, what they say of themselves, and no content that upsets it."""

import json

import pytest

from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind, Marker
from coatcheck.core.kinds import recognise
from coatcheck.core.media import identify
from coatcheck.core.structure import read_json
from core.sample_payloads import HOSTILE, ORDINARY, PAGE, sample_of

EVERYTHING = {**ORDINARY, **HOSTILE}


def facts_of(data: bytes, said: DeclaredMetadata | None = None) -> DetectedMetadata:
    return recognise(sample_of(data), said or DeclaredMetadata())


KINDS = {
    "log": Kind.LOG,
    "output": Kind.COMMAND_OUTPUT,
    "page": Kind.WEB_PAGE,
    "json": Kind.JSON,
    "pretty json": Kind.JSON,
    "ndjson": Kind.JSON,
    "results": Kind.SEARCH_RESULTS,
    "csv": Kind.TABLE,
    "diff": Kind.DIFF,
    "code": Kind.CODE_OR_FILE,
    "chinese": Kind.TEXT,
    "png": Kind.IMAGE,
    "zip": Kind.BINARY,
    "empty": Kind.TEXT,
    "bom": Kind.JSON,
    "all invalid": Kind.BINARY,
    "attributes": Kind.WEB_PAGE,
}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_told_by_its_bytes(name: str) -> None:
    assert facts_of(*EVERYTHING[name]).kind is KINDS[name]


def test_the_callers_word_wins() -> None:
    for kind in Kind:
        assert facts_of(PAGE, DeclaredMetadata(kind=kind, media_type="text/html")).kind is kind


def test_mentioning_a_url_or_an_error_makes_neither_a_page_nor_a_log() -> None:
    assert facts_of(b"See https://example.org for the error that failed.\n" * 50).kind is Kind.TEXT


def test_a_log_whose_lines_begin_with_brackets_is_no_json() -> None:
    assert facts_of(b"[12:30:01] started\n[12:30:02] done\n" * 40).kind is Kind.LOG
    assert facts_of(b"[taskcluster 2026-01-01T10:00:00Z] Worker\n" * 20_000).kind is Kind.LOG


def test_a_file_shown_with_line_numbers_is_a_file() -> None:
    data = b"[File: /a/b.py (300 lines total)]\n" + b"".join(b"%d:  x = %d\n" % (n, n) for n in range(100, 200))
    assert facts_of(data, DeclaredMetadata(tool_name="bash")).kind is Kind.CODE_OR_FILE


MARKERS = {
    "[exit 2]": "exit_code",
    "exit code: 1": "exit_code",
    "Exited with code 137": "exit_code",
    "Process exited with code 0": "exit_code",
    "npm ERR! command failed with exit code 1.": "exit_code",
    "Exit Code: -1": "exit_code",
    "Finished: FAILURE": "exit_code",
    "Wall time: 3.2 seconds": "wall_time",
    "real\t0m3.204s": "wall_time",
    "Original token count: 92,511": "original_token_count",
    "Total output lines: 4812": "original_lines",
    "[... 1200 lines omitted ...]": "truncated",
    "... [truncated]": "truncated",
    "(422 more lines below)": "truncated",
}


@pytest.mark.parametrize("line", MARKERS)
def test_what_a_payload_says_of_itself_is_kept_verbatim(line: str) -> None:
    data = b"some output\n" * 2000 + line.encode() + b"\n"
    assert facts_of(data, DeclaredMetadata(tool_name="bash")).markers == (Marker(MARKERS[line], line),)


@pytest.mark.parametrize(
    "line",
    [
        "make: *** [all] Error 2",
        "the process may exit with code 3 if it fails",
        "sys.exit(code)",
        "failed to truncate table",
    ],
)
def test_a_line_about_something_else_is_no_marker(line: str) -> None:
    assert facts_of(f"output\n{line}\nmore\n".encode(), DeclaredMetadata(tool_name="bash")).markers == ()


def test_a_page_names_itself() -> None:
    facts = facts_of(PAGE, DeclaredMetadata(media_type="text/html", url="https://example.org/a?utm=1"))
    assert (facts.title, facts.url, facts.language) == ("Ships & harbours", "https://example.org/ships", "en")
    assert facts.shape == ()  # its text says more than its description


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("<strong>socat</strong>", "socat"),
        ("&lt;b&gt;Salt &amp;amp; wind&lt;/b&gt;", "Salt &amp; wind"),
        ('<i class="a"><b>n</b></i> of 3', "n of 3"),
        ("The &lt;b&gt; tag", "The <b> tag"),
        ("a < b > c", "a < b > c"),
    ],
)
def test_tags_around_words_are_no_part_of_a_title(written: str, title: str) -> None:
    data = f"<html><head><title>{written}</title></head><body><p>Text.</p></body></html>".encode()
    assert recognise(sample_of(data), DeclaredMetadata()).title == title


def test_a_page_made_of_scripts_is_described_by_what_it_says_of_itself() -> None:
    head = b'<html><head><title>App</title><meta name="description" content="About ships.">'
    head += b'<meta property="article:published_time" content="2026-01-02T03:04:05Z"></head>'
    facts = facts_of(head + b"<body><script>go()</script></body></html>", DeclaredMetadata(media_type="text/html"))
    assert facts.shape == ("Published: 2026-01-02", "Description: About ships.")


KEYS = {
    '{"a": 1, "b": "x", "c": [1, 2], "d": {"e": null, "f": 1.5}}': (
        'a=1, b="x", d.e=null, d.f=1.5',
        "$: a, b, c[2], d",
        "$.d: e, f",
    ),
    '[[1, 2], ["x"]]': ("$: 2 elements",),
    '[{"u": {"id": 1, "n": "x"}, "v": {"id": 2, "n": "y"}}]': ("$: 1 element", "$[*]: u, v", "$[*].u: id, n"),
    '{"a b": [{"c": 1}, {"d": true}]}': ('$: "a b"[2]', "$['a b'][*]: c, d"),
    '[[{"a": 1}], [{"a": 2}, {"a": 3}]]': ("$: 2 elements", "$[*][*]: a"),
    '{"a": [], "b": [[]]}': ("$: a, b",),
    '[{"a": 1}, 2]': ("$: 2 elements", "$[*]: a"),
    "{}": (),
}


@pytest.mark.parametrize("text", KEYS)
def test_json_is_told_by_its_short_values_and_every_key_once(text: str) -> None:
    assert facts_of(text.encode(), DeclaredMetadata(media_type="application/json")).shape == KEYS[text]


def test_a_map_of_many_alike_values_is_not_listed_key_by_key() -> None:
    data = json.dumps({f"k{n}": {"id": n} for n in range(500)}).encode()
    assert facts_of(data).shape == ("$: 500 keys such as k0, k1, k2", "$.*: id")


def test_what_failed_is_told_wherever_it_stands_in_a_document() -> None:
    data = json.dumps({"data": [{"n": n} for n in range(9_000)], "status": "failed", "error": {"code": 7}}).encode()
    assert facts_of(data).shape[0] == 'status="failed", error.code=7'


def test_a_document_too_large_to_read_whole_is_described_from_its_start() -> None:
    data = json.dumps([{"id": n, "text": "x" * 200} for n in range(10_000)]).encode()
    assert facts_of(data).shape == ("Keys of its beginning only:", "$[*]: id, text")


@pytest.mark.parametrize("size", [70_000, 150_000, 250_000])
def test_json_lines_of_any_length_are_described_as_lines(size: int) -> None:
    line = json.dumps({"id": 1, "text": "x" * size}).encode()
    assert facts_of(b"\n".join([line, line])).shape[0] == "JSON lines; keys of all 2:"
    assert facts_of(line + b"\nnot JSON").shape[0] == "Not well-formed JSON; keys as far as it can be read:"


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"{", b"[", b'{"a', b"[" * 100_000, b'{"a":' * 50_000, b'{"a":NaN}', b"[1,]", b'["\xff"]', b"{}{}"],
)
def test_broken_json_raises_nothing(data: bytes) -> None:
    for whole in (True, False):
        reading = read_json(data, whole=whole)
        assert reading is None or not reading.complete or data == b'["\xff"]'


@pytest.mark.parametrize(
    "data", [b"", b"MZ is a text", b"BM and then words, many words in a row", b"ID3 tags are metadata", b"plain"]
)
def test_text_that_begins_like_a_format_is_text(data: bytes) -> None:
    assert identify(data) is None


@pytest.mark.parametrize("name", EVERYTHING)
def test_facts_are_bounded_whatever_the_payload(name: str) -> None:
    facts = facts_of(*EVERYTHING[name])
    assert sum(map(len, facts.shape)) <= 60_000
    assert len(facts.markers) <= 8
    assert len(facts.title or "") <= 300
