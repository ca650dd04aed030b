"""One spelling for one page, and two for two; dates only where they are certain."""

import pytest

from coatcheck.core.search.responses.values import iso, iso_of_number
from coatcheck_client.contract.canonical import canonical

SAME = {
    "https://example.org/a/b": [
        "http://EXAMPLE.org:80/a/b/",
        "https://example.org./a/b?utm_source=x&fbclid=1&gclid=2#top",
        "https://example.org:443/a/./c/../b#:~:text=x",
        "https://m.example.org/a/b",
        "https://amp.example.org/a/b/amp/",
        "https://example.org/a/b.amp.html",
        "https://example.org/a/b/index.html",
        "//example.org/%61/b?",
        "https://www.google.com/url?q=https%3A%2F%2Fexample.org%2Fa%2Fb&sa=U",
        "https://duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Fa%2Fb",
        "https://www.google.com/amp/s/example.org/a/b",
        "https://example-org.cdn.ampproject.org/c/s/example.org/a/b",
    ],
    "https://en.wikipedia.org/wiki/K%C3%B6ln": [
        "http://en.m.wikipedia.org/wiki/Köln",
        "https://en.wikipedia.org/wiki/K%c3%b6ln",
    ],
    "https://xn--bcher-kva.example/?a=1&b=2": ["https://bücher.example/?b=2&a=1"],
    "https://example.org/": ["https://example.org", "https://example.org/?", "https://example.org/#x"],
    "https://www.youtube.com/watch?v=x": ["https://m.www.youtube.com/watch?v=x&si=y&feature=share"],
    "https://example.org/#!/route": ["https://example.org/#!/route"],
    "https://example.org/s?q=a%26b&q=2": ["https://example.org/s?q=a%26b&q=2"],
    "ftp://example.org/x": ["ftp://example.org/x"],
    "https://[2001:db8::1]:8080/a": ["http://[2001:DB8::1]:8080/a/"],
    "https://[::1]/": ["https://[::1]:443/"],
}


@pytest.mark.parametrize(("url", "wanted"), [(url, wanted) for wanted, urls in SAME.items() for url in urls], ids=str)
def test_spellings_of_one_page_are_one(url: str, wanted: str) -> None:
    assert canonical(url) == wanted
    assert canonical(wanted) == wanted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://www.example.org/", "https://example.org/"),
        ("https://example.org/?id=1", "https://example.org/?id=2"),
        ("https://example.org/A", "https://example.org/a"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),
        ("https://example.org:8080/", "https://example.org/"),
        ("https://example.org/?q=a&q=b", "https://example.org/?q=b&q=a"),
    ],
    ids=["www", "id", "case of a path", "escaped slash", "port", "order within a name"],
)
def test_different_pages_stay_different(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "/path", "example.org/x", "http://", "http://[::1", "http://a:b/", "https://a b/"),
        *("https://\uff3b", "https://a\uff3bb/", "https://a\uff0fb/", "https://a\uff1fb/", "http:" + "/" * 9_000),
    ],
    ids=lambda t: t[:20],
)
def test_what_is_no_address_has_no_spelling(text: str) -> None:
    assert canonical(text) is None


DATES = {
    "2026-11-19": "2026-11-19",
    "2026/11/9": "2026-11-09",
    "2026-11-19T10:00:00.123Z": "2026-11-19T10:00:00Z",
    "2026-11-19 10:00:00 +08:00": "2026-11-19T10:00:00+08:00",
    "Thu, 19 Nov 2026 10:00:00 GMT": "2026-11-19T10:00:00Z",
    "Nov 19, 2026": "2026-11-19",
    "November 3rd, 2026": "2026-11-03",
    "19 novembre 2026": "2026-11-19",
    "3. März 2026": "2026-03-03",
    "2026年11月19日": "2026-11-19",
    "2026년 11월 19일": "2026-11-19",
    "19.11.2026": "2026-11-19",
    "11/19/2026": "2026-11-19",
    "19/11/2026": "2026-11-19",
    "05/05/2026": "2026-05-05",
}


@pytest.mark.parametrize("text", DATES)
def test_a_date_that_can_mean_one_day_is_read(text: str) -> None:
    assert iso(text) == DATES[text]


@pytest.mark.parametrize(
    "text",
    [
        "03/04/2026",
        "2 days ago",
        "yesterday",
        "2026",
        "Nov 2026",
        "2026-13-01",
        "31 Feb 2026",
        "",
        "19 Foo 2026",
        "x" * 500,
    ],
)
def test_a_date_that_can_mean_another_is_left_as_it_is(text: str) -> None:
    assert iso(text) is None


def test_moments_are_read_in_seconds_and_milliseconds() -> None:
    assert (iso_of_number(1795082400), iso_of_number(1795082400000)) == ("2026-11-19T10:00:00Z",) * 2
    assert [iso_of_number(number) for number in (0, 2026, -1, 1e30)] == [None] * 4
