"""No response is shown as empty that is not, no failure is kept as a search that found nothing, and the reverse."""

import json

import pytest

from coatcheck.core.search.budget import budget_search
from coatcheck.core.search.budget_model import Budgeted
from coatcheck.core.search.summary import SearchSummary, summarise
from coatcheck_client.contract.inert import one_line
from search.responses import FAILED, FOUND, ID, NOTHING, ONE, OTHER, READ, TOKENIZER, TWO, WORDS, laid_out


def searched(body: object) -> tuple[Budgeted, SearchSummary]:
    laid = laid_out(body if isinstance(body, str) else json.dumps(body))
    made = budget_search(laid, TOKENIZER, query="x", artifact_id=ID)
    return made, summarise(made, laid, TOKENIZER)


def test_the_tables_are_as_long_as_they_should_be() -> None:
    assert len(FOUND) + len(READ) + len(NOTHING) >= 40
    assert len(FAILED) >= 12


@pytest.mark.parametrize("name", FOUND)
def test_results_of_any_shape_are_read_with_titles_and_texts(name: str) -> None:
    made, summary = searched(FOUND[name])
    assert [each.result.title for each in made.shown_results] == ["One", "Two"]
    for shown, text in zip(made.shown_results, (WORDS, OTHER), strict=True):
        assert text in shown.block
        assert "<" not in shown.block
    assert {each.result.url for each in made.shown_results} in ({ONE, TWO}, {"a.example/1", "b.example/2"}, {None})
    assert summary.text.startswith("¦ searched 'x': 2 results, 2 read\n")
    assert all(f"{ID}#r{n}" in summary.text for n in (1, 2))


@pytest.mark.parametrize("name", READ)
def test_what_has_no_list_of_results_is_shown_all_the_same(name: str) -> None:
    body, words = READ[name]
    made, summary = searched(body)
    assert one_line(words) in one_line(made.text)
    assert "0 results" not in made.text
    assert "0 results" not in summary.text
    assert ID in summary.text


@pytest.mark.parametrize("name", FAILED)
def test_a_failure_is_told_this_turn_and_in_what_stays(name: str) -> None:
    body, reason = FAILED[name]
    made, summary = searched(body)
    assert made.shown_results == ()
    for text in (made.text, summary.text):
        first = text.partition("\n")[0]
        assert reason in first or (reason in text and name == "searxng")
        assert "failed: " in first or name == "searxng"
        assert ID in first


@pytest.mark.parametrize("name", NOTHING)
def test_a_search_that_found_nothing_says_so(name: str) -> None:
    made, summary = searched(NOTHING[name])
    assert "0 results" in made.text
    assert "searched 'x': 0 results" in summary.text
    assert "failed" not in summary.text
