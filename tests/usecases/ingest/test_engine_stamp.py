"""A card is cut by the engine of today: it recognises again what another one did, and takes its own facts as stored."""

import contextlib
import json
import sqlite3
from typing import Any

from coatcheck.core import ids
from coatcheck.core.artifact import ENGINE
from support.harness import CALLER, Harness

PAYLOAD = json.dumps([{"host": f"node{n}", "load": n} for n in range(400)], indent=1).encode()
FORGED = "Forged: a fact that only the row states"
RUN = {"session": "s", "tool_name": "bash", "command": "make"}


def rewrite(harness: Harness, artifact_id: str, engine: int, **facts: object) -> None:
    """Change the stamp and the stored facts of an artifact in its row, behind the service's back."""
    with contextlib.closing(sqlite3.connect(harness.root / "coatcheck.db")) as conn, conn:
        where = (ids.parse(artifact_id),)
        stored = json.loads(conn.execute("SELECT facts FROM artifacts WHERE number = ?", where).fetchone()[0])
        changed = json.dumps(stored | facts)
        conn.execute("UPDATE artifacts SET engine = ?, facts = ? WHERE number = ?", (engine, changed, *where))


async def card_of(harness: Harness, artifact_id: str) -> str:
    return (await harness.describe()(CALLER, ids.parse(artifact_id))).text


async def test_facts_that_this_engine_recognised_are_taken_as_stored(harness: Harness) -> None:
    receipt = await harness.put(PAYLOAD)
    rewrite(harness, receipt.id, ENGINE, shape=[FORGED])
    assert FORGED in (await card_of(harness, receipt.id)).splitlines()


async def test_facts_that_another_engine_recognised_are_recognised_again(harness: Harness) -> None:
    receipt = await harness.put(PAYLOAD)
    rewrite(harness, receipt.id, ENGINE - 1, shape=[FORGED])
    assert await card_of(harness, receipt.id) == receipt.text


async def test_the_comparison_made_at_ingest_outlives_its_engine(harness: Harness) -> None:
    await harness.put(PAYLOAD, said=RUN)
    receipt = await harness.put(PAYLOAD + b"\n[1]", said=RUN, compare_to="previous")
    rewrite(harness, receipt.id, ENGINE - 1, shape=[FORGED])
    assert "Compared with" in receipt.text
    assert await card_of(harness, receipt.id) == receipt.text


LOG = b"".join(
    b"tests/test_a.py::test_%d %s [%3d%%]\n" % (n, (b"PASSED", b"SKIPPED")[n % 3 == 0], n * 4) for n in range(24)
)


async def test_a_payload_that_is_answered_whole_gets_the_card_that_it_would_have_got(harness: Harness) -> None:
    carded = await harness.put(LOG, said={"session": "a"}, inline_tokens=0)
    offers: tuple[tuple[str, dict[str, Any]], ...] = (("b", {"inline_tokens": 2000}), ("c", {"with_card": False}))
    for session, offer in offers:
        receipt = await harness.put(LOG, said={"session": session}, **offer)
        assert receipt.text in {LOG.decode(), ""}
        assert " lines: outcome " in carded.text  # a fact that only a card shows
        assert await card_of(harness, receipt.id) == carded.text.replace(carded.id, receipt.id)
        again = await harness.put(LOG, said={"session": session}, inline_tokens=0)
        assert (again.id, again.created, again.text) == (receipt.id, False, await card_of(harness, receipt.id))
