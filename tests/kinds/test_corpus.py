"""The kind is told from the bytes alone, measured on files and outputs of this very environment."""

from collections import Counter
from itertools import chain

import pytest

from coatcheck.core.artifact import DeclaredMetadata, Kind
from coatcheck.core.kinds.classify import classify
from coatcheck.core.kinds.description import PayloadProbe
from core.sample_payloads import sample_of
from kinds import made_logs, made_search, made_tables
from kinds.corpus import Item, assemble
from kinds.sets import everywhere

PER_KIND = 60
RIGHT = 0.9
EACH = 0.75
"""Of every kind, so that none is bought with another."""


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    return assemble(everywhere(tmp_path_factory.mktemp("corpus"), quick=True), PER_KIND)


def test_the_set_has_hundreds_of_payloads_and_at_least_fifteen_of_every_kind(items: list[Item]) -> None:
    counts = Counter(item.kind for item in items)
    assert len(items) >= 400
    assert {kind for kind in Kind if counts[kind] >= 15} == set(Kind)
    assert {item.half for item in items} == {"tune", "test"}


def test_nine_of_ten_kinds_are_told_without_a_tool_a_media_type_or_a_name(items: list[Item]) -> None:
    judged = [(item, classify(PayloadProbe(sample_of(item.data), DeclaredMetadata()))) for item in items]
    wrong = [f"{item.kind} taken for {kind}: {item.family}, {item.name}" for item, kind in judged if item.kind != kind]
    assert len(wrong) <= (1 - RIGHT) * len(items), "\n".join(wrong)
    right = Counter(item.kind for item, kind in judged if item.kind is kind)
    total = Counter(item.kind for item in items)
    assert {kind: right[kind] / total[kind] for kind in Kind if right[kind] < EACH * total[kind]} == {}


def test_what_is_made_is_the_same_every_time() -> None:
    def made() -> list[Item]:
        return assemble(chain(made_logs.logs(1), made_tables.tables(1), made_search.searches(1)), PER_KIND)

    assert made() == made()
