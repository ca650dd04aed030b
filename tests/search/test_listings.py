"""Lists of results that tools write for models are read; pages that merely have links are not."""

# ruff: noqa: RUF001 - punctuation of other scripts is what they are written with

# ruff: noqa: E501 - each list as a tool writes it

import pytest

from coatcheck.core.search.model import ProviderAnswer
from coatcheck.core.search.responses.normalise import normalise

ONE, TWO = "https://a.example/1", "https://b.example/2_(x)"

LISTS = {
    "labels": f"Title: One\nDescription: first\nURL: {ONE}\n\nTitle: Two\nDescription: second\nURL: {TWO}\n",
    "labels, address first": f"URL: {ONE}\nTitle: One\nSnippet: first\n\nURL: {TWO}\nTitle: Two\nSnippet: second",
    "numbered, with labels": f"Found 2 search results:\n\n1. One\n   URL: {ONE}\n   Summary: first\n\n2. Two\n   URL: {TWO}\n   Summary: second\n",
    "bold labels": f"**1. One**\n**URL:** {ONE}\n**Description:** first\n\n---\n\n**2. Two**\n**URL:** {TWO}\n**Description:** second\n---\n",
    "Chinese labels": f"搜索结果：\n\n标题：One\n链接：{ONE}\n摘要：first\n\n标题：Two\n链接：{TWO}\n摘要：second",
    "Markdown links": f"## Search Results\n\n[One]({ONE})\nfirst\n\n[Two]({TWO})\nsecond",
    "Markdown items": f"- [One]({ONE}): first\n- [Two]({TWO}): second\n",
    "numbered, bare addresses": f"1. **One**\n   {ONE}\n   first\n\n2. **Two**\n   {TWO}\n   second",
    "elements": f'<documents><document index="1"><source>{ONE}</source><title>One</title><document_content>first</document_content></document>\n<document index="2"><source>{TWO}</source><title>Two</title><document_content>second</document_content></document></documents>',
    "attributes": f'<Document href="{ONE}" title="One">first</Document>\n<Document href="{TWO}" title="Two">second</Document>',
    "feed": f"<rss><item><title><![CDATA[One]]></title><link>{ONE}</link><description>first</description></item><item><title>Two</title><link>{TWO}</link><description>second</description></item></rss>",
    "one line": f"snippet: first, title: One, link: {ONE}, snippet: second, title: Two, link: {TWO}",
    "JSON inside": f'Links: [{{"title": "One", "url": "{ONE}", "snippet": "first"}}, {{"title": "Two", "url": "{TWO}", "snippet": "second"}}]',
}


@pytest.mark.parametrize("name", LISTS)
def test_each_form_gives_its_results(name: str) -> None:
    response = normalise(LISTS[name])
    assert [(r.title, r.url, r.snippet or r.content) for r in response.results] == [
        ("One", ONE, "first"),
        ("Two", TWO, "second"),
    ]
    assert response.answers == ()


def test_labels_inside_a_long_text_begin_no_result() -> None:
    text = f"Detailed Results:\n\nTitle: One\nURL: {ONE}\nContent: has\n\nTitle: inner\nURL: none\nDate: x\n\nTitle: Two\nURL: {TWO}\nContent: c\nRaw Content: long\n"
    first, second = normalise(text).results
    assert first.content == "has\n\nTitle: inner\nURL: none\nDate: x"
    assert (second.snippet, second.content) == ("c", "long")


def test_the_query_and_the_words_around_the_list_are_kept() -> None:
    response = normalise(
        f'Web search results for query: "red shoes"\n\nLinks: [{{"title": "One", "url": "{ONE}"}}]\n\nThey are red.'
    )
    assert response.query == "red shoes"
    assert response.answers == (ProviderAnswer(kind="commentary", text="They are red."),)


@pytest.mark.parametrize(
    "member", ["'scores': {1: 0.5}", "None: 1", "(1, 2): 'a b c d'", "b'k': b'v'", "'s': {'a'}", "'e': ...", "2j: 1j"]
)
def test_a_printed_list_is_read_whatever_its_names_and_values_are(member: str) -> None:
    printed = f"{{'title': 'One', 'href': '{ONE}', 'body': 'first', {member}}}"
    for text in (f"[{printed}]", f"({printed},)"):
        assert [(r.title, r.url, r.snippet) for r in normalise(text).results] == [("One", ONE, "first")]


@pytest.mark.parametrize(
    "page",
    [
        "# A page\n\nSome [link](https://x.example/) in a text. "
        + "More text. " * 40
        + "\n\nSee [other](https://y.example/).\n",
        "An essay.\n" * 30 + "\n[a](https://x.example/)\n[b](https://y.example/)\n",
        "See https://x.example/ for more.",
        "def f():\n    return 'https://x.example/'\n",
    ],
    ids=["prose", "essay with links below", "a sentence", "code"],
)
def test_a_text_with_links_is_no_list(page: str) -> None:
    assert normalise(page).results == ()
