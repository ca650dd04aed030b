"""What says the same is folded into what says it, and told; what a query names comes first."""

import random

import pytest

from coatcheck.core.passages import terms_of
from coatcheck.core.passages.scan import TermFinder
from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.fold import SAME_SHARE, EarlierSource, FoldedResult, fingerprint, same, similarity, unfold
from search.responses import ID, TOKENIZER, laid_out, sentences, tavily

RNG = random.Random(11)
TEXTS = [sentences(RNG, language, 1_500) for language in ("en", "zh", "de", "ar")]


def changed(text: str, share: float) -> str:
    """The text with some of its words gone."""
    rng = random.Random(5)
    pieces = text.split(" ") if " " in text else list(text)
    return (" " if " " in text else "").join(piece for piece in pieces if rng.random() >= share)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_a_text_with_few_changes_is_the_same_and_another_is_not(number: int) -> None:
    text, other = fingerprint(TEXTS[number]), fingerprint(TEXTS[number - 1])
    assert same(text, fingerprint(TEXTS[number].upper() + "  "))
    assert same(text, fingerprint(changed(TEXTS[number], 0.015)))
    assert similarity(text, fingerprint(changed(TEXTS[number], 0.2))) < SAME_SHARE
    assert not same(text, other)
    assert not same(b"", b"")


def test_short_texts_are_the_same_only_when_equal() -> None:
    assert same(fingerprint("one two three four five"), fingerprint("One, two three four five!"))
    assert not same(fingerprint("one two three four five"), fingerprint("one two three four six"))
    assert fingerprint("Sign in") == b""


def test_pages_and_texts_are_folded_into_the_first() -> None:
    laid = laid_out(
        tavily(
            ("A", "https://a.example/x", TEXTS[0]),
            ("A again", "http://a.example/x/?utm_source=y", "other words of the same page"),
            ("copy", "https://b.example/", TEXTS[0] + " One more."),
            ("B", "https://c.example/", TEXTS[2]),
        )
    )
    left = unfold(laid)
    assert left.indices == (0, 3)
    assert left.folds == (FoldedResult("r2", "r1", "url"), FoldedResult("r3", "r1", "text"))
    text = budget_search(laid, TOKENIZER, artifact_id=ID).text
    assert "Not shown twice: r2 is r1 (same page); r3 is r1 (same text)" in text


def test_the_first_of_a_page_gives_way_to_one_with_a_text() -> None:
    laid = laid_out(
        tavily(
            ("A", "https://a.example/", ""), ("A", "https://a.example/#x", TEXTS[0]), ("A", "https://a.example", "z")
        )
    )
    assert unfold(laid).indices == (1,)
    assert unfold(laid).folds == (FoldedResult("r1", "r2", "url"), FoldedResult("r3", "r2", "url"))


def test_an_earlier_source_is_named_instead_and_its_other_passages_are_news() -> None:
    laid = laid_out(tavily(("A", "https://a.example/", TEXTS[0]), ("B", "https://b.example/", TEXTS[1])))
    known = EarlierSource("art_1#r1", "https://a.example/", fingerprint(TEXTS[0]))
    other = EarlierSource("art_1#r2", "https://a.example/", fingerprint(TEXTS[2]))
    elsewhere = EarlierSource("art_1#r3", "https://z.example/", fingerprint(TEXTS[1]))
    assert unfold(laid, (known,)).folds == (FoldedResult("r1", "art_1#r1", "url"),)
    assert unfold(laid, (elsewhere,)).folds == (FoldedResult("r2", "art_1#r3", "text"),)
    assert unfold(laid, (other,)).folds == ()
    assert unfold(laid, (other,)).also == {0: "art_1#r2"}
    assert unfold(laid, (EarlierSource("art_1#r4", "https://a.example/"),)).indices == (1,)
    made = budget_search(laid, TOKENIZER, artifact_id=ID, earlier=(known, elsewhere))
    assert (made.shown_results, made.counts.folded) == ((), 2)
    assert "r1 is already stored as art_1#r1 (same page)" in made.text


def test_a_result_without_an_address_is_not_cited_as_a_page_without_one() -> None:
    laid = laid_out({"query": "copper", "results": [{"title": "A", "content": "A copper bridge. " * 9}]})
    page = EarlierSource("art_2", None, fingerprint("Trains leave the station every hour. " * 9))
    known = EarlierSource("art_1#r1", "https://b.example/", fingerprint(laid.bodies[0].text), "granite")
    finder = TermFinder(terms_of("copper").terms)
    assert unfold(laid, (page, known), query="copper", finder=finder).also == {0: "art_1#r1"}


def test_only_a_query_that_asks_for_the_same_finds_nothing_new_in_a_known_text() -> None:
    laid = laid_out(tavily(("A", "https://a.example/", "A copper bridge. " * 9), ("B", "https://b.example/", "Short.")))
    known = EarlierSource("art_1#r1", "https://a.example/", fingerprint(laid.bodies[0].text), "Granite  mill")

    def folds(query: str) -> tuple[int, list[str]]:
        made = budget_search(laid, TOKENIZER, query=query, artifact_id=ID, earlier=(known,))
        return made.counts.folded, [each.section for each in made.earlier_results]

    assert folds("granite mill") == (1, ["r1"])
    assert folds("zeppelin") == (1, ["r1"])
    assert folds("copper") == (0, [])
    made = budget_search(laid, TOKENIZER, query="zeppelin", artifact_id=ID, earlier=(known,))
    assert "\nr1 A | https://a.example/\n  A copper bridge." in made.text


def order(query: str, *items: tuple[str, str, str]) -> list[str]:
    made = budget_search(laid_out(tavily(*items)), TOKENIZER, query=query, artifact_id=ID)
    return [each.section for each in (*made.shown_results, *made.title_results)]


ITEMS = (
    ("Copper", "https://a.example/", "All about copper pans."),
    ("Granite", "https://b.example/", "The granite bridge of the North is old."),
    ("Empty copper bridge", "https://c.example/", ""),
    ("Copper bridge", "https://docs.c.example/x", "A copper roof on a bridge, far north of here."),
)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", ["r1", "r2", "r4", "r3"]),
        ("copper", ["r1", "r4", "r2", "r3"]),
        ("zeppelin", ["r1", "r2", "r4", "r3"]),
        ("bridge site:c.example", ["r4", "r3", "r2", "r1"]),
        ('"granite bridge" copper', ["r2", "r1", "r4", "r3"]),
    ],
)
def test_rank_decides_unless_the_query_says_otherwise(query: str, wanted: list[str]) -> None:
    assert order(query, *ITEMS) == wanted
