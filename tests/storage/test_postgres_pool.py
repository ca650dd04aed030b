"""Who asks much of PostgreSQL, and who must not suffer from it; and how few words a change takes."""
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from coatcheck.adapters.sql.dialect import mask_url
from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.adapters.sql.reads import listing
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import Touch
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from contract.sample_changes import START, number_of, store
from support.refusals import expect

LIMITS = PostgresLimits(connections=4, statement=5.0, listing=5.0, answer=6.0)


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[PostgresCatalog]:
    opened = await PostgresCatalog.open(url, limits=LIMITS)
    yield opened
    await opened.close()


def sleeps(seconds: float) -> Callable[[Connection], object]:
    return lambda conn: conn.execute(text("SELECT pg_sleep(:for)"), {"for": seconds}).all()


def codes(answers: list[Any]) -> list[Code | None]:
    return [answer.code if isinstance(answer, CoatcheckError) else None for answer in answers]


async def test_lists_that_take_long_keep_nobody_from_storing_and_reading(catalog: PostgresCatalog) -> None:
    change = store()
    lists = [asyncio.create_task(catalog.query_list("acme", sleeps(1.2))) for _ in range(24)]
    await asyncio.sleep(0)
    await catalog.commit(change)
    assert isinstance(await catalog.find("acme", number_of(change), START), FoundArtifact)
    await catalog.check_reads()
    assert not all(task.done() for task in lists)
    assert set(codes(await asyncio.gather(*lists, return_exceptions=True))) == {None, Code.OVERLOADED}


async def test_who_waits_in_vain_among_those_who_are_answered_is_told_of_a_crowd_and_not_of_an_outage(
    catalog: PostgresCatalog,
) -> None:
    answers = await asyncio.gather(*(catalog.ask("acme", sleeps(0.6)) for _ in range(24)), return_exceptions=True)
    assert set(codes(answers)) == {None, Code.OVERLOADED}


async def test_a_list_that_takes_too_long_is_cancelled_by_the_server(url: str) -> None:
    catalog = await PostgresCatalog.open(url, limits=PostgresLimits(connections=2, listing=0.2))
    with pytest.raises(CoatcheckError) as caught:
        await catalog.query_list("acme", sleeps(3.0))
    assert caught.value.code is Code.STORAGE_UNAVAILABLE
    assert "57014" in caught.value.detail
    await catalog.close()


async def test_a_list_that_stops_early_goes_on_where_it_stopped_and_misses_nothing(catalog: PostgresCatalog) -> None:
    for i in range(23):
        said = DeclaredMetadata(
            tool_call_id=str(i), labels=("rare",) if i % 9 == 0 else ("common",), session="s" if i > 3 else None
        )
        await catalog.commit(store(b"%d" % i, said=said))
    filters = {
        ArtifactFilter(label="rare"): ["18", "9", "0"],
        ArtifactFilter(label="rare", session="s"): ["18", "9"],
        ArtifactFilter(label="nobody's"): [],
        ArtifactFilter(session="s"): [str(i) for i in reversed(range(4, 23))],
    }
    for (where, wanted), (stretch, seconds) in product(
        filters.items(), ((1, 0.0), (2, 0.0), (5, 0.0), (5, 9.0), (23, 0.0), (24, 0.0))
    ):
        page_of = partial(
            listing.list_artifacts,
            namespace="acme",
            where=where,
            now=START,
            limit=2,
            stretch=stretch,
            seconds=seconds,
        )
        page = await catalog.query_list("acme", partial(page_of, before=None))
        seen = [artifact.declared.tool_call_id for artifact in page.artifacts]
        while page.before is not None:
            page = await catalog.query_list("acme", partial(page_of, before=page.before))
            seen += [artifact.declared.tool_call_id for artifact in page.artifacts]
        assert seen == wanted


async def test_noting_many_reads_takes_a_few_statements_however_many_they_are(catalog: PostgresCatalog) -> None:
    changes = [store(b"%d" % i, idle_ttl=600, namespace=f"n{i % 7}") for i in range(120)]
    await asyncio.gather(*map(catalog.commit, changes))
    said: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        said.append(statement)

    event.listen(catalog._engine.sync_engine, "before_cursor_execute", note)
    moment = START + timedelta(seconds=60)
    await catalog.commit(Touch(reads=tuple((c.namespace, number_of(c), moment) for c in changes)))
    assert len(said) == 2
    for change in changes:
        found = expect(FoundArtifact, await catalog.find(change.namespace, number_of(change), START))
        assert found.artifact.expires_at == moment + timedelta(seconds=600)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:5/d", "postgresql://u:***@h:5/d"),
        ("postgres://u@h/d?sslmode=require", "postgresql://u@h/d?sslmode=require"),
        ("postgresql://h/d?password=p&sslmode=require", "postgresql://h/d?password=***&sslmode=require"),
        ("postgresql://h/d?%70assword=p", "postgresql://h/d?%70assword=***"),
        (
            "postgresql://h/d?passfile=f&sslpassword=p&sslkey=k&SSLKEY=k&sslcert=c&host=/run",
            "postgresql://h/d?passfile=***&sslpassword=***&sslkey=***&SSLKEY=***&sslcert=c&host=/run",
        ),
        ("postgresql+asyncpg://u:p@h1:1,h2:2/d", "postgresql://u:***@h1:1,h2:2/d"),
        ("postgresql://u:p@/@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p?w@h/d", "postgresql://***"),
        ("postgresql:///d?host=/run", "postgresql:///d?host=/run"),
    ],
)
def test_no_message_shows_a_secret(url: str, shown: str) -> None:
    assert mask_url(url) == shown
