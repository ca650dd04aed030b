"""What a check says of URLs, quotations and artifact IDs in a model's answer, beside a running service and without."""

import json
import time
from collections.abc import Iterator

import pytest

from client.servers import answering, refusal
from coatcheck_client import Client, Retries
from coatcheck_client.citations import AnswerReport, check_answer
from coatcheck_client.testing import assert_cited
from support.service import Service

TIDES = "The Moon draws the sea number {} twice a day, said the keeper of lighthouse {}."
SEARCH = {
    "query": "how do tides form",
    "results": [
        {
            "title": f"Tides {n}",
            "url": f"https://example.org/tides{n}?utm_source=x&a=1",
            "content": TIDES.format(n, n * 7),
        }
        for n in range(1, 7)
    ],
}
BRIDGES = "".join(
    f"## Part {n}\n\n" + f"Bridge {n} stands on {n * 7} pillars of old stone.\n" * 9 for n in range(1, 90)
)
HIDDEN = "Bridge 44 stands on 308 pillars of old stone."
"""In the middle of BRIDGES, which no card shows."""
INVENTED = "\u201cNobody ever crossed that bridge alone\u201d"


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url, session="citations") as opened:
        yield opened


def shown(client: Client) -> tuple[list[str], str, str]:
    """What a model read of a search and a page, and their IDs."""
    found, page = client.search_results(SEARCH), client.put(BRIDGES, url="https://example.org/bridges", card_tokens=200)
    assert HIDDEN not in page.text
    return [found.text, page.text], found.id, page.id


def verdicts(report: AnswerReport) -> list[tuple[str, str, str | None]]:
    return [(each.kind, each.verdict, each.where) for each in report.citations]


def only(report: AnswerReport) -> tuple[str, str]:
    assert len(report.citations) == 1, report
    return report.citations[0].text, report.citations[0].verdict


def test_each_url_quotation_and_id_has_its_line_and_where_it_stands(client: Client) -> None:
    sources, search, page = shown(client)
    answer = (
        f"Tides: \u201c{TIDES.format(1, 7)}\u201d [{search}#r1], https://example.org/tides1?utm_source=x&a=1.\n\n"
        f"> {HIDDEN}\n> \u2014 {page}\n\n"
        "[Other](https://example.org/tides2/?a=1), https://example.org/tides9, "
        f"{INVENTED}, {search}#r9, art_{'1' * 18}."
    )
    report = client.check_answer(answer, sources)
    assert [(each.line, *key) for each, key in zip(report.citations, verdicts(report), strict=True)] == [
        (1, "quotation", "supported", f"{search}#r1"),
        (1, "artifact", "supported", "source 1, line 1"),
        (1, "URL", "supported", "source 1, line 2"),
        (3, "quotation", "supported", f"{page}#s44"),
        (4, "artifact", "supported", "source 2, line 1"),
        (6, "URL", "inexact", "source 1, line 4"),
        (6, "URL", "unsupported", None),
        (6, "quotation", "unsupported", None),
        (6, "artifact", "unsupported", None),
        (6, "artifact", "unsupported", None),
    ]
    assert (
        report.describe("unsupported", limit=1)
        == "line 6: URL 'https://example.org/tides9' stands in no source\nand 3 more"
    )


def test_a_quotation_outside_the_section_that_is_cited_beside_it_is_inexact(client: Client) -> None:
    sources, search, page = shown(client)
    for quote, cited, stands in ((TIDES.format(2, 14), f"{search}#r1", "r2"), (HIDDEN, f"{page}#s3", "s44")):
        checked = client.check_answer(f"\u201c{quote}\u201d ({cited})", sources).citations[0]
        assert (checked.verdict, checked.where) == ("inexact", f"{cited.partition('#')[0]}#{stands}")
        assert checked.detail.endswith(f"not in {cited}, which is cited")


def test_the_citation_beside_a_quotation_is_the_one_in_its_sentence(client: Client) -> None:
    sources, search, _ = shown(client)
    one, two = TIDES.format(1, 7), TIDES.format(2, 14)
    answers = (
        f"\u201c{one}\u201d [{search}#r1]. \u201c{two}\u201d [{search}#r2].",
        f"{search}#r1 says \u201c{one}\u201d. {search}#r2 says \u201c{two}\u201d.",
        f"\u201c{one}\u201d [{search}#r1]. \u201c{two}\u201d has no citation.",
        f"> {one}\n\n({search}#r1)\n\n> {two}\n\n({search}#r2)",
    )
    for answer in answers:
        assert {each.verdict for each in client.check_answer(answer, sources).citations} == {"supported"}, answer


def test_changed_words_are_inexact_and_typesetting_does_not_count(client: Client) -> None:
    sources, _, page = shown(client)
    same = (
        "\u201cThe Moon **draws** the sea number 1\u00a0twice a day \u2026 of [lighthouse](https://a.example) 7,\u201d"
    )
    assert client.check_answer(same, sources).citations[0].verdict == "supported"
    assert check_answer(same, ["x", TIDES.format(1, 7)]).citations[0].where == "source 2, line 1"
    changed = client.check_answer("\u201cBridge 44 stands on 308 pillars of young stone.\u201d", sources).citations[0]
    assert (changed.verdict, changed.where) == ("inexact", f"{page}#s44")
    assert HIDDEN[:-1] in changed.detail
    assert (
        only(check_answer("\u201cThe Moon pulls the sea number 1 twice a day\u201d", [TIDES.format(1, 7)]))[1]
        == "inexact"
    )


@pytest.mark.parametrize(
    "marks",
    [
        "\u201c{}\u201d",
        '"{}"',
        "\u201e{}\u201c",
        "\u00ab{}\u00bb",
        "\u00bb{}\u00ab",
        "\u2039{}\u203a",
        "\u300c{}\u300d",
        "\uff02{}\uff02",
        "\u301d{}\u301f",
        "\u2018{}\u2019",
        "'{}'",
        "\u201d{}\u201d",
        "\u201a{}\u2018",
        "> {}",
        "  > > {}",
        "He said: \u201c{},\u201d and left",
    ],
)
def test_quotation_marks_of_all_languages_quote(marks: str) -> None:
    words = "that isn't what anybody's keeper saw"
    assert only(check_answer(f"So it is.\n\n{marks.format(words)}", [f"{words} ."]))[1] == "supported"
    assert only(check_answer(f"So it is.\n\n{marks.format(words)}", ["else"]))[1] == "unsupported"


@pytest.mark.parametrize(
    "answer",
    [
        '```\nprint("one two three four five six")\n```',
        'run `say "one two three four five six"` now',
        '{"claim": "one two three four five six seven"}',
        "the so-called \u201cdark web\u201d",
        "A 5\" pipe and the dogs' bowls of the boys' school, twelve or more, are 6\" long",
        "> See https://example.org/one/two/three/four/five\n",
        'A mark " that opens in one paragraph\n\nand closes in the next " is two marks',
    ],
)
def test_code_and_what_is_short_or_no_quotation_is_none(answer: str) -> None:
    assert [each for each in check_answer(answer, []).citations if each.kind == "quotation"] == []


def test_addresses_are_taken_out_of_the_text_around_them() -> None:
    sources = [
        json.dumps(
            {"a": "https://en.wikipedia.org/wiki/Sea_(tide)", "b": ["see \u201cthe sea is wide\nand deep\u201d"]}
        ).replace("/", "\\/"),
        '<a href="https://example.org/q?a=1&amp;b=2">x</a> http://[::1]:80/x https://example.org/k\u00e4se',
    ]
    good = (
        "([x](https://en.wikipedia.org/wiki/Sea_(tide))), **https://example.org/q?a=1&b=2**; <http://[::1]:80/x>, "
        "\u89c1https://example.org/k\u00e4se\u3002 https://example.org/q?a=1&b=2\u7684\u5185\u5bb9 "
        "\u201cthe sea is wide and deep\u201d"
    )
    assert {each.verdict for each in check_answer(good, sources).citations} == {"supported"}
    assert len(check_answer(good, sources).citations) == 6
    other = "www.example.org/q?b=2&a=1&utm_source=me http://m.example.org/q/?a=1&b=2#top"
    assert [each.verdict for each in check_answer(other, sources).citations] == ["unsupported", "inexact"]


@pytest.mark.parametrize("how", ["away", "refusing", "other"])
def test_without_the_service_what_only_it_can_know_is_unchecked(client: Client, how: str) -> None:
    sources, search, _ = shown(client)
    answer = (
        f"\u201c{TIDES.format(1, 7)}\u201d \u201c{HIDDEN}\u201d {INVENTED} {search}#r9 https://nowhere.example.org/"
    )
    body = refusal("storage_unavailable") if how == "refusing" else b'{"results": []}'
    with answering(503 if how == "refusing" else 200, body) as server:
        url = "http://127.0.0.1:1" if how == "away" else server.url
        with Client(url, retries=Retries(attempts=1)) as failing:
            report = failing.check_answer(answer, sources)
    assert [each.verdict for each in report.citations] == ["supported", *["unchecked"] * 3, "unsupported"]
    assert [each.verdict for each in check_answer(answer, sources).citations] == [e.verdict for e in report.citations]


def test_an_artifact_that_is_gone_leaves_its_quotations_unchecked(client: Client) -> None:
    sources, _, page = shown(client)
    client.delete(page)
    assert only(client.check_answer(INVENTED, sources))[1] == "unchecked"
    client.put(BRIDGES, url="https://example.org/bridges", card_tokens=200)


@pytest.mark.parametrize(
    "answer",
    [
        '"' * 1_000_000,
        "\u201c\"'\u2018\u201e\u00ab" * 170_000,
        "'a " * 330_000,
        "\u201c" + "[(" * 500_000 + "\u201d",
        "".join("`" * n + "\n" for n in range(1_400, 0, -1)),
        "> one two three four five six seven\n\n" * 27_000,
        "".join(f"https://h{n}.example.org/a(b)c) " for n in range(10_000)),
        "https://a.example.org/" + ")" * 1_000_000,
        "".join(f"\u201cone two{n} three four{n} five six\u201d " for n in range(30_000)),
        "".join(f"art_{n:018d}#r{n} " for n in range(30_000)),
    ],
    ids=["marks", "mixed", "apostrophes", "brackets", "fences", "blocks", "urls", "ends", "quotations", "ids"],
)
def test_a_hostile_answer_is_checked_in_bounded_time(client: Client, answer: str) -> None:
    sources, *_ = shown(client)
    start = time.monotonic()
    report = client.check_answer(answer, sources, deadline=6)
    assert time.monotonic() - start < 20  # a second, on a machine that does nothing else
    assert not report.of("supported", "inexact")
    assert len(report.describe("unsupported", "unchecked", limit=20)) < 20 * 600


def test_an_assertion_names_each_citation_without_a_source(client: Client) -> None:
    sources, search, _ = shown(client)
    assert_cited(f"\u201c{HIDDEN}\u201d https://example.org/tides2/?a=1", sources, client)
    with pytest.raises(AssertionError) as failed:
        assert_cited(f"First,\n{INVENTED}\nhttps://example.org/tides9 {search}#r77", sources, client)
    assert str(failed.value).splitlines()[1:] == [
        f"line 2: quotation {INVENTED[1:-1]!r} stands in no source",
        "line 3: URL 'https://example.org/tides9' stands in no source",
        f"line 3: artifact '{search}#r77' stands in no source",
    ]
    with pytest.raises(AssertionError, match=r"is the page https://example\.org/tides2"):
        assert_cited("https://example.org/tides2/?a=1", sources, client, exact=True)
    with pytest.raises(AssertionError, match="was not checked: no service was asked"):
        assert_cited(INVENTED, sources)
