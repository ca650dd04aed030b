"""The text of a page."""

import gc
import time
from collections.abc import Callable

import pytest

from coatcheck.core.extract import extract_text
from coatcheck.core.extract.boilerplate import pieces, without_opaque
from coatcheck.core.extract.page import AROUND, NO_TEXT, extract_page
from coatcheck.core.views.view import LINKS, ExtractedText
from extract.sample_pages import PROSE, article, article_of, check_sections, cut, page


def view_of(markup: str, url: str | None = "https://example.org/ships/index.html") -> tuple[ExtractedText, bytes]:
    made = extract_page(markup, url)
    assert made is not None
    assert made.text is not None
    check_sections(made.sections, made.text)
    return made, made.text


def test_the_article_stands_between_sections_of_what_is_around_it() -> None:
    made, text = view_of(page(article(3)))
    assert article_of(made) == "# Of ships\n\n" + "\n\n".join(PROSE.format(n=n) for n in range(3)) + "\n\n"
    assert text.decode().startswith("[Navigation]\n\n- Menu entry\n- Another\n\n[Article]\n\n# Of ships\n")
    assert [(each.name, each.title, each.level) for each in made.sections if each.aside] == [
        ("s1", "Navigation", 1),
        ("s3", "Footer", 1),
        ("s4", LINKS, 1),
        ("s5", f"{LINKS} of Footer", 2),
        ("s6", f"{LINKS} of Navigation", 2),
    ]
    assert cut(made, text, "s3").startswith("[Footer]\n\nRelated: More of it\n\nCopyright, imprint")
    assert "a comment" not in text.decode()


def test_headings_lists_tables_quotes_and_code_are_told_apart() -> None:
    inside = (
        article(2)
        + "<h2>Of &amp; lists</h2><ul><li>first <b>bold</b></li><li>second<ol><li>one</li><li>two</li></ol></li></ul>"
        "<h2>Of tables</h2>"
        "<table><tr><th>Port</th><th>Ships</th></tr><tr><td>Riga</td><td></td></tr></table>"
        "<h3>Of code</h3><pre><code>def f():\n    return 1 &lt; 2\n</code></pre><blockquote>Said so.</blockquote>"
    )
    made, text = view_of(page(inside))
    assert article_of(made).endswith(
        "## Of & lists\n\n- first bold\n- second\n  1. one\n  2. two\n\n"
        "## Of tables\n\n| Port | Ships |\n| Port: Riga |  |\n\n"
        "### Of code\n\n```\ndef f():\n    return 1 < 2\n```\n\n> Said so.\n\n"
    )
    assert [(each.name, each.title, each.level) for each in made.sections if not each.aside] == [
        ("s2", "Of ships", 1),
        ("s3", "Of & lists", 2),
        ("s4", "Of tables", 2),
        ("s5", "Of code", 3),
    ]
    assert cut(made, text, "s4").startswith("## Of tables\n")
    assert cut(made, text, "s4").endswith("> Said so.\n\n")
    assert cut(made, text, "s2") == article_of(made)


def test_a_paragraph_that_is_not_closed_ends_where_a_definition_begins() -> None:
    terms = [f"<p><dt>option {n}<dd>{PROSE.format(n=n)}" for n in range(40)]
    _, text = view_of(f"<html><body><h1>Manual</h1><h2>NAME</h2>relay{''.join(terms)}<p><h2>END</h2></body></html>")
    assert text.startswith(b"# Manual\n\n## NAME\n\nrelay\n")
    assert all(PROSE.format(n=n) in text.decode() for n in range(40))


def test_a_paragraph_that_is_said_twice_stays_twice() -> None:
    _, text = view_of(page(article(2) + article(2)))
    assert text.decode().count(PROSE.format(n=1)) == 2


def test_links_stand_after_the_text_once_each_and_whole() -> None:
    inside = article(3) + (
        '<p>See <a href="../other?a=1&amp;b=2">the other one</a>, <a href="#s2">above</a>, '
        '<a href="mailto:a@b.c">mail</a>, <a href="//cdn.example.com/x">that</a> and again '
        '<a href="/other?a=1&b=2#top">the other one</a> in this text.</p>'
    )
    made, text = view_of(page(inside))
    links = next(each for each in made.sections if each.title == LINKS)
    assert cut(made, text, links.name).startswith(
        "# Links\n\n- the other one: https://example.org/other?a=1&b=2\n- that: https://cdn.example.com/x\n\n"
        "## Links of Footer\n\n- More of it: https://example.org/x\n\n## Links of Navigation\n"
    )
    assert links.end == len(text)


@pytest.mark.parametrize(
    "gone",
    [
        "<div hidden><p>{}</p></div>",
        '<div style="display: none"><p>{}</p></div>',
        '<p>Seen, <span style="visibility:hidden">{}</span> and seen again.</p>',
        "<dialog><p>{}</p></dialog>",
        "<template><p>{}</p></template>",
        "<noscript><p>{}</p></noscript>",
        "<script type='text/template'><p>{}</p></script>",
        "<!-- <p>{}</p> -->",
    ],
)
def test_what_no_reader_sees_is_not_in_it(gone: str) -> None:
    hidden = "This is not for readers at all, whatever it says, and it says quite a lot, as you may see."
    made, text = view_of(page(article(8) + gone.format(hidden) + article(2)))
    assert hidden not in text.decode()
    assert article_of(made).count("Harbour 1 ") == 2


@pytest.mark.parametrize(
    "around",
    [
        '<section aria-hidden="true"><p>{}</p></section>',
        '<div class="comment-list"><p>{}</p></div>',
        '<div id="related-stories"><p>{}</p></div>',
        '<div class="post-comments"><p>{}</p></div>',
        '<div class="articleComments"><p>{}</p></div>',
        '<ol id="leserkommentare"><li>{}</li></ol>',
        '<div class="relatedContent"><p>{}</p></div>',
        '<div class="main-menu"><p>{}</p></div>',
        '<div role="navigation"><p>{}</p></div>',
    ],
)
def test_what_is_not_the_article_stands_beside_it(around: str) -> None:
    other = "This is not for readers at all, whatever it says, and it says quite a lot, as you may see."
    made, text = view_of(page(article(8) + around.format(other) + article(2)))
    assert other not in article_of(made)
    aside = next(each for each in made.sections if each.title == AROUND)
    assert other in cut(made, text, aside.name)
    assert cut(made, text, aside.name).endswith("\n[Article]\n\n")
    assert article_of(made).count("Harbour 1 ") == 2


def test_cells_have_the_names_of_their_columns() -> None:
    table = (
        "<table><caption>Calls</caption><thead><tr><th>Port<th>Year<th colspan=2>Ships</tr>"
        "<tr><th><th><th>in<th>out</tr></thead>"
        "<tr><td rowspan=2><a href='/r'>Riga</a><td>1890<td>12<td>13<tr><td>1891<td>14<td></table>"
    )
    _, text = view_of(page(article(2) + table))
    assert (
        "Calls\n\n| Port | Year | Ships |\n|  |  | in | out |\n"
        "| Port: Riga | Year: 1890 | Ships in: 12 | Ships out: 13 |\n| Year: 1891 | Ships in: 14 |  |\n"
    ) in text.decode()


def test_a_table_of_links_beside_an_article_is_kept() -> None:
    rows = "".join(
        f"<tr><td><a href='/{n}'>Ship {n}</a></td><td><a href='/y{n}'>{1900 + n}</a></td></tr>" for n in range(30)
    )
    _, text = view_of(page(f"{article(4)}<table><tr><th>Name<th>Built</tr>{rows}</table>{article(3)}"))
    assert [n for n in range(30) if f"| Name: Ship {n} | Built: {1900 + n} |" not in text.decode()] == []


def test_images_menus_and_buttons_say_what_they_show() -> None:
    inside = (
        '<p>Before <img src=x alt="A brig &amp; a cat"> after.</p><form><label>Port <select><option>Riga'
        '<option>Kiel</select></label><input type=submit value="Find ships"><textarea>typed</textarea></form>'
    )
    _, text = view_of(page(article(2) + inside))
    assert "Before ![A brig & a cat] after." in text.decode()
    assert "Riga | Kiel" in text.decode()
    assert "Find ships" in text.decode()
    assert "typed" not in text.decode()


@pytest.mark.parametrize(
    ("inside", "words"),
    [("<noscript>Turn on scripts.</noscript>", "\n\nTurn on scripts."), ("<script src=x></script>", "")],
)
def test_a_page_that_scripts_fill_says_so(inside: str, words: str) -> None:
    _, text = view_of(f"<html><body><div id=app></div>{inside}</body></html>")
    assert text.decode() == f"{NO_TEXT}{words}\n"


def test_cells_and_items_end_where_the_next_one_begins_whatever_is_open() -> None:
    menu = "<td><div><div style='display:none'><div>hidden menu<table><tr><td>gone</td></tr></table>"
    _, text = view_of(
        page(f"{article(2)}<table><tr>{menu}<td>Seen 1</td>{menu}<td>Seen 2</tr></table><ul><li><p>A<li>B</ul>")
    )
    assert "Seen 1" in text.decode()
    assert "Seen 2" in text.decode()
    assert "hidden" not in text.decode()
    assert "- A\n- B\n" in text.decode()


@pytest.mark.parametrize(
    "seen",
    [
        '<p class="nav hidden md:block">{}</p>',
        '<p data-note="display:none">{}</p>',
        '<p hidden="until-found">{}</p>',
        '<p>On <span class="a hidden b">{}</span></p>',
    ],
)
def test_what_only_looks_hidden_is_shown(seen: str) -> None:
    _, text = view_of(page(article(4) + seen.format("Shown on wide screens.")))
    assert "Shown on wide screens." in text.decode()


def test_words_in_a_head_end_it() -> None:
    _, text = view_of("<html><head>@include('x')<title>T</title></head><body><p>Text.</p></body></html>")
    assert text.decode() == "@include('x')\n\nText.\n"


BODY = "".join(f"<p>{PROSE.format(n=n)}</p>" for n in range(8))
OTHER = "<p>Somebody wrote this below the article, at some length, and nobody who reads the article needs it.</p>"


@pytest.mark.parametrize(
    "around",
    [
        '<div class="layout has-right-sidebar">{}</div>',
        '<div class="elementor-widget-wrap">{}</div>',
        '<div id="ad-portal">{}</div>',
        '<form method="post" id="aspnetForm">{}</form>',
        '<div id="root" aria-hidden="true">{}</div>',
        '<article class="post comments-open tag-ships">{}</article>',
    ],
)
def test_a_name_does_not_hide_an_element_that_holds_the_headline_and_most_of_the_prose(around: str) -> None:
    inside = f'<h1>Of ships</h1>{BODY}<div class="postComments">{OTHER * 4}</div>'
    made, _ = view_of(f"<html><title>Of ships</title><body>{around.format(inside)}</body></html>")
    text = article_of(made).removeprefix("# Of ships\n\n").rstrip()
    assert text == "\n\n".join(PROSE.format(n=n) for n in range(8))


def test_comments_that_are_longer_than_the_article_are_not_taken_for_it() -> None:
    short = "".join(f"<p>{PROSE.format(n=n)}</p>" for n in range(3))
    inside = (
        f'<div class="text"><h1>Of ships</h1>{short}</div><div id="comments"><ul>{f"<li>{OTHER}</li>" * 40}</ul></div>'
    )
    made, _ = view_of(f"<html><title>Of ships</title><body>{inside}</body></html>")
    assert "Somebody wrote" not in article_of(made)
    assert PROSE.format(n=2) in article_of(made)


def test_what_stands_beside_the_only_article_of_a_page_is_not_taken_without_a_name_either() -> None:
    inside = f'<article><h1>Of ships</h1>{BODY}</article><div class="x"><div class="y">{OTHER * 3}</div></div>'
    made, _ = view_of(f"<html><body><div>{inside}</div></body></html>")
    assert "Somebody wrote" not in article_of(made)


def test_paragraphs_between_the_headline_and_the_article_are_its_beginning() -> None:
    lead = "".join(f"<p>{PROSE.format(n=n)}</p>" for n in range(90, 94))
    inside = (
        f'<h1>Of ships</h1><div class="a"><div class="b">{lead}</div></div><div class="slot">Advertisement</div>'
        f'<div class="c"><div class="d">{BODY}</div><div class="e"><a href="/1">One</a></div></div>'
    )
    _, text = view_of(f"<html><title>Of ships</title><body><div>{inside}</div></body></html>")
    found = [n for n in [*range(90, 94), *range(8)] if PROSE.format(n=n) in text.decode()]
    assert found == [*range(90, 94), *range(8)]
    assert text.decode().index("Harbour 90") < text.decode().index("Harbour 0 ")


def test_what_the_only_headline_that_shares_a_word_with_the_title_describes_is_the_beginning() -> None:
    lead = "".join(f"<p>{PROSE.format(n=n)}</p>" for n in range(90, 94))
    inside = (
        f'<h1>Struct Harbour</h1><details><div class="b">{lead}</div></details>'
        f'<div class="c"><div class="d">{BODY * 3}</div></div>'
    )
    _, text = view_of(f"<html><title>Harbour in ships - Rust</title><body><div>{inside}</div></body></html>")
    assert text.decode().index("Harbour 90") < text.decode().index("Harbour 0 ")


def test_what_a_product_costs_is_there_before_its_reviews() -> None:
    product = '<h1>Of ships</h1><div class="price">€129.00</div><ul><li>30 days return</li></ul>'
    table = "<table><tr><th>Weight</th><td>112 g</td></tr></table>"
    inside = f"<main>{product}{table}<section><h2>187 reviews</h2>{BODY * 2}</section></main>"
    made, _ = view_of(f"<html><title>Of ships</title><body>{inside}</body></html>")
    assert article_of(made).startswith("€129.00\n\n- 30 days return\n| Weight | 112 g |")


def test_text_beside_a_heading_that_the_title_does_not_repeat_is_no_beginning() -> None:
    side = "".join(f"<p>{PROSE.format(n=n)}</p>" for n in range(90, 94))
    inside = f'<div class="side"><h1>Our community</h1>{side}</div><div class="main"><h2>Of ships</h2>{BODY * 3}</div>'
    made, _ = view_of(f"<html><title>Of ships</title><body>{inside}</body></html>")
    assert "Harbour 90" not in article_of(made)


def test_a_question_and_its_answers_are_all_there() -> None:
    posts = "".join(
        f'<div class="post"><b>12</b><div class="prose">{BODY.replace("Harbour", f"Port {n}:")}</div></div>'
        for n in range(4)
    )
    _, text = view_of(f"<html><title>Of ships</title><body><main><h1>Of ships</h1>{posts}</main></body></html>")
    assert [n for n in range(4) if f"Port {n}: 7 has been known" in text.decode()] == [0, 1, 2, 3]


def test_a_reference_of_many_small_parts_is_all_there() -> None:
    parts = "".join(
        f'<section><h2>Item {n}</h2><div class="impl"><div class="block"><p>{PROSE.format(n=n)}</p>'
        f"<pre>example = item({n}, one, two, three)</pre></div></div></section><a href='/{n}'>Source of item {n}</a>"
        for n in range(12)
    )
    made, text = view_of(f"<html><body><main><h1>Items</h1>{parts}</main></body></html>")
    assert [n for n in range(12) if PROSE.format(n=n) in text.decode()] == list(range(12))
    assert [each.title for each in made.sections if each.level == 2] == [f"Item {n}" for n in range(12)]


def test_a_page_made_of_tables_is_all_there() -> None:
    rows = "".join(f"<dl><dt>name_{n}</dt><dd>{PROSE.format(n=n)}</dd></dl>" for n in range(3))
    parts = "".join(
        f"<p><table><tr><td>class Item{part}</td></tr>"
        f"<tr><td></td><td>{rows.replace('name_', f'name_{part}_')}</td></tr></table>"
        for part in range(9)
    )
    _, text = view_of(f"<html><title>Items</title><body>{parts}</body></html>")
    assert [part for part in range(9) if f"name_{part}_2" not in text.decode()] == []


def test_a_page_of_links_keeps_their_words() -> None:
    listed = "".join(f'<tr><td><a href="/{n}">Story {n}</a></td></tr>' for n in range(30))
    _, text = view_of(f'<html><body><div class="nav-bar">x</div><table>{listed}</table></body></html>')
    assert [n for n in range(30) if f"Story {n}\n" in text.decode()] == list(range(30))


def test_attributes_may_hold_markup_and_broken_ones_end_with_their_tag() -> None:
    assert pieces('<a title="<b>x</b>" href=\'>\'>t</a>', 9) == [
        "", "", "a", ' title="<b>x</b>" href=\'>\'>', "t", "/", "a", ">", "",
    ]  # fmt: skip
    assert pieces('<p class="a"">text <b>bold</b></p>', 9)[3:5] == [' class="a"">', "text "]


def test_a_page_without_prose_is_given_whole() -> None:
    _, text = view_of("<html><body><h1>Prices</h1><table><tr><td>Tea</td><td>3</td></tr></table></body></html>")
    assert text.decode() == "# Prices\n\n| Tea | 3 |\n"


@pytest.mark.parametrize("markup", ["", "<html></html>", "<style>" * 9, "<p> </p>", "<!-- never closed <p>text</p>"])
def test_a_page_without_a_word_has_no_view(markup: str) -> None:
    assert extract_page(markup, None) is None


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (page(f"<p>Größe, naïveté, 東京</p>{article()}").encode(), "text/html; charset=iso-8859-1"),
        (b"\xef\xbb\xbf" + page(f"<p>Größe, naïveté, 東京</p>{article()}").encode(), None),
        (page(f"<p>Größe, naïveté, 東京</p>{article()}").encode("utf-16-le").join([b"\xff\xfe", b""]), None),
        (page(f"<p>Größe, naïveté, 東京</p>{article()}").encode("gb18030"), "text/html; charset=GBK"),
    ],
    ids=["utf-8 for all that the header says", "a mark", "utf-16", "the header"],
)
def test_the_view_is_utf_8_whatever_the_page_is(data: bytes, media_type: str | None) -> None:
    made = extract_text("page", media_type, None, data)
    assert made is not None
    assert made.text is not None
    if media_type and "GBK" in media_type:
        assert "東京" in made.text.decode()
    else:
        assert article_of(made).startswith("# Of ships\n\nGröße, naïveté, 東京\n")


def test_the_page_itself_says_its_encoding_and_is_believed_only_if_it_fits() -> None:
    said = '<meta charset="windows-1251">'
    russian = page(f"<p>Корабли заходят в гавань издавна, как говорят.</p>{article()}", head=said)
    made = extract_text("page", None, None, russian.encode("cp1251"))
    assert made is not None
    assert made.text is not None
    assert "Корабли заходят" in made.text.decode()
    wrong = extract_text("page", "text/html; charset=nonsense", None, russian.encode("cp1251"))
    assert wrong == made


HOSTILE: dict[str, Callable[[int], str]] = {
    "attributes in a tag": lambda n: "<div " + "".join(f"a{i}=x " for i in range(n)) + ">text</div>",
    "open elements": lambda n: "<div>" * n + "text",
    "nested elements": lambda n: "<div>" * n + "text" + "</div>" * n,
    "closing tags": lambda n: "text" + "</div>" * n,
    "less-than signs": lambda n: "<" * n,
    "tags that never end": lambda n: "<a " * n,
    "quotes that never end": lambda n: '<a b="' * n,
    "quotes of both sorts": lambda n: "<a \"'" * n,
    "quotes with tags in them": lambda n: '<a ="<a" ' * n,
    "quotes out of step": lambda n: "<a \"<b' '" * n,
    "scripts that never end": lambda n: "<script>" * n,
    "comments that never end": lambda n: "<!-- " * n,
    "entities": lambda n: "&amp;&#x41;&nosuch" * n,
    "ampersands": lambda n: "&" * n,
    "cells": lambda n: "<table><tr>" + "<td>x" * n,
    "nested tables": lambda n: "<table><tr><td>x" * n,
    "nested lists": lambda n: "<ul><li>x" * n,
    "links": lambda n: '<a href="/x">y</a> ' * n,
    "open code": lambda n: "<pre>x\n" * n,
    "headings that the title repeats": lambda n: (
        f"<title>{'a long heading ' * n}</title>" + "<h1>a long heading</h1><p>x</p>" * n
    ),
    "nested suspects": lambda n: '<div class="sidebar">' * n + BODY,
    "names": lambda n: f'<div class="{"ad-" * n}">{BODY}</div>',
    "blanks": lambda n: "<p>" + " \n" * n,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear_whatever_the_page(name: str) -> None:
    """Eight times the page takes far less than the sixty-four times as long of what is quadratic."""
    small, large = HOSTILE[name](1_500), HOSTILE[name](12_000)

    def took(markup: str) -> float:
        best = 1e9
        for _ in range(4):
            gc.collect()
            gc.disable()  # as in a worker: the collector looks at all objects again and again
            before = time.process_time()
            made = extract_page(markup, "https://example.org/")
            best = min(best, time.process_time() - before)
            gc.enable()
            if made is not None and made.text is not None:
                check_sections(made.sections, made.text)
        return best

    assert took(large) <= 24 * took(small) + 0.02


def test_a_page_of_more_tags_than_anybody_reads_is_partial() -> None:
    made = extract_page(f"<body>{article(4)}" + "<br>" * 400_000 + "<p>the end</p>", None)
    assert made is not None
    assert made.partial
    assert made.text is not None
    assert b"the end" not in made.text


def test_nothing_opaque_is_left_and_nothing_else_goes() -> None:
    assert without_opaque("a<script>b</script>c<!--d-->e<STYLE x>f</style >g<iframe>h") == "a c e g "
