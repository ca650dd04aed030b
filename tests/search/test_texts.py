"""A result's text is what its readers see, each thing once; furniture is known without knowing the language."""

# ruff: noqa: RUF001 - other scripts are the subject

import pytest

from coatcheck.core.search.boilerplate import ResultText, find_boilerplate
from coatcheck.core.search.model import CUT_MARK, MAX_TEXT, SearchResult
from coatcheck.core.search.responses.markup import format_of, html_text, markdown_text
from coatcheck.core.search.view import result_text
from search.responses import laid_out

PROSE = " ".join(
    f"The {old} {thing} across the valley was built of {stuff} in one {season}."
    for old in ("old", "new")
    for thing, stuff in (("bridge", "copper"), ("mill", "granite"), ("road", "gravel"))
    for season in ("winter", "summer")
)


def shown(text: str, *others: str, site: str = "") -> str:
    """A text without its furniture."""
    data = text.encode()
    ranges = find_boilerplate([ResultText(data, site), *(ResultText(other.encode(), site) for other in others)])[0]
    for start, end in reversed(ranges):
        data = data[:start] + data[end:]
    return data.decode()


def test_a_page_keeps_its_words_and_their_order() -> None:
    page = (
        "<!doctype html><html><head><title>no</title><style>p{}</style></head><body><nav><a href='/'>menu</a></nav>"
        "<h1>Head &amp; shoulders</h1><p>First <b>bold</b>\n words.<br>Second&nbsp;line</p><ul><li>one</li><li>two</ul>"
        "<table><tr><th>a</th><td>b</td></tr></table><!-- no --><script>no()</script><pre>x\n  y</pre>"
        "<footer>no</footer>"
    )
    assert html_text(page) == "# Head & shoulders\n\nFirst bold words.\nSecond line\n\n- one\n- two\n\na | b\n\nx\ny"


@pytest.mark.parametrize(
    "broken", ["<nav>kept words", "<p", "a < b and c > d", "<div><div>" * 50 + "kept words", "<!-- x"]
)
def test_markup_that_is_never_closed_loses_no_words(broken: str) -> None:
    words = [word for word in ("kept", "words") if word in broken]
    assert all(word in html_text(broken) for word in words)


@pytest.mark.parametrize(
    "hostile",
    ["<nav>" * 60_000, "<" * 300_000, "<!--" * 80_000, "<a href='" * 40_000, "&" * 300_000],
    ids=lambda h: h[:6],
)
def test_hostile_markup_takes_no_longer_than_its_length_allows(hostile: str) -> None:
    assert isinstance(html_text(hostile), str)


def test_formats_are_told_by_what_there_is_more_of() -> None:
    assert format_of("<!doctype html><p>x") == "html"
    assert format_of("with <strong>marks</strong>") == "html"
    assert format_of("# Title\n\n- one\n- [two](https://x.example/)") == "markdown"
    assert format_of("a < b, nothing else") == "plain"


def test_markdown_loses_images_and_keeps_links() -> None:
    assert (
        markdown_text("![logo](x.png)\n\n[![badge](y.svg)](z)\nsee [this](https://x.example/)")
        == "see [this](https://x.example/)"
    )


def test_an_excerpt_of_the_content_is_said_once() -> None:
    content = PROSE
    same = SearchResult(
        rank=1, snippet="The old **bridge** across the valley was built of copper in one winter", content=content
    )
    other = SearchResult(
        rank=1,
        snippet="Something else that is said of it",
        more=("and more of that", "and more of that"),
        content=content,
    )
    assert result_text(same) == content.strip()
    assert result_text(other) == f"Something else that is said of it\n\nand more of that\n\n{content.strip()}"


def test_a_tag_that_a_snippet_talks_about_stays() -> None:
    assert result_text(SearchResult(rank=1, snippet="Use <strong>Array&lt;T&gt;</strong> here")) == "Use Array<T> here"


MENUS = {
    "links": "[Home](/a)\n[Pricing](/b)\n[Blog](/c)\n[Login](/d)\n",
    "short lines": "Home\nPricing\nBlog\nDocs\nTeam\nLogin\n",
    "Chinese": "首页\n产品\n价格\n博客\n关于我们\n登录\n",
    "Russian": "Главная\nЦены\nБлог\nКоманда\nОтзывы\nВойти\n",
    "cookies": "We use cookies to improve your visit. Accept all | Reject | Cookie settings\n",
    "German cookies": "Diese Website verwendet Cookies. Alle akzeptieren oder Einstellungen ändern.\n",
    "Japanese cookies": "当サイトはクッキーを使用します。同意する\n",
    "share": "Share on Facebook · Twitter · LinkedIn\n",
    "rights": "© 2026 Example Inc. All rights reserved.\n",
    "skip": "[Skip to content](https://a.example/page#main)\n",
}


@pytest.mark.parametrize("name", MENUS)
def test_furniture_is_left_out_in_any_language(name: str) -> None:
    assert shown(f"{PROSE}\n\n{MENUS[name]}\nAnd so on.\n").split() == f"{PROSE} And so on.".split()


@pytest.mark.parametrize(
    "text",
    [
        "The colours are:\n\nred\ngreen\nblue\nwhite\nblack\ngrey\npink\n" + PROSE,
        "```\na\nb\nc\nd\ne\nf\ng\n```\n" + PROSE,
        "HTTP cookies were invented in 1994 by Lou Montulli.\n" + PROSE,
        "Name: Ada\nBorn: 1815\nDied: 1852\nCity: London\nWork: notes\nMain: engine\n" + PROSE,
        "2 eggs\n3 onions\n12 lemons\n500 grams\n" + PROSE,
        "[one](/a)\n[two](/b)\n[three](/c)\n[four](/d)\n" * 40,
    ],
    ids=["announced list", "code", "about cookies", "facts", "a recipe", "a page of links"],
)
def test_what_a_page_is_about_is_no_furniture(text: str) -> None:
    kept = shown(text)
    assert len(kept) >= len(text) * 0.2
    assert kept.split()[:5] == text.split()[:5]


def test_what_is_asked_for_is_no_furniture() -> None:
    data = f"Home\nPricing\nBlog\nDocs\nTeam\nLogin\n{PROSE}".encode()
    asked = find_boilerplate([ResultText(data, "")], lambda data, start, end: b"Pricing" in data[start:end])[0]
    assert b"Pricing" in data
    assert all(b"Pricing" not in data[start:end] for start, end in asked)
    assert asked != []


def test_a_line_of_several_results_stands_once_and_one_of_a_whole_site_never() -> None:
    line = "This line stands in each of the results, word for word.\n"
    pages = [ResultText(f"{line}Number {n} says something of its own here.\n".encode(), "") for n in range(2)]
    assert [len(ranges) for ranges in find_boilerplate(pages)] == [0, 1]
    pages = [ResultText(f"{line}Number {n} says something of its own here.\n".encode(), "a.example") for n in range(3)]
    assert all(ranges and ranges[0] == (0, len(line)) for ranges in find_boilerplate(pages))


def test_a_text_that_is_cut_says_so() -> None:
    long = "tide " * (MAX_TEXT // 5) + "the end"
    laid = laid_out({"query": "q", "results": [{"title": "One", "url": "https://a.example/1", "content": long}]})
    assert CUT_MARK.strip() in laid.text.decode()
    assert laid.partial


def test_the_view_holds_every_result_as_a_section_at_its_place() -> None:
    body = {
        "query": "q",
        "answer": "It is.",
        "results": [
            {
                "title": "Ünë",
                "url": "https://a.example/1",
                "content": "first ☂\nline",
                "score": 1,
                "published_date": "2026-11-19",
            },
            {"title": "", "url": "https://a.example/2", "content": "", "score": 1},
        ],
        "response_time": 1,
    }
    laid = laid_out(body)
    assert laid.text.decode() == (
        'Search results for "q" (tavily): 2 results\n\nAnswer: It is.\n\n'
        "r1. Ünë\nhttps://a.example/1\n2026-11-19\n\nfirst ☂\nline\n\nr2. https://a.example/2\n\n"
    )
    for section, body_ in zip(laid.sections, laid.bodies, strict=True):
        assert laid.text[section.start :].decode().startswith(f"{section.name}. ")
        assert laid.text[: section.start].count(b"\n") == section.line - 1
        assert laid.text[section.start : section.end].count(b"\n") == section.lines
        assert laid.text[body_.place.byte :].startswith(body_.data)
        assert laid.text[: body_.place.byte].decode().count("\n") == body_.place.newlines
        assert len(laid.text[: body_.place.byte].decode()) == body_.place.chars
    assert [section.url for section in laid.sections] == ["https://a.example/1", "https://a.example/2"]
