"""What is kept of a search: verbatim sentences with citations, sources, and quotations that can be checked."""

# ruff: noqa: RUF001 - other scripts and typography are the subject

import pytest

from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.responses.markup import action_line
from coatcheck.core.search.summary import summarise
from coatcheck.core.views.window import Extent
from coatcheck_client.contract.quotations import Difference, verify
from search.responses import ID, TOKENIZER, laid_out, tavily

BRIDGE = "The copper bridge was opened in 1904. It is 240 metres long and carries two tracks. Nobody knows who drew it."
ROOF = "- Copper roofs turn green after about twenty years in the rain.\n- Slate does not."


def test_a_summary_is_sentences_with_their_sources() -> None:
    laid = laid_out(
        tavily(
            ("Bridge", "https://a.example/", BRIDGE),
            ("Roof", "https://b.example/", ROOF),
            ("C", "https://c.example/", "Nothing to do with it at all, really."),
            ("D", "https://d.example/", "Copper."),
            query="copper bridge",
        )
    )
    summary = summarise(budget_search(laid, TOKENIZER, artifact_id=ID), laid, TOKENIZER)
    assert summary.text.split("\n") == [
        "¦ searched 'copper bridge': 4 results, 3 read",
        f"- The copper bridge was opened in 1904. It is 240 metres long and carries two tracks. [{ID}#r1]",
        f"- Copper roofs turn green after about twenty years in the rain. [{ID}#r2]",
        f"{'¦'} sources",
        f"{ID}#r1 Bridge | https://a.example/",
        f"{ID}#r2 Roof | https://b.example/",
        f"{ID}#r4 D | https://d.example/",
        f"{ID}#r3 C | https://c.example/ (title only)",
    ]
    assert [(source.source, source.note) for source in summary.citations] == [
        (f"{ID}#r1", ""),
        (f"{ID}#r2", ""),
        (f"{ID}#r4", ""),
        (f"{ID}#r3", "title only"),
    ]
    assert [laid.bodies[0].text[p.chars.start : p.chars.end] for p in summary.summary[:1]] == [summary.summary[0].text]
    assert summary.token_estimate == TOKENIZER.count(summary.text)


def test_sources_are_given_up_before_sentences() -> None:
    laid = laid_out(
        tavily(
            *((f"Title {n}", f"https://a.example/{n}", BRIDGE.replace("1904", str(1900 + n))) for n in range(8)),
            query="copper",
        )
    )
    made = budget_search(laid, TOKENIZER, artifact_id=ID)
    summary = summarise(made, laid, TOKENIZER, max_tokens=120)
    assert summary.summary
    assert len(summary.citations) < len(made.shown_results) + len(made.title_results)
    assert summary.token_estimate <= 120


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"query": "x"}, "searched 'x'"),
        ({"query": "x", "queries": ("x", "y", "z", "w")}, "searched 'x', 'y', 'z' and 1 more"),
        ({"url": "https://a.example/"}, "opened https://a.example/"),
        ({"url": "https://a.example/", "pattern": "y"}, "'y' in https://a.example/"),
        ({}, "searched the web"),
    ],
    ids=["search", "several", "page", "find", "nothing"],
)
def test_actions_are_told_as_hosts_tell_them(asked: dict[str, str], line: str) -> None:
    assert action_line(**asked) == line  # pyright: ignore[reportArgumentType]


SOURCE = (
    "The quick brown fox — it’s said — jumps over the “lazy” dog.\nIt cost 3,400 euros in 2024. Ｆｕｌｌ width ﬁne. "
    "昨天数据库连接失败了。原因是网络。"
)


@pytest.mark.parametrize(
    ("quote", "verdict", "stands"),
    [
        ("brown fox — it’s said", "exact", "brown fox — it’s said"),
        ('jumps over the "lazy" dog', "normalised", "jumps over the “lazy” dog"),
        ("it's said - jumps", "normalised", "it’s said — jumps"),
        ("“quick  brown\nfox”", "normalised", "quick brown fox"),
        ('the "lazy" dog. It cost', "normalised", "the “lazy” dog.\nIt cost"),
        ("The quick … jumps over", "normalised", "The quick brown fox — it’s said — jumps over"),
        ("Full width fine.", "normalised", "Ｆｕｌｌ width ﬁne"),
        ("数据库连接失败了", "exact", "数据库连接失败了"),
        ("It cost 3,900 euros in 2024", "fuzzy", "It cost 3,400 euros in 2024"),
        ("昨天数据库没有连接失败了", "fuzzy", "昨天数据库连接失败了"),
        ("jumps … The quick", "absent", ""),
        ("the moon is made of green cheese", "absent", ""),
        ("", "absent", ""),
        ("…", "absent", ""),
        ("x" * 5_000, "absent", ""),
    ],
)
def test_a_quotation_is_found_as_it_stands(quote: str, verdict: str, stands: str) -> None:
    found = verify(quote, SOURCE)
    assert (found.verdict, found.text) == (verdict, stands)
    if found.at is not None:
        assert SOURCE[found.at.start : found.at.end] == stands


def test_what_differs_is_told() -> None:
    found = verify("It cost about 3,900 euros in 2024", SOURCE)
    assert found.differences == (Difference("about", ""), Difference("900", "400"))
    assert 0.7 <= found.ratio < 1


def test_a_quotation_elsewhere_than_cited_is_moved() -> None:
    assert verify("brown fox", SOURCE, Extent(0, 25)).moved is False
    assert verify("brown fox", SOURCE, Extent(30, 60)).moved is True
    assert verify("brown fox", SOURCE, Extent(90_000, 90_010)).moved is True
    twice = "one two. one two."
    assert verify("one two", twice, Extent(9, 17)).at == Extent(9, 16)


FAR = "words between " * 100_000


@pytest.mark.parametrize(
    ("quote", "text", "stands"),
    [
        (
            "the keeper … saw it",
            f"The keeper slept; the keeper {FAR}and the keeper then saw it",
            "the keeper then saw it",
        ),
        (
            "the keeper … saw … it",
            f"the keeper saw {FAR}the keeper ate, and saw that it",
            "the keeper ate, and saw that it",
        ),
        ("the keeper … saw it", f"the keeper {FAR}saw it", ""),
        ("the keeper saw it", f"the keeper {' ' * 2_000_000} saw it", ""),
        ("the keeper of lights saw", f"the keeper of {'x' * 500_000} lights saw", ""),
        ("“a …” b", "a b " + FAR, "a b"),
    ],
    ids=["later", "both later", "far", "blanks", "a long word", "near"],
)
def test_words_far_apart_are_no_quotation(quote: str, text: str, stands: str) -> None:
    found = verify(quote, text)
    assert found.text == stands
    assert (found.verdict != "absent") is bool(stands)


def test_a_match_says_whether_all_of_a_long_text_was_searched() -> None:
    late = FAR + "The committee decided to postpone the launch until spring."
    assert verify("The committee decided to postpone the launch until early spring", late).partial is True
    assert verify("postpone until then", late).partial is False, (
        "few words are searched everywhere, but only as they are"
    )
    assert verify("decided to postpone the launch", late).partial is False
    assert verify("decided at once to postpone the launch", late[-80:]).partial is False


@pytest.mark.parametrize(
    ("quote", "text", "stands", "differences"),
    [
        ("The Moon draws the ocean.", "Tides\n\nThe Moon draws the sea.", "The Moon draws the sea", [("ocean", "sea")]),
        ("The Sun draws the sea", "So it is. The Moon draws the sea.", "The Moon draws the sea", [("Sun", "Moon")]),
        ("A Moon draws the sea", "So it is. The Moon draws the sea.", "The Moon draws the sea", [("A", "The")]),
        # What a quotation adds to a sentence that stands has nothing in its place.
        (
            "The Moon draws the sea and the whole sky.",
            "The Moon draws the sea. Other words follow here.",
            "The Moon draws the sea",
            [("and the whole sky", "")],
        ),
        ("Old The Moon draws the sea", "Tides\n\nThe Moon draws the sea", "The Moon draws the sea", [("Old", "")]),
        ("The Moon draws the ocean", "The Moon draws the", "The Moon draws the", [("ocean", "")]),
        ("月亮把大海拉向他", "月亮把大海拉向它。别的话在这里", "月亮把大海拉向它", [("他", "它")]),
    ],
)
def test_what_differs_at_either_end_is_told_with_what_stands_there(
    quote: str, text: str, stands: str, differences: list[tuple[str, str]]
) -> None:
    found = verify(quote, text)
    assert (found.verdict, found.text) == ("fuzzy", stands)
    assert [(each.quoted, each.stands) for each in found.differences] == differences
    assert found.at is not None
    assert text[found.at.start : found.at.end] == stands
