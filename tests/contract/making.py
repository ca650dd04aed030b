"""Changes for the contract suites: small, whole, told apart by what a test says about them."""

import hashlib
import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Protocol

from coatcheck.core import ids
from coatcheck.core.artifact import Blob, Facts, Kind, Measure, Placement, Said, Tokens
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.seekable import FrameEncoder
from coatcheck.ports import Catalog, IdempotencyKey, StoreArtifact, Upkeep

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
"""In the past of every clock: a sweep believes no moment that its database has not reached."""
DAY = timedelta(days=1)
_numbers = itertools.count()
_rng = random.Random(20260301)


class Everything(Catalog, Upkeep, Protocol):
    """Both faces of a catalogue, as every adapter has them."""


def fresh_blob_id() -> str:
    """A blob name that no test has used."""
    return new_blob_id(START, _rng.randbytes(10))


def store(
    content: bytes = b"hello\n",
    *,
    namespace: str = "acme",
    said: Said | None = None,
    placement: Placement = "inline",
    now: datetime = START,
    ttl: int | None = None,
    idle_ttl: int | None = None,
    pinned: bool = False,
    key: IdempotencyKey | None = None,
    blob_id: str | None = None,
) -> StoreArtifact:
    """The change that stores this content; without `said` it is a call of its own."""
    sha256 = hashlib.sha256(content).digest()
    if said is None:
        said = Said(tool_name="bash", tool_call_id=f"call_{next(_numbers)}")
    encoder = FrameEncoder()
    stored = encoder.feed(content) + encoder.finish()
    assert encoder.index is not None
    return StoreArtifact(
        namespace=namespace,
        identity=ids.identity(namespace, said.session, said.tool_call_id, sha256),
        said=said,
        measure=Measure(
            size=len(content),
            lines=encoder.newlines,
            chars=encoder.chars,
            tokens=Tokens(len(content) // 4, exact=True),
            sha256=sha256,
            utf8=True,
        ),
        facts=Facts(kind=said.kind or Kind.TEXT),
        engine=1,
        blob=Blob(
            id=blob_id or fresh_blob_id(),
            placement=placement,
            size=len(content),
            stored_size=len(stored),
            sha256=sha256,
            index=encoder.index.pack(),
        ),
        inline=stored if placement == "inline" else None,
        ttl=ttl,
        idle_ttl=idle_ttl,
        pinned=pinned,
        now=now,
        key=key,
    )


def number_of(change: StoreArtifact) -> int:
    """The number that a change's artifact gets where nothing collides."""
    return ids.number(change.identity)
