"""Stores any number of ingested payloads in one transaction: fence, key, identity, blob, artifact, view.

The caller must have made the payloads' bytes durable before it calls. Afterwards the caller must delete the bytes that
it wrote, unless `blob_used` says that the catalogue now points at them.
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
from coatcheck.core.policies.quota import QuotaExceeded
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

_MAX_ATTEMPTS = 8
"""Attempts at a slot that other replicas keep changing, before the whole transaction starts again. Each attempt waits
for one of the replicas."""

_BY_SEQ = Prepared(rows.ARTIFACTS.where(equal(artifacts.c.seq)))
_BY_SEQS = Prepared(
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
    """Stores artifacts of one namespace, or finds the existing ones; returns an answer for each change, in their order.

    The answers and effects are the same as if the changes were carried out one after the other, in some order: since
    all of them wait for the same commit, any order is valid. Work that the changes have in common is done by one
    statement for all of them.

    Raises:
        TransactionConflict: other replicas kept changing the same slots; the transaction has to start again.
    """
    answers = _store_with_room(conn, changes, number)
    # A change claims room before it is known whether it needs any, so it may have taken the room of another one. What
    # was refused is tried again by itself, with the room that the others have left.
    for at, change in enumerate(changes if len(changes) > 1 else ()):
        if isinstance(answers[at], QuotaExceeded):
            answers[at] = _store_with_room(conn, [change], number)[0]
    return answers


def _store_with_room(conn: Connection, changes: Sequence[StoreArtifact], number: Numberer) -> list[StoreAnswer]:
    """Carries out the changes for all of which together there is room, and refuses the others; see `apply_stores`."""
    # The quota is checked first: a refused change must leave its intent, so that the caller can retry it once the
    # namespace has room.
    answers: dict[int, StoreAnswer] = {}
    for at, change in enumerate(changes):
        full = no_room(conn, change, number)
        if full is not None:
            answers[at] = full
    # The fence: if its intent is gone, an upload was reaped, and the sweep may already have deleted its bytes.
    passed = take_intents(conn, [payload_of(change) for at, change in enumerate(changes) if at not in answers])
    for at, change in enumerate(changes):
        if at not in answers and change.blob.placement != "inline":
            if change.blob.id not in passed:
                answers[at] = UploadFenced()
            passed.discard(change.blob.id)  # an intent can be used only once
    fenced_in = [at for at in range(len(changes)) if at not in answers]
    attempts = 0
    while pending := {at: changes[at] for at in fenced_in if at not in answers}:
        stored = _store_round(conn, _without_twins(pending, number), number)
        # Nothing is stored if other replicas have changed every slot since we located it: locate the slots again.
        attempts = 0 if stored else attempts + 1
        if attempts == _MAX_ATTEMPTS:
            raise TransactionConflict
        answers |= stored
    # Whatever the outcome, the sweep must know the file of each payload that nothing points at.
    add_dead_blobs(conn, [payload_of(changes[at]) for at in fenced_in if not _is_used(answers[at])])
    usage.reduce_claims(conn, changes[0].namespace)
    return [answers[at] for at in range(len(changes))]


def _is_used(answer: StoreAnswer) -> bool:
    return isinstance(answer, IngestResult) and answer.blob_used


def _without_twins(changes: dict[int, StoreArtifact], number: Numberer) -> dict[int, StoreArtifact]:
    """Returns the changes that can be carried out together. The others have to wait for the next round.

    A change waits if it shares an identity, a key or bytes with an earlier change, since it must see the effects of
    that change. It also waits if it may want the same number as a change that waits.
    """
    batch: dict[int, StoreArtifact] = {}
    seen_claims: set[object] = set()
    waiting_numbers: set[int] = set()
    for at, change in changes.items():
        claims = {change.identity, change.key and change.key.key, *(each.content for each in bytes_of(change))} - {None}
        numbers = {number(change.identity, probe) for probe in range(PROBES)}
        if seen_claims.isdisjoint(claims) and waiting_numbers.isdisjoint(numbers):
            batch[at] = change
        else:
            # No later change may take a number that the waiting change would have got first.
            waiting_numbers |= numbers
        seen_claims |= claims
    return batch


def _store_round(conn: Connection, changes: dict[int, StoreArtifact], number: Numberer) -> dict[int, StoreAnswer]:
    """Stores the changes whose slots can be used now; a change that gets no answer lost its slot to another replica."""
    # Keys come first: a repeated request gets its earlier answer, whatever has happened to the slot since.
    answers: dict[int, StoreAnswer] = {}
    for at, change in changes.items():
        record = None if change.key is None else find_key(conn, change.namespace, change.key.key, change.now)
        if record is not None and change.key is not None:
            same = record.fingerprint == change.key.fingerprint
            answers[at] = _replay(conn, change, record) if same else KeyConflict()
    new = {at: change for at, change in changes.items() if at not in answers}
    located = dict(zip(new, locate_identities(conn, list(new.values()), number), strict=True)) if new else {}
    # Slots are next. A live artifact is returned. A removal that prevails over a late change is returned. Every other
    # slot is cleared, so that the change can create its artifact there.
    creations: dict[int, _Creation] = {}
    existing: dict[int, tuple[StoreArtifact, int]] = {}
    for at, slot in located.items():
        change = new[at]
        if slot.seq is not None and slot.is_live(change.now):
            existing[at] = change, slot.seq
            continue
        answer = _find_later_removal(change, slot) or _clear_slot(conn, change, slot)
        if isinstance(answer, _Creation):
            creations[at] = answer
        elif answer is not None:
            answers[at] = answer
    answers |= _answer_existing(conn, existing)
    answers |= _create(conn, creations)
    # Each key is stored with the number of its artifact, even if the artifact existed before: a repeated request must
    # find the same artifact.
    for at, change in new.items():
        answer = answers.get(at)
        if change.key is not None and isinstance(answer, IngestResult):
            _remember(conn, change, change.key, located[at].number, created=answer.created)
    return answers


def _answer_existing(conn: Connection, existing: dict[int, tuple[StoreArtifact, int]]) -> dict[int, StoreAnswer]:
    """Answers changes whose artifacts exist: updates their declared metadata, and repairs bytes that were lost."""
    if not existing:
        return {}
    changes = [change for change, _ in existing.values()]
    parameters = {"namespace": changes[0].namespace, "seqs": [seq for _, seq in existing.values()]}
    artifacts_by_seq = {row[-1]: rows.artifact(row) for row in _BY_SEQS.rows(conn, parameters)}
    # Two queries for all changes together show which repeated posts need no write at all.
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


def _read_repaired(conn: Connection, change: StoreArtifact, seq: int, *, created: bool) -> IngestResult | None:
    """Returns the existing artifact, after replacing lost bytes by the change's bytes. None: it was deleted meanwhile.

    `created` is returned as given: it says whether the first request with this key created the artifact.
    """
    artifact = _read_artifact(conn, seq)
    if artifact is None:
        return None
    view = view_of(change)
    if view is not None and find_corrupt(conn, [view]):
        resolve_blobs(conn, [view])
    # Lost bytes can only be replaced by equal bytes.
    if not artifact.blob.condemned or artifact.blob.sha256 != change.blob.sha256:
        return IngestResult(artifact, created=created, blob_used=False)
    if not lock_row(conn, seq):
        return None
    used = resolve_blobs(conn, [payload_of(change)])[0].used
    return IngestResult(_read_artifact(conn, seq) or artifact, created=created, blob_used=used)


def _read_artifact(conn: Connection, seq: int) -> Artifact | None:
    return next(map(rows.artifact, _BY_SEQ.rows(conn, {"seq": seq})), None)


def _repeat_post(conn: Connection, change: StoreArtifact, seq: int) -> IngestResult | None:
    """Returns the existing artifact, with the declared metadata of this change. None: it was deleted meanwhile."""
    answer = _read_repaired(conn, change, seq, created=False)
    if answer is None or not redeclares(change, answer.artifact):
        return answer
    if not redeclare(conn, change, seq, answer.artifact):
        return None
    artifact = _read_artifact(conn, seq) or answer.artifact
    return IngestResult(artifact, created=False, blob_used=answer.blob_used, redeclared=True)


def redeclares(change: StoreArtifact, stored: Artifact) -> bool:
    """Returns whether a change adds to the metadata of an existing artifact.

    A change does so if it declares something new, or if it has detected the form of a text whose form is not known. A
    late change, which has `unless_buried_since`, never changes an existing artifact.
    """
    is_new = change.declared.merged_over(stored.declared) is not stored.declared or (
        stored.lacks_form and change.facts.form is not None
    )
    return change.unless_buried_since is None and is_new


def _find_later_removal(change: StoreArtifact, slot: ArtifactSlot) -> Gone | None:
    """Returns the later removal, by tombstone or expiry, that prevails over a late change; None if there is none."""
    since = change.unless_buried_since
    return slot.tombstone if since is not None and slot.tombstone is not None and slot.tombstone.at > since else None


def _replay(conn: Connection, change: StoreArtifact, key_record: KeyRecord) -> IngestResult | Gone | None:
    """Returns the earlier answer to this request; a repeated request never revives an artifact that was removed since.

    None: the artifact was removed, and its tombstone has ended too. Nothing is stored then either.
    """
    columns = (artifacts.c.seq, artifacts.c.expires_at, artifacts.c.tool_name, artifacts.c.session)
    conditions = (artifacts.c.namespace == change.namespace, artifacts.c.number == key_record.number)
    row = conn.execute(select(*columns).where(*conditions)).first()
    if row is None:
        return tombstone_of(conn, change.namespace, key_record.number, change.now)
    if row.expires_at is not None and row.expires_at <= change.now:
        return rows.make_tombstone(key_record.number, "expired", row.expires_at, row.tool_name, row.session)
    answer = _read_repaired(conn, change, row.seq, created=key_record.created)
    # The artifact was deleted between two statements. The next attempt at the transaction finds its tombstone.
    if answer is None:
        raise TransactionConflict
    return answer


def _remember(conn: Connection, change: StoreArtifact, key: IdempotencyKey, number: int, *, created: bool) -> None:
    # A key that has expired may be used for a new request.
    _REMOVE_ENDED_KEY.run(conn, {"namespace": change.namespace, "key": key.key, "now": change.now})
    _ADD_KEY.run(conn, {"namespace": change.namespace, "number": number, "created": created, **asdict(key)})


class _Creation(NamedTuple):
    """A change that creates an artifact, and the free slot for this artifact."""

    change: StoreArtifact
    number: int
    blob_seqs: list[int]
    """Row numbers of the blobs of an artifact that was removed from the slot; they must be released."""


def _clear_slot(conn: Connection, change: StoreArtifact, slot: ArtifactSlot) -> _Creation | IngestResult | None:
    """Removes an expired artifact and a tombstone from a slot, which reserves the slot until the transaction ends.

    Returns the creation that can now be carried out. If a hold forbids replacing the expired artifact, it is revived
    and returned instead. None: another replica has changed the slot, and nothing is changed here.
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
        # Another replica has removed the tombstone first, so the slot belongs to that replica.
        if slot.seq is None and not removed:
            return None
    if slot.blob_seq is not None:
        blob_seqs.append(slot.blob_seq)
    return _Creation(change, slot.number, blob_seqs)


def _create(conn: Connection, creations: dict[int, _Creation]) -> dict[int, StoreAnswer]:
    """Creates artifacts; bytes that they share with each other or with the store are kept once."""
    if not creations:
        return {}
    changes = [each.change for each in creations.values()]
    brought = [bytes_of(change) for change in changes]
    # Row numbers are drawn in pairs, for a blob and an artifact. A view's blob has no artifact of its own, so the
    # second number of its pair stays unused.
    seqs = next_seqs(conn, sum(map(len, brought)))
    references = iter(
        resolve_blobs(conn, [item for each in brought for item in each], iter([blob_seq for blob_seq, _ in seqs]))
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
    # Two replicas that store the same artifacts meet at the same row first if both insert in this order, so that they
    # do not deadlock.
    artifact_rows.sort(key=itemgetter("number"))
    _ADD_ARTIFACT.many(conn, artifact_rows)
    # Views and surveys come after the artifacts, to which their foreign keys point.
    ADD_VIEW.many(conn, view_rows)
    ADD_SURVEY.many(conn, survey_rows)
    usage.count(conn, changes[0].namespace, artifacts=len(artifact_rows))
    wait_for_index(conn, changes[0].namespace, [row["seq"] for row in artifact_rows])
    # The rows of the replaced artifacts are deleted. Their blobs are released only now, because the new artifacts may
    # share them.
    blob_seqs = [blob_seq for each in creations.values() for blob_seq in each.blob_seqs]
    if blob_seqs:
        release(conn, blob_seqs, changes[0].now)
    for each in creations.values():
        _expect_unburied(conn, each.change, each.number)
    return answers


def _revive(conn: Connection, change: StoreArtifact, seq: int) -> IngestResult | None:
    """Revives an expired artifact that must not be replaced because of a hold: its life begins again now."""
    created_at: datetime = conn.execute(select(artifacts.c.created_at).where(artifacts.c.seq == seq)).scalar_one()
    life = rows.life_from_now(created_at, change.now, ttl=change.ttl, idle_ttl=change.idle_ttl, pinned=change.pinned)
    conn.execute(update(artifacts).where(artifacts.c.seq == seq).values(life))
    return _repeat_post(conn, change, seq)


def _note_expiry(conn: Connection, change: StoreArtifact, slot: ArtifactSlot) -> None:
    """Records in the audit log that an expired artifact was removed before its sweep, because it is stored again."""
    size: int = conn.scalar(select(blobs.c.size).where(blobs.c.seq == slot.blob_seq)) or 0
    note_removal(conn, change.namespace, Removal("expired", change.now, change.now, SCHEDULE), slot.number, size)


def _expect_unburied(conn: Connection, change: StoreArtifact, number: int) -> None:
    """Raises TransactionConflict if another replica has removed the artifact of a late change since our look-up."""
    if change.unless_buried_since is None:
        return
    number_is_mine = (tombstones.c.namespace == change.namespace, tombstones.c.number == number)
    statement = select(tombstones.c.at).where(*number_is_mine, tombstones.c.identity == change.identity)
    at = conn.scalar(statement.with_for_update())
    if at is not None and at > change.unless_buried_since:
        raise TransactionConflict


_LIFE = ("namespace", "ttl", "idle_ttl", "pinned", "engine")
"""Names of fields that a change, an artifact and an artifact's row have in common."""


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
    """Returns the row of an artifact that a change creates, without its sequence number."""
    # The receipt's text names the artifact ID that the request expected: with another ID it would be wrong.
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
