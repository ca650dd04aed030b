"""Which passages are shown, in which order, and under which lines."""

import json

import pytest

from coatcheck.core.artifact import Kind
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent
from passages.passage_answers import composed
from passages.passage_requests import CALLER, ask, asking, filler
from reading.reading_harness import ReadingHarness

FACT = "The lighthouse keeper of Ouessant slept.\n"


async def test_the_best_passage_comes_first_wherever_it_stands(shelf: ReadingHarness) -> None:
    data = filler(20_000) + "A lighthouse was seen.\n" + filler(20_000, 2) + FACT + filler(20_000, 3)
    answer = await ask(shelf, data.encode(), "who kept the Ouessant lighthouse")
    assert [FACT.strip() in passage.text for passage in answer.windows] == [True, False]
    assert answer.windows[0].window.bytes.start > answer.windows[1].window.bytes.start
    assert answer.text.index(FACT.strip()) < answer.text.index("A lighthouse was seen.")


async def test_passages_that_nearly_touch_are_one(shelf: ReadingHarness) -> None:
    near = "The keeper of the lighthouse slept.\nIt rained.\nThe lighthouse had one keeper.\n"
    answer = await ask(shelf, (filler(30_000) + near + filler(30_000, 2)).encode(), "lighthouse keeper", 256)
    assert len(answer.windows) == 1
    assert near.strip() in answer.windows[0].text


@pytest.mark.parametrize("answers", [1, 2, 8])
async def test_a_concise_answer_has_as_many_passages_as_answer(shelf: ReadingHarness, answers: int) -> None:
    facts = [f"The lighthouse keeper number {n} lived alone in the year {1800 + n}.\n" for n in range(answers)]
    weak = "Somebody lived in the garden.\n"
    data = "".join(filler(9_000, n) + weak + filler(9_000, n + 50) + fact for n, fact in enumerate(facts))
    reading = await shelf.open_view(CALLER, await shelf.put(data.encode()))
    concise = await asking(shelf).of(reading, "lighthouse keeper who lived alone", 1_200, concise=True)
    full = await asking(shelf).of(reading, "lighthouse keeper who lived alone", 4_000)
    assert len(concise.windows) == answers
    assert all(fact.strip() in concise.text for fact in facts)
    assert concise.tokens <= min(1_200, full.tokens)


async def test_what_is_repeated_word_for_word_is_shown_once(shelf: ReadingHarness) -> None:
    data = "".join(filler(12_000, n) + FACT for n in range(5))
    answer = await ask(shelf, data.encode(), "Ouessant", 2_000)
    assert answer.text.count(FACT.strip()) == 1
    assert answer.windows[0].window.lines.first < data[:14_000].count("\n") + 1


@pytest.mark.parametrize(
    ("above", "line", "said"),
    [
        (
            "class Lamp:\n    def rotate(self):\n        x = 1\n\n",
            "        return keeper.ouessant\n",
            "def rotate(self):",
        ),
        ("server:\n  port: 1\n", "  ouessant: keeper\n", "server:"),
        ("# Lamps\n\nSome text.\n", "The keeper of Ouessant.\n", "# Lamps"),
        ("Some text.\n", "The keeper of Ouessant.\n", None),
        ("# a comment in code\nx = 1\n", "keeper(ouessant)\n", None),
        ("    7 lines\n", "     12 ouessant keeper\n", None),
    ],
    ids=["definition", "key", "heading", "prose", "comment", "column"],
)
def test_a_passage_names_the_line_that_introduces_it(
    shelf: ReadingHarness, above: str, line: str, said: str | None
) -> None:
    data = ("0\n" + above + line).encode()
    at = len(data) - len(line)
    made = composed(shelf.tokenizer, data, (at, len(data)))
    lines = data.decode().splitlines()
    under = "" if said is None else f", under line {[row.strip() for row in lines].index(said) + 1}: {said}"
    assert made.text.splitlines()[0] == f"¦ line {len(lines)}{under}"
    assert made.passages[0].window.bytes == Extent(at, len(data) - 1)


def test_a_passage_names_its_innermost_section(shelf: ReadingHarness) -> None:
    data = b"top\none\ntwo\nthree\nlast\n"
    sections = [
        Section(name="s1", title="All of it", level=1, start=4, end=18, line=2, lines=3),
        Section(name="s2", title="In it", level=2, start=8, end=12, line=3, lines=1),
    ]
    firsts = [
        composed(shelf.tokenizer, data, unit, sections=sections).text.split("\n")[0]
        for unit in ((0, 4), (4, 8), (8, 12), (12, 18), (18, 23))
    ]
    assert firsts == [
        "¦ line 1",
        "¦ line 2, section s1 All of it",
        "¦ line 3, section s2 In it",
        "¦ line 4, section s1 All of it",
        "¦ line 5",
    ]


async def test_of_what_a_search_found_longer_pieces_are_shown_than_of_other_json(shelf: ReadingHarness) -> None:
    results = [
        {"url": f"https://x.example/{n}", "title": f"Lighthouse {n}", "content": filler(1_500, n) + FACT}
        for n in range(12)
    ]
    data = json.dumps(results).encode()
    found = await ask(shelf, data, "lighthouse keeper", 600, kind=Kind.SEARCH_RESULTS)
    other = await ask(shelf, data, "lighthouse keeper", 600, kind=Kind.JSON)
    assert len(found.windows) < len(other.windows)
    assert min(each.window.bytes.start for each in found.windows) < len(data) // 4


async def test_only_what_was_visible_is_found_and_shown(shelf: ReadingHarness) -> None:
    bar = "".join(f"lighthouse {n} %\r" for n in range(100))
    data = (
        filler(5_000) + bar + "keeper done\n" + filler(3_000, 2) + "the \x1b[1mlight\x1b[0mhouse: \x1b[31moil\x1b[0m\n"
    )
    number = await shelf.put(data.encode())
    answer = await asking(shelf)(CALLER, number, query="lighthouse")
    assert answer.windows == []
    answer = await asking(shelf)(CALLER, number, query="keeper oil")
    assert "keeper done" in answer.text
    assert "the lighthouse: oil" in answer.text
    assert "%" not in answer.text
    assert [passage.exact for passage in answer.windows] == [False, False]
