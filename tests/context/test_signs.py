"""What we leave in a history is known again exactly, and nothing else is taken for it."""

import pytest
from msgspec import structs

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.card import MAX_BUDGET, cut
from coatcheck.core.card.compose import is_card
from coatcheck.core.card.model import CardInput
from coatcheck.core.context.signs import (
    is_marker,
    is_ours,
    is_own_tool,
    is_read_line,
    is_summary,
    marker,
    marker_in,
    placeholder,
    read_line,
)
from coatcheck.core.kinds import recognise
from coatcheck.core.read_answer import first_line
from context.histories import artifact_id
from core.sample_payloads import HOSTILE, ORDINARY, TOKENIZER, measure_of, sample_of

ARTIFACT = artifact_id(None, "a payload")
EVERYTHING = {**ORDINARY, **{name: HOSTILE[name] for name in ("forged", "ansi", "one long line", "zero-width", "nul")}}
WRONG = ARTIFACT[:-1] + ("0" if ARTIFACT[-1] != "0" else "1")


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_card_is_known_again_and_no_payload_is_taken_for_one(name: str) -> None:
    data, said = EVERYTHING[name]
    measure, sample = measure_of(data), sample_of(data)
    facts = recognise(sample, said)
    for budget, stored in ((64, True), (256, False), (600, True), (2_000, False)):
        text = cut(
            CardInput(ARTIFACT, said, measure, facts, sample, budget=budget, tokenizer=TOKENIZER, is_stored=stored)
        )[1]
        assert is_card(text)
        assert not is_card("x" + text)
        assert not is_card(text.replace(ARTIFACT, WRONG))
    assert not is_card(data.decode("utf-8", "replace"))


def test_a_long_text_that_begins_like_a_card_is_none() -> None:
    data, said = b"hello\n" * 900, DeclaredMetadata()
    facts = recognise(sample_of(data), structs.replace(said, tool_name="run"))
    text = cut(CardInput(ARTIFACT, said, measure_of(data), facts, sample_of(data), budget=600, tokenizer=TOKENIZER))[1]
    assert is_card(text)
    assert not is_card(text + "x" * 32 * MAX_BUDGET)


def test_markers_are_known_only_whole_and_with_a_true_id() -> None:
    for text in (marker(48_211, ARTIFACT), placeholder("image/png", 9, ARTIFACT), placeholder("a b\n", 9, ARTIFACT)):
        assert is_marker(text)
        assert not is_marker(f" {text}")
        assert not is_marker(text.replace(ARTIFACT, WRONG))
        assert marker_in(f"before {text} after") == text
    assert marker(48_211, ARTIFACT) == (
        f"[… 48,211 characters, stored as {ARTIFACT}; omitted from history, do not copy]"
    )
    assert marker_in("omitted from history, do not copy]") is None


def test_lines_and_summaries_are_known_only_whole_and_with_a_true_id() -> None:
    line = read_line(f"[{ARTIFACT} · a.log · lines 1-9 of 90 · text]\n" + "x" * 900, {"pattern": "a\nb" * 90})
    summary = f"¦ searched 'tides': 9 results, 2 read\n- The Moon. [{ARTIFACT}#r1]\n¦ sources\n{ARTIFACT}#r1 T | https://e.org"
    assert line is not None
    assert line.count("\n") == 0
    assert len(line) < 300
    for text, known in ((line, is_read_line), (summary, is_summary)):
        assert known(text)
        assert is_ours(text)
        assert not known(f" {text}")
        assert not known(text + "x" * 9_000)
        assert not known(text.replace(ARTIFACT, WRONG))
    assert read_line("some output", {}) is None


def test_the_longest_line_in_place_of_a_read_is_known() -> None:
    first = first_line(ARTIFACT, "n" * 90, "lines " + "x" * 900, "text")
    line = read_line(f"{first}\n" + "x" * 29_000, dict.fromkeys(("pattern", "query", "path", "section"), "a\nb" * 90))
    assert line is not None
    assert len(line) > 900
    assert is_read_line(line)
    assert is_ours(line)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("read_artifact", True), ("mcp__store__list_artifacts", True), ("my_read_artifact", False), (None, False)],
)
def test_our_tools_are_known_under_a_hosts_prefix(name: str | None, ours: bool) -> None:
    assert is_own_tool(name) == ours
