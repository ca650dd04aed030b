"""What a card says of a page's headings, how it names a section of one, and that it reads a page in order."""

import pytest

from coatcheck.core.artifact import DeclaredMetadata, PayloadSample
from coatcheck.core.card.text import text_of
from coatcheck.core.outline.section_names import nth_section
from coatcheck.core.views.view import LINKS, Section, ViewMeasure
from core.sample_payloads import measure_of
from facts.cases import Case, Shown, shown
from facts.told import hold

TOPICS = ("Hours", "Leave", "Travel", "Tools", "Safety", "Conduct", "Pay", "Pensions", "Leaving")
SIDE = "".join(f"<h3>Elsewhere {n}</h3><p><a href='/{n}'>Another story</a></p>" for n in range(6))


def prose(topic: str, times: int = 6) -> str:
    return f"<p>{f'What the company says about {topic.lower()}, in full, is told here, and nowhere else. ' * times}</p>"


def _understood(line: str) -> bool:
    """Headings are held against the text view alone."""
    return "ections from line" in line


def card(main: str, budget: int = 600) -> Shown:
    body = f"<nav><h2>Menu</h2>{SIDE}</nav><main><h1>Handbook</h1>{prose('all', 12)}{main}</main><aside>{SIDE}</aside>"
    page = f"<!DOCTYPE html><html><head><title>Handbook</title></head><body>{body}</body></html>"
    made = shown(Case(page.encode(), (_understood,), DeclaredMetadata(media_type="text/html")), budget)
    hold(made)
    return made


def headings(made: Shown) -> list[str]:
    return [line for line in made.text.split("\n") if "ections from line" in line]


def test_a_card_names_the_headings_that_its_excerpts_do_not_reach() -> None:
    made = card("".join(f"<h2>{topic}</h2>{prose(topic)}<h3>More</h3>{prose(topic)}" for topic in TOPICS))
    (line,) = headings(made)
    assert line.startswith("Sections from line ")
    missing = [topic for topic in TOPICS if f"## {topic}\n" not in made.text]
    assert len(missing) > 4
    assert all(topic in line for topic in missing)
    assert "More" not in line
    assert "Elsewhere" not in line
    assert "Menu" not in line


def test_headings_one_level_deeper_are_named_where_the_outer_ones_are_few() -> None:
    made = card(f"<h2>One</h2>{prose('one')}" + "".join(f"<h3>{topic}</h3>{prose(topic, 12)}" for topic in TOPICS))
    (line,) = headings(made)
    assert "Pensions" in line


def test_of_many_headings_the_largest_are_named() -> None:
    names = [f"The {n}th of the many questions that were asked" for n in range(60)]
    made = card("".join(f"<h2>{name}</h2>{prose(name, 30 if n == 41 else 2)}" for n, name in enumerate(names)))
    (line,) = headings(made)
    assert line.startswith("Largest sections from line ")
    assert names[41] in line


@pytest.mark.parametrize(("topics", "budget"), [(TOPICS[:3], 600), (TOPICS, 256), (TOPICS, 8_192)])
def test_an_article_a_small_card_and_a_whole_page_have_no_such_line(topics: tuple[str, ...], budget: int) -> None:
    assert not headings(card("".join(f"<h2>{topic}</h2>{prose(topic, 12)}" for topic in topics), budget))


@pytest.mark.parametrize(
    ("titles", "wanted"),
    [
        (["Scope", "Terms"], "Terms"),
        (
            ["Scope", f"Terms {'of sale and delivery ' * 6}"],
            "Terms of sale and delivery of sale and delivery of sale and",
        ),
        ([f"Terms {'of sale and delivery ' * 6}{n}" for n in (1, 2)], "s2"),
        (["Scope", "w" * 90], "s2"),
        (["s2", "s1"], "s2"),
        (["Scope", LINKS], "s2"),
    ],
)
def test_a_section_is_named_by_words_that_mean_it_alone(titles: list[str], wanted: str) -> None:
    data = b"x\n" * (len(titles) + 1)
    titles = [*map(str.strip, titles), LINKS]
    sections = tuple(
        Section(
            name=f"s{n}",
            title=title,
            level=1,
            start=2 * n - 2,
            end=2 * n,
            line=n,
            lines=1,
            aside=title == LINKS and n == len(titles),
        )
        for n, title in enumerate(titles, 1)
    )
    m = measure_of(data)
    sizes = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
    source = text_of(PayloadSample(data, b"", len(data)), sizes, sections, "markup-removed 6")
    name = source.name_of(sections[1])
    assert name == wanted
    assert nth_section(sections, name) == 1
