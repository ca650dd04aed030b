"""How a page was fetched, found in what fetchers return with it, and not found in what only looks like that."""

import json
from typing import Any

import pytest

from coatcheck.core.artifact import DeclaredMetadata, PageFetch, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.metadata_bounds import is_redirected

TEXT = "# Growing leeks\n\n" + "\n\n".join(f"Bed {n} has sand and loam, in which leeks grow." for n in range(40))
ASKED = "https://example.org/leeks"
LED = "https://example.org/login?next=leeks"


def found(payload: object, url: str | None = None) -> PageFetch | None:
    data = (payload if isinstance(payload, str) else json.dumps(payload)).encode()
    return recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata(url=url)).fetch


def told(payload: object) -> dict[str, Any]:
    """What is found, without what is not known."""
    fetch = found(payload)
    assert fetch is not None
    return {name: getattr(fetch, name) for name in fetch.__struct_fields__ if getattr(fetch, name) is not None}


def scraped(**metadata: object) -> dict[str, Any]:
    """A scrape as Firecrawl answers it, with the members of any page's head among its own."""
    head = {f"og:property{n}": f"value {n}" for n in range(30)}
    return {"success": True, "data": {"markdown": TEXT, "metadata": {**head, "sourceURL": ASKED, **metadata}}}


READER: dict[str, Any] = {"title": "Leeks", "url": ASKED, "content": TEXT, "usage": {"tokens": 9}}
LABELS = f"Title: Leeks\n\nURL Source: {ASKED}\n\nPublished Time: Thu, 19 Nov 2026"
RAW = "Content type text/html; charset=utf-8 cannot be simplified to markdown, but here is the raw content:\n"
WARNED = "Target URL returned error 404: Not Found"
FETCHERS: dict[str, tuple[object, dict[str, Any]]] = {
    "firecrawl": (
        scraped(title="Leeks", url=LED, statusCode=403, contentType="text/html; charset=utf-8"),
        {
            "status": 403,
            "url": ASKED,
            "final_url": LED,
            "content_type": "text/html; charset=utf-8",
            "title": "Leeks",
        },
    ),
    "jina": ({"code": 200, "status": 20000, "data": READER}, {"url": ASKED, "title": "Leeks"}),
    "jina, warned": (
        {"code": 200, "status": 20000, "data": {**READER, "warning": WARNED}},
        {"status": 404, "url": ASKED, "title": "Leeks"},
    ),
    "jina, as text": (
        f"{LABELS}\n\nWarning: {WARNED}\n\nMarkdown Content:\n{TEXT}",
        {"status": 404, "url": ASKED, "title": "Leeks"},
    ),
    "jina, untitled": (
        f"Title: \n\nURL Source: {ASKED}\n\nMarkdown Content:\n{TEXT}",
        {"url": ASKED, "title": "Growing leeks"},
    ),
    "tavily": (
        {"results": [{"url": ASKED, "raw_content": TEXT, "images": []}], "failed_results": [], "response_time": 0.1},
        {"url": ASKED, "title": "Growing leeks"},
    ),
    "exa": (
        {
            "requestId": "e1",
            "results": [{"id": ASKED, "title": "Leeks", "url": ASKED, "author": "", "text": TEXT}],
            "statuses": [{"id": ASKED, "status": "success", "source": "cached"}],
            "costDollars": {"total": 0.001},
        },
        {"url": ASKED, "title": "Leeks"},
    ),
    "webfetch": (
        {"bytes": 9, "code": 404, "codeText": "Not Found", "result": "Nothing is here.", "durationMs": 5, "url": ASKED},
        {"status": 404, "url": ASKED},
    ),
    "mcp fetch": (f"Contents of {ASKED}:\n{TEXT}", {"url": ASKED, "title": "Growing leeks"}),
    "mcp fetch, failed": (
        f"Error executing tool fetch: Failed to fetch {ASKED} - status code 404",
        {"status": 404, "url": ASKED},
    ),
    "mcp fetch, raw": (
        f"{RAW}Contents of {ASKED}:\n<html><head><title>Leeks</title></head><body><p>Sand</p></body></html>",
        {"url": ASKED, "content_type": "text/html; charset=utf-8", "title": "Leeks"},
    ),
    "a name of its own": (
        [{"pageUrl": ASKED, "crawl": {"loadedUrl": LED, "httpStatusCode": "302"}, "body": TEXT}],
        {"status": 302, "url": ASKED, "final_url": LED, "title": "Growing leeks"},
    ),
    "front matter": (f"---\ntitle: 'Leeks'\nurl: {ASKED}\n---\n\n{TEXT}", {"url": ASKED, "title": "Leeks"}),
}


@pytest.mark.parametrize(("payload", "expected"), FETCHERS.values(), ids=FETCHERS)
def test_a_page_in_a_fetchers_answer_has_what_the_fetcher_says(payload: object, expected: dict[str, Any]) -> None:
    assert told(payload) == expected


NOT_PLAUSIBLE: dict[str, list[object]] = {
    "statusCode": [999, "200 OK", -1, 0, True, 404.0, "0404", None],
    "url": ["javascript:alert(1)", "data:text/html,x", "https://", "https://e.org/" + "a" * 20_000, "http://e.org/\nx"],
    "contentType": ["html", "text/html\r\nx: y", "text/" + "x" * 300],
    "title": ["a\nb", "a\x1b[31mb", "t" * 1_001, ["a", "b"], ""],
    "fetchedAt": ["yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", 1_700_000_000],
}
FIELDS = {"statusCode": "status", "url": "final_url", "contentType": "content_type", "fetchedAt": "fetched_at"}


@pytest.mark.parametrize("name", NOT_PLAUSIBLE)
def test_a_value_that_makes_no_sense_is_passed_over(name: str) -> None:
    for value in NOT_PLAUSIBLE[name]:
        fetch = found(scraped(**{"title": "Leeks", name: value}))
        assert fetch is not None
        assert fetch.url == ASKED
        if name == "title":
            assert fetch.title == "Growing leeks", value
        else:
            assert getattr(fetch, FIELDS[name]) is None, value


OTHERS: dict[str, object] = {
    "a problem": {"type": "about:blank", "title": "Not Found", "status": 404, "detail": TEXT},
    "an issue": {"url": ASKED, "title": "It fails", "user": {"url": LED, "bio": "x"}, "labels": ["a"], "body": "short"},
    "several pages": {"results": [{"url": ASKED, "raw_content": TEXT}, {"url": LED, "raw_content": TEXT}]},
    "two that are not in a list": {"before": {"url": ASKED, "text": TEXT}, "after": {"url": LED, "text": TEXT}},
    "a search": {"query": "leeks", "results": [{"url": ASKED, "title": "Leeks", "content": TEXT}]},
    "records": [{"url": ASKED, "statusCode": 200}, {"url": LED, "statusCode": 404}],
    "lines of records": "\n".join(json.dumps({"url": ASKED, "statusCode": 200 + n}) for n in range(9)),
    "a log": "\n".join(f"Failed to fetch {ASKED}?{n} - status code 404" for n in range(200)),
    "a download": f"Fetching {ASKED}\nFetched 12 kB in 3s\n",
    "a failure without a status": f"Failed to fetch {ASKED} - connection refused",
    "settings": "url: https://example.org/\nname: x\nstatus: 200\n",
    "prose": f"The text of {ASKED} is here: it is about leeks.\n{TEXT}",
}


@pytest.mark.parametrize("payload", OTHERS.values(), ids=OTHERS)
def test_nothing_is_told_of_what_is_not_one_fetched_page(payload: object) -> None:
    assert found(payload) is None


def test_the_address_that_was_declared_was_asked_for_and_that_of_the_payload_is_where_it_led() -> None:
    fetch = found({"code": 200, "result": TEXT, "url": LED}, url=ASKED)
    assert fetch is not None
    assert fetch.final_url == LED
    again = fetch.with_requested_url(LED)
    assert again.final_url is None
    assert again.with_requested_url(ASKED) == fetch


@pytest.mark.parametrize(
    ("url", "final_url", "redirected"),
    [
        (ASKED, LED, True),
        (ASKED, "https://www.example.org/leeks", True),
        ("http://example.org", "https://example.org/", False),
        (f"{ASKED}?utm_source=x", f"{ASKED}/", False),
        (ASKED, None, False),
        (None, LED, False),
    ],
)
def test_another_spelling_of_an_address_is_no_redirect(
    url: str | None, final_url: str | None, redirected: bool
) -> None:
    assert is_redirected(PageFetch(url=url, final_url=final_url)) is redirected
