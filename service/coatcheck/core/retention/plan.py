"""A plan: which artifacts a job would remove, counted and grouped, with a digest over exactly that set.

The set is stored in parts, each of which is removed in one transaction: the numbers of its artifacts, eight bytes each.
This module decides whether a plan may still be applied; the SQL statement that removes decides whether each artifact
may still be removed.
"""

import hashlib
import heapq
from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import pack_numbers
from coatcheck.core.retention.jobs import REMOVING, JobScope, RetentionJob, describe_job

PART_ARTIFACTS: Final = 500
"""Maximum artifacts per part. A part is removed in one transaction, which blocks SQLite's writers for well under 100
ms."""
PLAN_LIFE: Final = timedelta(hours=1)
"""Time after which a plan may not be applied any more, since too much may have changed."""
TOLERANCE: Final = 0.1
"""Share of a plan's artifacts or bytes that may have become unavailable (removed, held, pinned) when it is applied."""
CONFIRM_SHARE: Final = 0.2
"""Share of the live bytes above which a removal needs a confirmation."""
_MAX_SAMPLES: Final = 10
"""Maximum artifacts that a plan names, the largest ones. Chosen, not measured."""
_MAX_GROUPS: Final = 20
"""Maximum groups that a plan lists, the largest ones; one more has the sums of the others. Chosen, not measured."""
_MAX_COUNTED_GROUPS: Final = 100_000
"""Maximum groups that are counted separately while a plan is made, so that its memory is bounded. Chosen, not
measured."""
_OTHERS: Final = "others"
AGES: Final = (timedelta(hours=1), timedelta(days=1), timedelta(days=7), timedelta(days=30))
"""Ages at which one group of ages ends and the next begins."""
_AGE_NAMES: Final = ("under 1 hour", "1 to 24 hours", "1 to 7 days", "7 to 30 days", "over 30 days")


class RetentionCandidate(NamedTuple):
    """An artifact that a job would remove, with only the columns that are cheap to query for a million artifacts."""

    seq: int
    number: int
    size: int
    kind: str
    tool_name: str | None
    session: str | None
    age: int
    """Index of the artifact's group of ages."""


class PlanPart(Struct, frozen=True, kw_only=True):
    """Up to PART_ARTIFACTS artifacts of one namespace, in the order of their rows."""

    part: int
    namespace: str
    first_seq: int
    last_seq: int
    numbers: bytes


class ArtifactGroup(Struct, frozen=True):
    """Artifacts with something in common."""

    name: str
    artifacts: int
    bytes: int


class PlanSample(Struct, frozen=True, kw_only=True):
    """One artifact of a plan, as an example."""

    id: str
    namespace: str
    bytes: int
    kind: str
    tool_name: str | None
    session: str | None
    created_at: datetime
    expires_at: datetime | None


class RetentionPlan(Struct, frozen=True, kw_only=True):
    """What a job would do."""

    digest: Annotated[str, Meta(description="Identifies exactly what would be removed; applying the plan takes it.")]
    """64 hexadecimal digits, derived from the job, its scope, and the artifacts in order. Equal plans have equal
    digests."""
    job: RetentionJob
    scope: JobScope
    why: Annotated[str, Meta(description="Why the job would remove exactly these.")]
    planned_at: datetime
    valid_until: datetime
    artifacts: int
    bytes: Annotated[int, Meta(description="Bytes of content; stored bytes for what is not an artifact.")]
    items: Annotated[int, Meta(description="Everything that is not an artifact: dead blobs, records, blobs to check.")]
    held: Annotated[int, Meta(description="Artifacts that would be in the plan if they were not held.")]
    live_artifacts: Annotated[
        int, Meta(description="Live artifacts in the namespaces from which it would remove some.")
    ]
    live_bytes: int
    share: Annotated[float, Meta(description="Share of `live_bytes`; more than 0.2 needs `confirm`.")]
    needs_confirm: bool
    oldest_overdue_seconds: float
    by_kind: tuple[ArtifactGroup, ...]
    by_tool: Annotated[
        tuple[ArtifactGroup, ...], Meta(description="An empty name stands for artifacts without a tool name.")
    ]
    by_session: tuple[ArtifactGroup, ...]
    by_age: tuple[ArtifactGroup, ...]
    samples: Annotated[tuple[PlanSample, ...], Meta(description="The largest, at most 10.")]


class PlanBuilder:
    """Makes a plan from candidates, which must come namespace by namespace and in row order.

    Holds only the sums, the largest candidates, and one incomplete part in memory, never the whole set.
    """

    def __init__(self, job: RetentionJob, scope: JobScope, moment: datetime) -> None:
        self._job, self._scope, self._moment = job, scope, moment
        self._hash = hashlib.sha256(msgspec.json.encode(["coatcheck plan 2", job, scope]))
        self._members: list[RetentionCandidate] = []
        self._namespace = ""
        self._parts = 0
        self._sums: dict[tuple[Any, ...], list[int]] = {}
        self._largest: list[tuple[int, int, str, int]] = []
        self.oldest: datetime | None = None
        """The earliest time at which a candidate expired; None if no candidate has expired."""
        self.held = 0

    def take(self, namespace: str, candidates: Sequence[RetentionCandidate]) -> list[PlanPart]:
        """Adds candidates of a namespace, and returns the parts that are full now."""
        full: list[PlanPart] = []
        if namespace != self._namespace:
            full += self.cut()
            self._namespace = namespace
        self._count(candidates)
        members = [*self._members, *candidates]
        # Full parts are returned at once, so that a plan of a million artifacts is never in memory.
        whole = len(members) - len(members) % PART_ARTIFACTS
        for start in range(0, whole, PART_ARTIFACTS):
            full.append(self._part(members[start : start + PART_ARTIFACTS]))
        self._members = members[whole:]
        return full

    def cut(self) -> list[PlanPart]:
        """Returns the incomplete part, if there is one. Must be called once at the end."""
        members, self._members = self._members, []
        return [self._part(members)] if members else []

    def _part(self, members: list[RetentionCandidate]) -> PlanPart:
        numbers = pack_numbers([member[1] for member in members])
        name = self._namespace.encode()
        # Lengths are hashed as well, so that no two sets of artifacts have the same bytes.
        self._hash.update(len(name).to_bytes(8, "big") + name + len(numbers).to_bytes(8, "big") + numbers)
        self._parts += 1
        return PlanPart(
            part=self._parts - 1,
            namespace=self._namespace,
            first_seq=members[0].seq,
            last_seq=members[-1].seq,
            numbers=numbers,
        )

    @property
    def largest(self) -> list[tuple[str, int]]:
        """Returns the namespaces and numbers of the largest artifacts, largest first."""
        return [(namespace, number) for _, _, namespace, number in self._largest]

    def plan(
        self,
        live_artifacts: int,
        live_bytes: int,
        samples: Sequence[PlanSample] = (),
        items: int = 0,
        item_bytes: int = 0,
    ) -> RetentionPlan:
        """Returns the plan of all candidates.

        Args:
            live_artifacts: number of live artifacts in the namespace, or in all namespaces.
            live_bytes: the bytes of these artifacts.
            samples: the largest artifacts of the plan.
            items: number of items other than artifacts.
            item_bytes: the bytes of these items.
        """
        if items:
            # The plan has no list of items: the time determines which they are, so a later time makes another plan.
            self._hash.update(msgspec.json.encode([self._moment, items, item_bytes]))
        # The numbers by which people decide: how much is removed, which share of all, and what.
        ages: dict[int, ArtifactGroup] = self._group_sums(3)
        size = sum(sums[1] for sums in self._sums.values()) + item_bytes
        share = _share(self._job, size, live_bytes)
        overdue = 0.0 if self.oldest is None else max(0.0, (self._moment - self.oldest).total_seconds())
        return RetentionPlan(
            digest=self._hash.hexdigest(),
            job=self._job,
            scope=self._scope,
            why=describe_job(self._job, self._scope),
            planned_at=self._moment,
            valid_until=self._moment + PLAN_LIFE,
            artifacts=sum(sums[0] for sums in self._sums.values()),
            bytes=size,
            items=items,
            held=self.held,
            live_artifacts=live_artifacts,
            live_bytes=live_bytes,
            share=round(share, 4),
            needs_confirm=share > CONFIRM_SHARE,
            oldest_overdue_seconds=round(overdue, 3),
            by_kind=_largest(self._group_sums(0)),
            by_tool=_largest(self._group_sums(1)),
            by_session=_largest(self._group_sums(2)),
            by_age=tuple(ArtifactGroup(_AGE_NAMES[age], ages[age].artifacts, ages[age].bytes) for age in sorted(ages)),
            samples=tuple(samples),
        )

    def _count(self, candidates: Sequence[RetentionCandidate]) -> None:
        """Adds candidates to the sums, with one look-up in a dictionary each, because there may be a million."""
        sums = self._sums
        for candidate in candidates:
            key: tuple[str, str | None, str | None, int] = candidate[3:]
            pair = sums.get(key)
            if pair is None:
                pair = sums.setdefault(key if len(sums) < _MAX_COUNTED_GROUPS else (*key[:2], _OTHERS, key[3]), [0, 0])
            pair[0] += 1
            pair[1] += candidate[2]
        largest = heapq.nlargest(_MAX_SAMPLES, candidates, key=itemgetter(2))  # of equal ones, the first
        new = [(candidate.size, -candidate.seq, self._namespace, candidate.number) for candidate in largest]
        self._largest = sorted([*self._largest, *new], reverse=True)[:_MAX_SAMPLES]

    def _group_sums(self, at: int) -> dict[Any, ArtifactGroup]:
        totals: dict[Any, list[int]] = {}
        for key, (artifacts, size) in self._sums.items():
            pair = totals.setdefault(key[at], [0, 0])
            pair[0] += artifacts
            pair[1] += size
        return {name: ArtifactGroup(str(name or ""), *pair) for name, pair in totals.items()}


def _largest(groups: dict[Any, ArtifactGroup]) -> tuple[ArtifactGroup, ...]:
    """Returns the groups with the most bytes, and one group with the sums of the others."""
    largest = sorted(groups.values(), key=lambda group: (-group.bytes, -group.artifacts, group.name))
    rest = largest[_MAX_GROUPS:]
    if not rest:
        return tuple(largest)
    return (*largest[:_MAX_GROUPS], ArtifactGroup(_OTHERS, sum(g.artifacts for g in rest), sum(g.bytes for g in rest)))


def check_still(plan: RetentionPlan, artifacts: int, size: int) -> None:
    """Refuses a plan if too many of its artifacts can no longer be removed.

    Args:
        plan: the plan that is to be applied.
        artifacts: number of its artifacts that still meet its criteria.
        size: the bytes of these artifacts.

    Raises:
        CoatcheckError: `plan_changed` if artifacts or bytes are fewer by more than `TOLERANCE`.
    """
    least = 1.0 - TOLERANCE
    if artifacts >= plan.artifacts * least and size >= plan.bytes * least:
        return
    raise CoatcheckError(
        Code.PLAN_CHANGED,
        f"The plan was made for {plan.artifacts:,} artifacts ({plan.bytes:,} bytes), of which {artifacts:,} ({size:,} "
        f"bytes) can still be removed; more than {TOLERANCE:.0%} have been removed, pinned, held or changed since. "
        "Nothing was done. Make a new plan, review it, and apply that one.",
        planned=plan.artifacts,
        left=artifacts,
    )


def _share(job: RetentionJob, size: int, live_bytes: int) -> float:
    """Returns the share of the live bytes that a job removes; without live bytes, 1 if it removes any bytes, else 0.

    A job that removes no artifacts has a share of 0.
    """
    if job not in REMOVING:
        return 0.0
    return size / live_bytes if live_bytes else float(size > 0)


def check_share(plan: RetentionPlan, live_bytes: int, *, confirm: bool) -> None:
    """Refuses to remove a large share of the store unless this is confirmed.

    Raises:
        CoatcheckError: `confirmation_needed` for more than `CONFIRM_SHARE` of `live_bytes` without `confirm`.
    """
    share = _share(plan.job, plan.bytes, live_bytes)
    if confirm or share <= CONFIRM_SHARE:
        return
    raise CoatcheckError(
        Code.CONFIRMATION_NEEDED,
        f"The plan removes {share:.0%} of the live bytes ({plan.bytes:,} of {live_bytes:,}). Nothing was done. If "
        "that is intended, apply it with confirm=true (on the command line: --confirm).",
        share=round(share, 4),
    )
