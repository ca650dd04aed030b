"""The one transaction of an ingest, for any number of them: fence, key, identity, blob, artifact, view.

The caller must have made the bytes durable before. Afterwards it must remove its bytes, unless `blob_used` says that
they are now referenced.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import asdict
from sqlalchemy import Connection, delete, insert, select, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes import holds, usage
from coatcheck.adapters.sql.changes.alter import redeclare
from coatcheck.adapters.sql.changes.dedupe import (
    PROBES,
    ArtifactSlot,
    Numberer,
    add_dead_blobs,
    bytes_of,
    find_corrupt,
    find_key,
    locate_identities,
    next_seqs,
    payload_of,
    resolve_blobs,
    take_intents,
    view_of,
)
from coatcheck.adapters.sql.changes.tombstone import Removal, lock_row, note_removal, release, remove, tombstone_of
from coatcheck.adapters.sql.changes.uploads import no_room
from coatcheck.adapters.sql.changes.views import ADD_SURVEY, ADD_VIEW, survey_row, view_row, wait_for_index
from coatcheck.adapters.sql.dialect import NAMESPACE, NOW, among, bind_seqs, equal
from coatcheck.adapters.sql.faults import TransactionConflict
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import artifacts, blobs, idempotency_keys, tombstones
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Gone
from coatcheck.core.policies.policy import expiry
from coatcheck.core.retention.audit import SCHEDULE
from coatcheck.ports.artifacts import (
    IdempotencyKey,
    IngestResult,
    KeyConflict,
    KeyRecord,
    StoreAnswer,
    StoreArtifact,
    UploadFenced,
)

_LOOKS = 8
"""For a slot that other replicas keep changing. Each attempt waits for one of them; then the transaction starts
again."""

_BY_SEQ = Prepared(rows.ARTIFACTS.where(equal(artifacts.c.seq)))
_THERE = Prepared(
    rows.ARTIFACTS.add_columns(artifacts.c.seq).where(
        artifacts.c.namespace == NAMESPACE, among(artifacts.c.seq, bind_seqs())
    )
)
_REMOVE_TOMBSTONE = Prepared(delete(tombstones).where(equal(tombstones.c.namespace, tombstones.c.number)))
_REMOVE_ENDED_KEY = Prepared(
    delete(idempotency_keys).where(
        equal(idempotency_keys.c.namespace, idempotency_keys.c.key), idempotency_keys.c.expires_at <= NOW
    )
)
_ADD_KEY = Prepared(insert(idempotency_keys), columns=idempotency_keys.c.keys())
_ADD_ARTIFACT = Prepared(insert(artifacts), columns=artifacts.c.keys())


def apply_stores(
    conn: Connection, changes: Sequence[StoreArtifact], number: Numberer = ids.number
) -> list[StoreAnswer]:
    """Stores artifacts of one namespace, or returns the existing ones; an answer for each.

    The answers and effects are those of one change after the other: the changes of a group wait for the same commit, so
    any order is valid. All that the changes have in common is done by one statement for all of them.
    """
    # Room comes first: a refused change must leave its intent, so that it can be retried once there is room.
    answers: dict[int, StoreAnswer] = {}
    for at, change in enumerate(changes):
        full = no_room(conn, change, number)
        if full is not None:
            answers[at] = full
    # The fence: without an intent an upload was reaped, and the sweep may have its bytes by now.
    passed = take_intents(conn, [payload_of(change) for at, change in enumerate(changes) if at not in answers])
    for at, change in enumerate(changes):
        if at not in answers and change.blob.placement != "inline":
            if change.blob.id not in passed:
                answers[at] = UploadFenced()
            passed.discard(change.blob.id)  # an intent can be used only once
    fenced_in = [at for at in range(len(changes)) if at not in answers]
    looks = 0
    while pending := {at: changes[at] for at in fenced_in if at not in answers}:
        stored = _store_round(conn, _without_twins(pending, number), number)
        # Nothing is stored if other replicas have changed every slot since it was found: then look again.
        looks = 0 if stored else looks + 1
        if looks == _LOOKS:
            raise TransactionConflict
        answers |= stored
    # Whatever the outcome, the file of a payload that nothing points at must be known to the sweep.
    add_dead_blobs(conn, [payload_of(changes[at]) for at in fenced_in if not _is_used(answers[at])])
    return [answers[at] for at in range(len(changes))]


def _is_used(answer: StoreAnswer) -> bool:
    return isinstance(answer, IngestResult) and answer.blob_used


def _without_twins(changes: dict[int, StoreArtifact], number: Numberer) -> dict[int, StoreArtifact]:
    """Returns the changes without those that must see what an earlier one has done.

    These share an identity, a key or bytes with it, or may want the number of one that waits for that reason.
    """
    batch: dict[int, StoreArtifact] = {}
    seen_claims: set[object] = set()
    waiting_numbers: set[int] = set()
    for at, change in changes.items():
        claims = {change.identity, change.key and change.key.key, *(ours.content for ours in bytes_of(change))} - {None}
        numbers = {number(change.identity, probe) for probe in range(PROBES)}
        if seen_claims.isdisjoint(claims) and waiting_numbers.isdisjoint(numbers):
            batch[at] = change
        else:
            # Nobody behind it may take the number that it would have got first.
            waiting_numbers |= numbers
        seen_claims |= claims
    return batch


def _store_round(conn: Connection, changes: dict[int, StoreArtifact], number: Numberer) -> dict[int, StoreAnswer]:
    """Stores what can be stored now; a change without an answer lost its slot to another replica."""
    # Keys first: a request that was answered before gets its answer, whatever has happened to the slot since.
    answers: dict[int, StoreAnswer] = {}
    for at, change in changes.items():
        record = None if change.key is None else find_key(conn, change.namespace, change.key.key, change.now)
        if record is not None and change.key is not None:
            same = record.fingerprint == change.key.fingerprint
            answers[at] = _replay(conn, change, record) if same else KeyConflict()
    new = {at: change for at, change in changes.items() if at not in answers}
    located = dict(zip(new, locate_identities(conn, list(new.values()), number), strict=True)) if new else {}
    # Slots next: what is live is returned, what prevails over a late change is too, and the rest is cleared.
    creations: dict[int, _Creation] = {}
    existing: dict[int, tuple[StoreArtifact, int]] = {}
    for at, slot in located.items():
        change = new[at]
        if slot.seq is not None and slot.is_live(change.now):
            existing[at] = change, slot.seq
            continue
        answer = _outdone(change, slot) or _clear_slot(conn, change, slot)
        if isinstance(answer, _Creation):
            creations[at] = answer
        elif answer is not None:
            answers[at] = answer
    answers |= _answer_existing(conn, existing)
    answers |= _create(conn, creations)
    # A key is remembered with the number that was found, even if the artifact existed: a replay must find the same.
    for at, change in new.items():
        answer = answers.get(at)
        if change.key is not None and isinstance(answer, IngestResult):
            _remember(conn, change, change.key, located[at].number, created=answer.created)
    return answers


def _answer_existing(conn: Connection, existing: dict[int, tuple[StoreArtifact, int]]) -> dict[int, StoreAnswer]:
    """Returns the artifacts that exist, declared as in these changes, and with the bytes that they had lost."""
    if not existing:
        return {}
    changes = [change for change, _ in existing.values()]
    parameters = {"namespace": changes[0].namespace, "seqs": [seq for _, seq in existing.values()]}
    artifacts_by_seq = {row[-1]: rows.artifact(row) for row in _THERE.rows(conn, parameters)}
    # Two statements show which repeated posts need no write at all.
    corrupt = find_corrupt(conn, [view for change in changes if (view := view_of(change)) is not None])
    answers: dict[int, StoreAnswer] = {}
    for at, (change, seq) in existing.items():
        artifact, view = artifacts_by_seq.get(seq), view_of(change)
        if artifact is None:
            continue  # deleted meanwhile
        is_whole = not artifact.blob.condemned and (view is None or view.content not in corrupt)
        if is_whole and not redeclares(change, artifact):
            answers[at] = IngestResult(artifact, created=False, blob_used=False)
        elif (answer := _repeat_post(conn, change, seq)) is not None:
            answers[at] = answer
    return answers


def _there(conn: Connection, change: StoreArtifact, seq: int, *, created: bool) -> IngestResult | None:
    """Returns the existing artifact, after replacing lost bytes with ours. None: it was deleted meanwhile."""
    artifact = _read_artifact(conn, seq)
    if artifact is None:
        return None
    view = view_of(change)
    if view is not None and find_corrupt(conn, [view]):
        resolve_blobs(conn, [view])
    # Only the same bytes replace lost ones.
    if not artifact.blob.condemned or artifact.blob.sha256 != change.blob.sha256:
        return IngestResult(artifact, created=created, blob_used=False)
    if not lock_row(conn, seq):
        return None
    used = resolve_blobs(conn, [payload_of(change)])[0].used
    return IngestResult(_read_artifact(conn, seq) or artifact, created=created, blob_used=used)


def _read_artifact(conn: Connection, seq: int) -> Artifact | None:
    return next(map(rows.artifact, _BY_SEQ.rows(conn, {"seq": seq})), None)


def _repeat_post(conn: Connection, change: StoreArtifact, seq: int) -> IngestResult | None:
    """Returns the existing artifact, declared as in this change. None: it was deleted meanwhile."""
    answer = _there(conn, change, seq, created=False)
    if answer is None or not redeclares(change, answer.artifact):
        return answer
    if not redeclare(conn, change, seq, answer.artifact):
        return None
    artifact = _read_artifact(conn, seq) or answer.artifact
    return IngestResult(artifact, created=False, blob_used=answer.blob_used, redeclared=True)


def redeclares(change: StoreArtifact, there: Artifact) -> bool:
    """Returns whether a change declares an existing artifact differently, or finds the form of its text.

    A late change never does.
    """
    is_new = change.declared.merged_over(there.declared) is not there.declared or (
        there.lacks_form and change.facts.form is not None
    )
    return change.unless_buried_since is None and is_new


def _outdone(change: StoreArtifact, slot: ArtifactSlot) -> Gone | None:
    """Returns the tombstone, or expiry, of a removal that prevails over this change."""
    since = change.unless_buried_since
    return slot.tombstone if since is not None and slot.tombstone is not None and slot.tombstone.at > since else None


def _replay(conn: Connection, change: StoreArtifact, key_record: KeyRecord) -> IngestResult | Gone | None:
    """Returns the earlier answer to this request. It never revives what was removed since."""
    columns = (artifacts.c.seq, artifacts.c.expires_at, artifacts.c.tool_name, artifacts.c.session)
    mine = (artifacts.c.namespace == change.namespace, artifacts.c.number == key_record.number)
    row = conn.execute(select(*columns).where(*mine)).first()
    if row is None:
        return tombstone_of(conn, change.namespace, key_record.number, change.now)
    if row.expires_at is not None and row.expires_at <= change.now:
        return rows.make_tombstone(key_record.number, "expired", row.expires_at, row.tool_name, row.session)
    answer = _there(conn, change, row.seq, created=key_record.created)
    # The artifact was deleted between two statements: begin again, and find its tombstone.
    if answer is None:
        raise TransactionConflict
    return answer


def _remember(conn: Connection, change: StoreArtifact, key: IdempotencyKey, number: int, *, created: bool) -> None:
    # A key that has ended may stand for a new request.
    _REMOVE_ENDED_KEY.run(conn, {"namespace": change.namespace, "key": key.key, "now": change.now})
    _ADD_KEY.run(conn, {"namespace": change.namespace, "number": number, "created": created, **asdict(key)})


class _Creation(NamedTuple):
    """A change that creates an artifact in a slot that is free now."""

    change: StoreArtifact
    number: int
    blob_seqs: list[int]
    """Blobs of what was removed from the slot, to be released."""


def _clear_slot(conn: Connection, change: StoreArtifact, slot: ArtifactSlot) -> _Creation | IngestResult | None:
    """Removes what is in the way, which reserves the slot until the transaction ends.

    Returns the artifact that is there if a hold forbids replacing it, revived. None: another replica was first, and
    nothing is changed.
    """
    blob_seqs: list[int] = []
    if slot.seq is not None:
        if not lock_row(conn, slot.seq):
            return None
        if holds.holds_of(conn, slot.seq, change.now) is not None:
            return _revive(conn, change, slot.seq)
        blob_seqs = remove(conn, [slot.seq], change.now)
        _note_expiry(conn, change, slot)
    if slot.tombstone is not None:
        _expect_unburied(conn, change, slot.number)
        removed = _REMOVE_TOMBSTONE.run(conn, {"namespace": change.namespace, "number": slot.number})
        # Another replica has replaced the tombstone, and so has the slot.
        if slot.seq is None and not removed:
            return None
    if slot.blob_seq is not None:
        blob_seqs.append(slot.blob_seq)
    return _Creation(change, slot.number, blob_seqs)


def _create(conn: Connection, creations: dict[int, _Creation]) -> dict[int, StoreAnswer]:
    """Creates artifacts; what they share with the store, and with each other, is kept once."""
    if not creations:
        return {}
    changes = [each.change for each in creations.values()]
    brought = [bytes_of(change) for change in changes]
    # Numbers come in pairs of blob and artifact; the artifact's number beside a view's blob stays unused.
    seqs = next_seqs(conn, sum(map(len, brought)))
    references = iter(
        resolve_blobs(conn, [ours for each in brought for ours in each], iter([blob_seq for blob_seq, _ in seqs]))
    )
    answers: dict[int, StoreAnswer] = {}
    artifact_rows: list[dict[str, Any]] = []
    view_rows: list[dict[str, Any]] = []
    survey_rows: list[dict[str, Any]] = []
    for (at, creation), each, (_, seq) in zip(creations.items(), brought, seqs, strict=False):
        change, payload = creation.change, next(references)
        view = next(references) if len(each) > 1 else None
        artifact = artifact_of(change, creation.number, payload.blob)
        artifact_rows.append(artifact_row(change, artifact, creation.number, payload.seq) | {"seq": seq})
        if change.text_view is not None:
            view_rows.append(view_row(change.namespace, change.text_view, seq, None if view is None else view.seq))
        if change.survey is not None:
            survey_rows.append(survey_row(change.namespace, seq, change.survey))
        answers[at] = IngestResult(artifact, created=True, blob_used=payload.used)
    # Two replicas that store the same artifacts meet at the same row first, which prevents deadlocks.
    artifact_rows.sort(key=itemgetter("number"))
    _ADD_ARTIFACT.many(conn, artifact_rows)
    # Foreign keys point from views and surveys to the artifacts.
    ADD_VIEW.many(conn, view_rows)
    ADD_SURVEY.many(conn, survey_rows)
    usage.count(conn, changes[0].namespace, artifacts=len(artifact_rows))
    wait_for_index(conn, changes[0].namespace, [row["seq"] for row in artifact_rows])
    # The rows of what was replaced are gone, but what is stored now may share its blobs.
    blob_seqs = [blob_seq for each in creations.values() for blob_seq in each.blob_seqs]
    if blob_seqs:
        release(conn, blob_seqs, changes[0].now)
    for each in creations.values():
        _expect_unburied(conn, each.change, each.number)
    return answers


def _revive(conn: Connection, change: StoreArtifact, seq: int) -> IngestResult | None:
    """Revives the expired, held artifact here: a hold forbids replacing it."""
    created_at: datetime = conn.execute(select(artifacts.c.created_at).where(artifacts.c.seq == seq)).scalar_one()
    life = rows.life_from_now(created_at, change.now, ttl=change.ttl, idle_ttl=change.idle_ttl, pinned=change.pinned)
    conn.execute(update(artifacts).where(artifacts.c.seq == seq).values(life))
    return _repeat_post(conn, change, seq)


def _note_expiry(conn: Connection, change: StoreArtifact, slot: ArtifactSlot) -> None:
    """Records in the audit log that an expired artifact was removed before its sweep, because it is stored again."""
    size: int = conn.scalar(select(blobs.c.size).where(blobs.c.seq == slot.blob_seq)) or 0
    note_removal(conn, change.namespace, Removal("expired", change.now, change.now, SCHEDULE), slot.number, size)


def _expect_unburied(conn: Connection, change: StoreArtifact, number: int) -> None:
    """Raises TransactionConflict if another replica stored and deleted the same between our look-up and our insert."""
    if change.unless_buried_since is None:
        return
    number_is_mine = (tombstones.c.namespace == change.namespace, tombstones.c.number == number)
    statement = select(tombstones.c.at).where(*number_is_mine, tombstones.c.identity == change.identity)
    at = conn.scalar(statement.with_for_update())
    if at is not None and at > change.unless_buried_since:
        raise TransactionConflict


_LIFE = ("namespace", "ttl", "idle_ttl", "pinned", "engine")
"""Fields of the change that are those of the artifact and columns of its row."""


def artifact_of(change: StoreArtifact, number: int, blob: Blob) -> Artifact:
    """Returns the artifact that a change creates."""
    return Artifact(
        id=ids.render(number),
        declared=change.declared,
        measure=change.measure,
        facts=change.facts,
        blob=blob,
        created_at=change.now,
        expires_at=expiry(change.now, change.now, ttl=change.ttl, idle_ttl=change.idle_ttl, pinned=change.pinned),
        **{name: getattr(change, name) for name in _LIFE},
    )


def artifact_row(change: StoreArtifact, artifact: Artifact, number: int, blob_seq: int) -> dict[str, Any]:
    """Returns its row, without its sequence number."""
    # The text names the ID that its request expected.
    receipt = change.receipt if number == ids.number(change.identity) else None
    return {
        "number": number,
        "identity": change.identity,
        "blob_seq": blob_seq,
        "session": change.declared.session,
        "created_at": change.now,
        "read_at": change.now,
        "expires_at": artifact.expires_at,
        "labels": rows.encode_labels(change.declared.labels),
        "measure": rows.encode(change.measure),
        "declared_at": None,
        "receipt": None if receipt is None else rows.encode(receipt),
        **{name: getattr(change, name) for name in _LIFE},
        **rows.columns_of_metadata(change.declared, change.facts),
    }
