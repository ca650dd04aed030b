"""What an administrator can have done: jobs, what they are about, and what makes an artifact theirs.

A job's criteria are settled once, when it is planned, and hold for every artifact at the moment when it is removed.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from coatcheck.core.errors import CoatcheckError, Code


class Job(StrEnum):
    """What can be planned and applied."""

    EXPIRE = "expire"
    """Remove artifacts that have expired; the schedule does it anyway."""
    EVICT = "evict"
    """Remove the least recently read of a namespace until it is below a limit. Pinned ones stay."""
    SESSION = "session"
    """Remove everything of a session."""
    NAMESPACE = "namespace"
    """Remove everything of a namespace."""
    LOST = "lost"
    """Remove artifacts whose bytes were found missing or damaged."""
    SWEEP = "sweep"
    """Remove the bytes of what was removed, once the grace has passed."""
    PURGE = "purge"
    """Forget tombstones, idempotency keys and audit lines whose time is over."""
    STORAGE = "storage"
    """Compare the store with the catalogue; reports, and removes nothing."""
    VERIFY = "verify"
    """Compare the store with the catalogue and every blob with its digest; reports, and removes nothing."""


REMOVING: Final = frozenset({Job.EXPIRE, Job.EVICT, Job.SESSION, Job.NAMESPACE, Job.LOST})
"""Jobs that remove artifacts."""
LIVE_ONLY: Final = frozenset({Job.EVICT, Job.SESSION, Job.LOST})
"""Jobs that leave what has expired to `expire`, which says why it went."""


class JobScope(Struct, frozen=True, kw_only=True):
    """What a job is about."""

    namespace: Annotated[str | None, Meta(description="Null: all of them.")]
    session: str | None
    max_bytes: int | None
    """Evict until the artifacts of the namespace have no more bytes of content than this."""
    max_artifacts: int | None
    """Evict until the namespace has no more artifacts than this."""


WHOLE_STORE: Final = JobScope(namespace=None, session=None, max_bytes=None, max_artifacts=None)


class Criteria(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be true of an artifact for a plan's run to remove it; held by the statement that removes it."""

    job: Job
    moment: datetime
    """When it was planned: what is younger is none of it, and what had not expired by then has not."""
    namespace: str | None = None
    session: str | None = None
    read_until: datetime | None = None
    """Evict: not read since this moment."""
    read_until_seq: int | None = None
    """Evict: and of those that were read at that very moment, the rows up to this one."""


def check_scope(job: Job, scope: JobScope) -> None:
    """Refuse a scope that does not fit its job.

    Raises:
        CoatcheckError: `invalid_request`, saying which field is wrong.
    """
    if job in {Job.EVICT, Job.SESSION, Job.NAMESPACE} and scope.namespace is None:
        raise _wrong(f"A plan to {_VERBS[job]} needs its namespace.", "namespace")
    if (job is Job.SESSION) != (scope.session is not None):
        said = "needs its session" if job is Job.SESSION else "is not about a session; leave it out"
        raise _wrong(f"A plan to {_VERBS[job]} {said}.", "session")
    limits = (scope.max_bytes, scope.max_artifacts)
    if job is Job.EVICT and limits == (None, None):
        raise _wrong("A plan to evict needs a target: max_bytes or max_artifacts.", "max_bytes")
    if job is not Job.EVICT and limits != (None, None):
        raise _wrong(
            f"A plan to {_VERBS[job]} takes no limits; max_bytes and max_artifacts are for evict.", "max_bytes"
        )
    if any(limit is not None and limit < 0 for limit in limits):
        raise _wrong("A limit must not be below 0.", "max_bytes")
    if job not in REMOVING and scope.namespace is not None:
        raise _wrong(f"A plan to {_VERBS[job]} covers the whole store; leave the namespace out.", "namespace")


_VERBS: Final = {
    Job.EXPIRE: "remove what has expired",
    Job.EVICT: "evict",
    Job.SESSION: "delete a session",
    Job.NAMESPACE: "delete a namespace",
    Job.LOST: "remove what is lost",
    Job.SWEEP: "sweep",
    Job.PURGE: "purge",
    Job.STORAGE: "audit storage",
    Job.VERIFY: "verify digests",
}


def described(job: Job, scope: JobScope) -> str:
    """Why it is that these and no others are in a plan: a sentence without its full stop."""
    where = "in all namespaces" if scope.namespace is None else f"in namespace {scope.namespace}"
    limits = [
        *([] if scope.max_bytes is None else [_counted(scope.max_bytes, "byte")]),
        *([] if scope.max_artifacts is None else [_counted(scope.max_artifacts, "artifact")]),
    ]
    sentences = {
        Job.EXPIRE: f"artifacts {where} whose time to live has passed; every route answers that they are gone",
        Job.EVICT: f"the least recently read artifacts {where}, until it is down to {' and '.join(limits)}",
        Job.SESSION: f"every live artifact of session {scope.session} {where}",
        Job.NAMESPACE: f"every artifact {where}",
        Job.LOST: f"artifacts {where} whose bytes were found missing or damaged",
        Job.SWEEP: "bytes of removed artifacts whose grace has passed; nothing readable is removed",
        Job.PURGE: "tombstones, idempotency keys and audit lines whose time is over; no payload is removed",
        Job.STORAGE: "compares names and sizes of all stored bytes with the catalogue; removes nothing",
        Job.VERIFY: "reads all stored bytes and compares their digests; removes nothing",
    }
    return sentences[job]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _wrong(detail: str, parameter: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, detail, parameter=parameter)
