"""Changes for the contract suites: small, whole, told apart by what a test says about them."""

import hashlib
import itertools
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from coatcheck.core import ids
from coatcheck.core.artifact import Blob, DeclaredMetadata, DetectedMetadata, Kind, Measure, Placement, ReceiptRecord
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.encoding.seekable import FrameEncoder
from coatcheck.core.views.view import TEXT, Section, View, ViewMeasure
from coatcheck.ports.artifacts import DeleteArtifact, IdempotencyKey, NewView, StoreArtifact
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import Catalog, Overview
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.keys import Keys, SessionAccounts
from coatcheck.ports.maintenance import Upkeep
from coatcheck.ports.retention import Retention
from coatcheck.ports.telemetry import Accounts
from coatcheck.ports.text_index import TextIndex
from coatcheck_client.contract.answers import TokenCount
from support.clock import START

DAY = timedelta(days=1)
_numbers = itertools.count()
_rng = random.Random(20260301)


class Everything(Catalog, Upkeep, TextIndex, Keys, SessionAccounts, Decisions, Accounts, Retention, Overview, Protocol):
    """All faces of a catalogue, as every adapter has them."""

    def gather_commits(self, approaching: Callable[[], int]) -> None: ...
    def watch_commits(self, watch: Callable[[int, float, float], None]) -> None: ...


def fresh_blob_id() -> str:
    """A blob name that no test has used."""
    return new_blob_id(START, _rng.randbytes(10))


def store(
    content: bytes = b"hello\n",
    *,
    namespace: str = "acme",
    said: DeclaredMetadata | None = None,
    placement: Placement = "inline",
    now: datetime = START,
    ttl: int | None = None,
    idle_ttl: int | None = None,
    pinned: bool = False,
    key: IdempotencyKey | None = None,
    blob_id: str | None = None,
    text_view: NewView | None = None,
    survey: bytes | None = None,
    receipt: ReceiptRecord | None = None,
) -> StoreArtifact:
    """The change that stores this content; without `said` it is a call of its own."""
    sha256 = hashlib.sha256(content).digest()
    if said is None:
        said = DeclaredMetadata(tool_name="bash", tool_call_id=f"call_{next(_numbers)}")
    encoder, stored = _encoded(content)
    return StoreArtifact(
        namespace=namespace,
        identity=ids.identity(namespace, said.session, said.tool_call_id, sha256),
        declared=said,
        measure=Measure(
            size=len(content),
            lines=encoder.newlines,
            chars=encoder.chars,
            tokens=TokenCount(len(content) // 4, exact=True),
            sha256=sha256,
            utf8=True,
        ),
        facts=DetectedMetadata(kind=said.kind or Kind.TEXT),
        engine=1,
        blob=blob_of(content, placement=placement, blob_id=blob_id),
        inline=stored if placement == "inline" else None,
        ttl=ttl,
        idle_ttl=idle_ttl,
        pinned=pinned,
        now=now,
        key=key,
        text_view=text_view,
        survey=survey,
        receipt=receipt,
    )


def blob_of(content: bytes, *, placement: Placement = "inline", blob_id: str | None = None) -> Blob:
    """The blob that would hold this content."""
    encoder, stored = _encoded(content)
    assert encoder.index is not None
    return Blob(
        id=blob_id or fresh_blob_id(),
        placement=placement,
        size=len(content),
        stored_size=len(stored),
        sha256=hashlib.sha256(content).digest(),
        index=encoder.index.pack(),
    )


def view(text: bytes | None = b"one\ntwo\n", *, placement: Placement = "inline", extractor: str = "test 1") -> NewView:
    """A text view with this text; None: the payload itself is the view."""
    lines = (text or b"").count(b"\n")
    section = Section(name="s1", title="Über \0 uns", level=1, start=0, end=len(text or b""), line=1, lines=lines)
    result = Section(name="r1", title="", level=2, start=0, end=0, line=1, lines=0, url="https://example.org/")
    encoder, stored = _encoded(text or b"")
    measure = ViewMeasure(
        size=len(text or b""),
        lines=lines,
        chars=encoder.chars,
        tokens=TokenCount(3, exact=False),
    )
    return NewView(
        view=View(name=TEXT, extractor=extractor, partial=text is None, sections=(section, result), measure=measure),
        blob=None if text is None else blob_of(text, placement=placement),
        inline=stored if text is not None and placement == "inline" else None,
    )


def _encoded(content: bytes) -> tuple[FrameEncoder, bytes]:
    encoder = FrameEncoder()
    return encoder, encoder.feed(content) + encoder.finish()


def number_of(change: StoreArtifact) -> int:
    """The number that a change's artifact gets where nothing collides."""
    return ids.number(change.identity)


def deleting(change: StoreArtifact, at: datetime | None = None) -> DeleteArtifact:
    """The change that deletes what another stored, then or at this moment; its tombstone lasts for 30 days."""
    now = at or change.now
    return DeleteArtifact(namespace=change.namespace, number=number_of(change), now=now, tombstone_until=now + 30 * DAY)


def beginning(blob_id: str, namespace: str = "acme", lease: timedelta = timedelta(hours=1)) -> BeginUpload:
    """The intent of an upload."""
    return BeginUpload(namespace=namespace, blob_id=blob_id, placement="file", lease_until=START + lease)
