"""Every number, name and range on the cards of thousands of payloads is what other programs say of them.

The oracles are `json`, `csv`, `sqlite3`, `ast`, `zipfile`, `tarfile`, `wave`, `html.parser`, PyYAML, `git` and plain
counting. A line on a card that no oracle understands is a failure, too.
"""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from coatcheck.core.artifact import Kind
from facts import (
    made_git,
    made_interfaces,
    made_json,
    made_large,
    made_manifests,
    made_manuals,
    made_media,
    made_output,
    made_pages,
    made_records,
    made_settings,
    made_source,
    made_tables,
)
from facts.cases import Case, shown
from facts.made_databases import databases
from facts.says_media import ArchiveOracle, HeaderOracle
from facts.says_views import hold_archive, hold_database
from facts.told import hold

Maker = Callable[[random.Random, int], Iterator[Case]]
MAKERS: Final[tuple[tuple[Maker, int], ...]] = (
    (made_json.documents, 280),
    (made_json.lines, 80),
    (made_json.findings, 60),
    (made_json.broken, 80),
    (made_json.notebooks, 60),
    (made_tables.quoted, 120),
    (made_tables.plain, 120),
    (made_tables.wide, 20),
    (made_tables.held, 100),
    (made_media.images, 120),
    (made_media.sounds, 40),
    (made_media.packed, 40),
    (made_media.unknown, 60),
    (made_media.encoded, 40),
    (made_media.mails, 60),
    (made_source.library, 80),
    (made_source.python, 150),
    (made_source.script, 100),
    (made_source.markdown, 100),
    (made_interfaces.interfaces, 120),
    (made_manifests.manifests, 80),
    (made_manuals.manuals, 120),
    (made_settings.titled, 60),
    (made_git.unified, 80),
    (made_pages.pages, 120),
    (made_pages.results, 80),
    (made_output.tests, 120),
    (made_output.statuses, 40),
    (made_output.findings, 100),
    (made_output.matches, 110),
    (made_output.headed, 60),
    (made_output.nothing_to_count, 110),
    (made_output.tiny, 150),
    (made_large.large, 10),
    (made_records.reports, 90),
    (made_records.manifests, 40),
    (made_records.columns, 60),
    (made_records.pairs, 40),
    (made_records.sarif, 40),
    (made_records.keyed, 60),
    (made_records.streamed, 10),
)
ARCHIVES: Final = ((made_media.zips, 40), (made_media.tars, 40))
DATABASES: Final = 40
GIT: Final = ((made_git.git_diffs, 80), (made_git.logs, 80), (made_git.patches, 40), (made_git.mails, 40))
BUDGETS: Final = (80, 128, 256, 400, 600, 1024, 2048)


def _name(maker: Callable[..., object]) -> str:
    return maker.__name__.replace("_", " ")


def _hold(rng: random.Random, case: Case) -> int:
    return hold(shown(case, rng.choice(BUDGETS)))


def test_there_are_thousands_of_payloads_of_every_kind() -> None:
    assert sum(count for _, count in (*MAKERS, *ARCHIVES, *GIT)) + DATABASES >= 2_500
    kinds = {
        shown(case, 256).facts.kind
        for maker, _ in MAKERS
        if maker not in {made_large.large, made_records.streamed}
        for case in islice(maker(random.Random(1), 12), 12)
    }
    assert kinds == set(Kind)


@pytest.mark.parametrize(("maker", "count"), MAKERS, ids=[_name(maker) for maker, _ in MAKERS])
def test_every_fact_of(maker: Maker, count: int) -> None:
    rng = random.Random(_name(maker))
    facts = sum(_hold(rng, case) for case in maker(rng, count))
    assert facts or maker in {made_output.nothing_to_count, made_output.headed}


@pytest.mark.parametrize(("maker", "count"), ARCHIVES, ids=[_name(maker) for maker, _ in ARCHIVES])
def test_every_fact_of_archives_and_of_their_text(maker: Maker, count: int) -> None:
    rng = random.Random(_name(maker))
    for case in maker(rng, count):
        card = shown(case, rng.choice(BUDGETS))
        hold(card)
        oracle = case.oracles[-1]
        assert isinstance(oracle, ArchiveOracle)
        if card.extracted is not None:
            hold_archive(card.view.decode(), oracle, oracle.files, whole=not card.extracted.partial)


def test_every_fact_of_databases_and_of_their_text() -> None:
    rng = random.Random(7)
    for data, connection in databases(rng, DATABASES):
        card = shown(Case(data, (HeaderOracle("SQLite database"),), kinds=(Kind.BINARY,)), rng.choice(BUDGETS))
        hold(card)
        assert card.extracted is not None
        hold_database(card.view.decode(), connection)


def test_every_fact_of_what_git_prints(tmp_path: Path) -> None:
    rng = random.Random(11)
    repository = made_git.Repository(tmp_path, rng)
    repository.grow(60)
    for maker, count in GIT:
        assert sum(_hold(rng, case) for case in maker(rng, count, repository))
