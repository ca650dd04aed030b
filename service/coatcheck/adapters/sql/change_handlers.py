"""Maps each change to the function that carries it out. A change is documented at its type."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import Connection

from coatcheck.adapters.sql.changes import (
    alter,
    forget,
    holds,
    keys,
    leases,
    namespaces,
    policies,
    quota,
    session_usage,
    store,
    texts,
    tombstone,
    uploads,
    views,
)
from coatcheck.adapters.sql.changes.retention import evict, plans, restore, runs
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, PatchArtifact, StoreArtifact, StoreView, Touch
from coatcheck.ports.change import CatalogChange
from coatcheck.ports.decisions import DeleteNamespace, MarkNamespace, PlaceHold, ReleaseHold, SetPolicy
from coatcheck.ports.keys import MakeKey, MakeNamespace, RevokeKey, SwitchNamespace
from coatcheck.ports.maintenance import (
    EvictArtifacts,
    ExpireArtifacts,
    ForgetBlobs,
    MarkBlobCorrupt,
    PurgeRecords,
    ReapUploads,
    TakeLease,
)
from coatcheck.ports.retention_changes import (
    BeginRun,
    ClaimRun,
    EndRun,
    ForgetRemoved,
    KeepPlan,
    MarkJob,
    NoteRound,
    RemoveBatch,
    RestoreArtifact,
    SetJob,
)
from coatcheck.ports.session_accounts import AddSessionUsage
from coatcheck.ports.text_index import DropSegment, IndexDocuments, MergeSegments, Reindex
from coatcheck.ports.uploads import AbandonUpload, BeginUpload, RenewUpload, ReserveMore

T = TypeVar("T")
Handler: TypeAlias = Callable[[Connection, Any], Any]


def _by(
    kind: type[CatalogChange[T]], apply: Callable[[Connection, Any], T]
) -> tuple[type[CatalogChange[Any]], Handler]:
    """Returns an entry of the table; a type checker rejects a function that does not return the change's answer."""
    return kind, apply


HANDLERS: Final[dict[type[CatalogChange[Any]], Handler]] = dict(
    (
        _by(BeginUpload, uploads.apply_begin),
        _by(ReserveMore, quota.apply_reserve_more),
        _by(RenewUpload, uploads.apply_renew),
        _by(AbandonUpload, uploads.apply_abandon),
        _by(ReapUploads, uploads.apply_reap),
        _by(StoreArtifact, store.apply_store),
        _by(StoreView, views.apply_store_view),
        _by(PatchArtifact, alter.apply_patch),
        _by(Touch, alter.apply_touch),
        _by(DeleteArtifact, tombstone.apply_delete),
        _by(DeleteSession, tombstone.apply_delete_session),
        _by(DeleteNamespace, evict.apply_delete_namespace),
        _by(EvictArtifacts, evict.apply_evict),
        _by(ExpireArtifacts, runs.apply_expire),
        _by(MarkBlobCorrupt, forget.apply_mark_corrupt),
        _by(ForgetBlobs, forget.apply_forget),
        _by(PurgeRecords, forget.apply_purge),
        _by(IndexDocuments, texts.apply_index),
        _by(MergeSegments, texts.apply_merge),
        _by(DropSegment, texts.apply_drop),
        _by(Reindex, texts.apply_reindex),
        _by(KeepPlan, plans.apply_keep),
        _by(ForgetRemoved, plans.apply_forget_removed),
        _by(BeginRun, runs.apply_begin_run),
        _by(ClaimRun, runs.apply_claim),
        _by(RemoveBatch, runs.apply_batch),
        _by(EndRun, runs.apply_end),
        _by(NoteRound, runs.apply_note_round),
        _by(SetJob, runs.apply_set_job),
        _by(MarkJob, runs.apply_mark_job),
        _by(RestoreArtifact, restore.apply_restore),
        _by(TakeLease, leases.apply_take),
        _by(SetPolicy, policies.apply_set),
        _by(PlaceHold, holds.apply_place),
        _by(ReleaseHold, holds.apply_release),
        _by(MarkNamespace, namespaces.apply_mark),
        _by(MakeKey, keys.apply_make_key),
        _by(RevokeKey, keys.apply_revoke_key),
        _by(MakeNamespace, keys.apply_make_namespace),
        _by(SwitchNamespace, keys.apply_switch_namespace),
        _by(AddSessionUsage, session_usage.apply_add),
    )
)
