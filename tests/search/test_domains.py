"""Sites that a search's results may come from."""

import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.budget_model import Budgeted
from coatcheck.core.search.fold import Domains
from coatcheck.core.search.model import host_of
from coatcheck.core.search.summary import summarise
from search.responses import laid_out

TOKENIZER = load_tokenizer()
PAGES = {
    "https://docs.example.org/a": "Tides form because the Moon draws the sea towards it twice a day. ",
    "https://www.notexample.org/b": "The height of tides differs between bays and open coasts of the sea. ",
    "https://shop.example.com:8443/c": "A tide table for sale, with the tides of every harbour of the coast. ",
    "https://xn--bcher-kva.example/d": "Books about tides and the sea, from the Moon to the harbour wall. ",
}


def budgeted(allowed: tuple[str, ...] = (), excluded: tuple[str, ...] = (), *, twin: bool = False) -> Budgeted:
    results = [{"title": f"T{n}", "url": url, "content": text * 3} for n, (url, text) in enumerate(PAGES.items())]
    if twin:
        results.insert(0, {"title": "Copy", "url": "https://copies.example/x", "content": results[0]["content"]})
    answer = {"query": "tides", "results": results, "answer": "Tides come from the Moon."}
    laid = laid_out(answer)
    return budget_search(
        laid, TOKENIZER, query="tides", artifact_id="art_372686936359232394", domains=Domains(allowed, excluded)
    )


def urls(made: Budgeted) -> set[str]:
    return {each.result.url or "" for each in (*made.shown_results, *made.title_results)}


@pytest.mark.parametrize(
    ("allowed", "excluded", "left"),
    [
        (("example.org",), (), {0}),
        (("*.Example.ORG.",), (), {0}),
        (("www.notexample.org", "example.com"), (), {1, 2}),
        (("bücher.example",), (), {3}),
        (("org", "com"), ("docs.example.org",), {1, 2}),
        ((), ("example.org", "example.com"), {1, 3}),
        (("example.org",), ("example.org",), set[int]()),
        ((), (), {0, 1, 2, 3}),
    ],
)
def test_only_results_of_the_given_domains_are_shown_or_listed(
    allowed: tuple[str, ...], excluded: tuple[str, ...], left: set[int]
) -> None:
    made = budgeted(allowed, excluded)
    assert urls(made) == {list(PAGES)[n] for n in left}
    assert made.counts.excluded == len(PAGES) - len(left)
    assert all(url not in made.text for n, url in enumerate(PAGES) if n not in left)
    assert ("of sites that the request excludes" in made.text) is (len(left) < len(PAGES))


def test_a_result_that_is_left_out_does_not_hide_its_copy() -> None:
    assert budgeted(twin=True).counts.folded == 1
    made = budgeted(excluded=("copies.example",), twin=True)
    assert (made.counts.folded, made.counts.excluded) == (0, 1)
    assert next(iter(PAGES)) in urls(made)
    assert {each.section for each in (*made.shown_results, *made.title_results)} == {"r2", "r3", "r4", "r5"}


def test_a_panel_of_an_excluded_site_goes_and_the_providers_own_answer_stays() -> None:
    response = {
        "organic": [{"title": "T", "link": "https://a.example/", "snippet": "tides of the sea"}],
        "answerBox": {"title": "Tides", "answer": "The Moon.", "link": "https://bad.example/t"},
    }
    laid = laid_out(response)
    assert [each.url for each in laid.response.answers] == ["https://bad.example/t"]
    cleaned = Domains((), ("bad.example",)).within(laid)
    made = budget_search(cleaned, TOKENIZER, query="tides", artifact_id="art_372686936359232394")
    summary = summarise(made, cleaned, TOKENIZER, tool="web_search")
    assert "bad.example" not in made.text + summary.text
    assert summary.answers == ()


@pytest.mark.parametrize(
    "name", ["https://example.org", "example.org/path", "a b", "", ".", "*", "a..b", "x" * 300, "é" * 300]
)
def test_what_is_no_domain_is_refused_by_the_field_that_has_it(name: str) -> None:
    with pytest.raises(CoatcheckError) as refused:
        Domains((), (name,))
    assert refused.value.code is Code.INVALID_REQUEST
    assert refused.value.extra["parameter"] == "excluded_domains"


@pytest.mark.parametrize(
    "url",
    [
        r"https://bad.example\@good.example/",
        r"https://bad.example:80\.good.example/",
        r"https:\\bad.example/",
        "https:/bad.example/",
        "https:///bad.example/",
        "HTTP:bad.example",
        "//bad.example/",
        "bad.example/page",
        "bad.example:80/page",
        "https://good.example@bad.example/",
        "https://b%61d%2eexample/",
        "https://\uff42ad\u3002example\u3002/",
        "https://b\u00adad.example./",
        "https://ü..bad.example/",
        f"https://{'ü' * 64}.bad.example/",
        "https://%ff.bad.example/",
    ],
)
def test_a_site_is_the_one_that_a_browser_opens(url: str) -> None:
    assert not Domains((), ("bad.example",)).let(url)
    assert not Domains(("good.example",)).let(url)
    assert Domains().let(url)


@pytest.mark.parametrize(
    "url", ["/bad.example", "file:///bad.example", "urn:bad.example", "mailto:x@bad.example", None]
)
def test_what_has_no_host_is_of_no_site(url: str | None) -> None:
    assert host_of(url) == ""
    assert Domains((), ("bad.example",)).let(url)
    assert not Domains(("bad.example",)).let(url)


def test_an_address_that_cannot_be_read_has_no_host() -> None:
    assert [host_of(url) for url in ("https://[::1", None, "https://WWW.a.example.:80/x")] == ["", "", "www.a.example"]
