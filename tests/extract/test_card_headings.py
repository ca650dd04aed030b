"""How a card names a section of a page, and that it reads a page in order."""

import pytest

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.card.text import text_of
from coatcheck.core.outline.section_names import nth_section
from coatcheck.core.views.view import LINKS, Section, ViewMeasure
from core.sample_payloads import measure_of


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
