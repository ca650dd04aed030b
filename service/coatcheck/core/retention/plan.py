"""A plan: which artifacts a job would remove, counted and grouped, with a digest over exactly that set.

The set is kept in parts of one transaction each: the numbers of its members, eight bytes each. This module decides
whether a plan may still be applied; the removing statement decides whether an artifact may still be removed.
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
"""Artifacts per part; removed in one transaction, which holds SQLite's writer for well under 100 ms."""
PLAN_LIFE: Final = timedelta(hours=1)
"""After that, a plan says too little about the present to be applied."""
TOLERANCE: Final = 0.1
"""Share of a plan's artifacts or bytes that may be gone, held or otherwise unavailable when it is applied."""
CONFIRM_SHARE: Final = 0.2
"""Share of the live bytes above which removing needs a confirmation."""
_MAX_SAMPLES: Final = 10
"""Largest artifacts that a plan names. Chosen, not measured."""
_MAX_GROUPS: Final = 20
"""Groups that a plan lists, largest first; one more has the sums of the others. Chosen, not measured."""
_MAX_COUNTED_GROUPS: Final = 100_000
"""Groups that are counted separately while a plan is made, so that its memory is bounded. Chosen, not measured."""
_OTHERS: Final = "others"
AGES: Final = (timedelta(hours=1), timedelta(days=1), timedelta(days=7), timedelta(days=30))
"""Boundaries between groups of ages."""
_AGE_NAMES: Final = ("under 1 hour", "1 to 24 hours", "1 to 7 days", "7 to 30 days", "over 30 days")


class RetentionCandidate(NamedTuple):
    """An artifact that a job would remove: only what can be queried for a million of them."""

    seq: int
    number: int
    size: int
    kind: str
    tool_name: str | None
    session: str | None
    age: int
    """Index of its age group."""


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
    """64 hexadecimal digits: of the job, its scope, and the artifacts in order. Equal plans have equal digests."""
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
    """Makes a plan from candidates, which come namespace by namespace and in row order.

    Holds the sums, the largest few, and one incomplete part; never the set.
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
        """When the first expired one did."""
        self.held = 0

    def take(self, namespace: str, candidates: Sequence[RetentionCandidate]) -> list[PlanPart]:
        """Adds candidates; returns the parts that are now full."""
        full: list[PlanPart] = []
        if namespace != self._namespace:
            full += self.cut()
            self._namespace = namespace
        self._count(candidates)
        members = [*self._members, *candidates]
        # Full parts are written at once: a plan of a million artifacts is never in memory.
        whole = len(members) - len(members) % PART_ARTIFACTS
        for start in range(0, whole, PART_ARTIFACTS):
            full.append(self._part(members[start : start + PART_ARTIFACTS]))
        self._members = members[whole:]
        return full

    def cut(self) -> list[PlanPart]:
        """Returns the incomplete part, if there is one. Call it at the end."""
        members, self._members = self._members, []
        return [self._part(members)] if members else []

    def _part(self, members: list[RetentionCandidate]) -> PlanPart:
        numbers = pack_numbers([member[1] for member in members])
        name = self._namespace.encode()
        # With lengths, so that no two sets of artifacts are the same bytes.
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
        """Returns namespace and number of the largest few, largest first."""
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
            live_artifacts: number of live artifacts in the namespace, or in all.
            live_bytes: their bytes.
            samples: the largest.
            items: number of items other than artifacts.
            item_bytes: their bytes.
        """
        if items:
            # Items are not chosen individually: the moment determines them, and a later one would be another plan.
            self._hash.update(msgspec.json.encode([self._moment, items, item_bytes]))
        # What people decide by: how much, how large a share, of what.
        ages: dict[int, ArtifactGroup] = self._group_sums(3)
        size = sum(sums[1] for sums in self._sums.values()) + item_bytes
        share = size / live_bytes if live_bytes else 0.0
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
            needs_confirm=self._job in REMOVING and share > CONFIRM_SHARE,
            oldest_overdue_seconds=round(overdue, 3),
            by_kind=_largest(self._group_sums(0)),
            by_tool=_largest(self._group_sums(1)),
            by_session=_largest(self._group_sums(2)),
            by_age=tuple(ArtifactGroup(_AGE_NAMES[age], ages[age].artifacts, ages[age].bytes) for age in sorted(ages)),
            samples=tuple(samples),
        )

    def _count(self, candidates: Sequence[RetentionCandidate]) -> None:
        """Adds to the sums: one dictionary look-up each, because there may be a million."""
        sums = self._sums
        for candidate in candidates:
            key: tuple[str, str | None, str | None, int] = candidate[3:]
            both = sums.get(key)
            if both is None:
                both = sums.setdefault(key if len(sums) < _MAX_COUNTED_GROUPS else (*key[:2], _OTHERS, key[3]), [0, 0])
            both[0] += 1
            both[1] += candidate[2]
        largest = heapq.nlargest(_MAX_SAMPLES, candidates, key=itemgetter(2))  # of equal ones, the first
        new = [(candidate.size, -candidate.seq, self._namespace, candidate.number) for candidate in largest]
        self._largest = sorted([*self._largest, *new], reverse=True)[:_MAX_SAMPLES]

    def _group_sums(self, at: int) -> dict[Any, ArtifactGroup]:
        totals: dict[Any, list[int]] = {}
        for key, (artifacts, size) in self._sums.items():
            both = totals.setdefault(key[at], [0, 0])
            both[0] += artifacts
            both[1] += size
        return {name: ArtifactGroup(str(name or ""), *both) for name, both in totals.items()}


def _largest(groups: dict[Any, ArtifactGroup]) -> tuple[ArtifactGroup, ...]:
    """Returns the groups with the most bytes, and one for the rest."""
    largest = sorted(groups.values(), key=lambda group: (-group.bytes, -group.artifacts, group.name))
    rest = largest[_MAX_GROUPS:]
    if not rest:
        return tuple(largest)
    return (*largest[:_MAX_GROUPS], ArtifactGroup(_OTHERS, sum(g.artifacts for g in rest), sum(g.bytes for g in rest)))


def check_still(plan: RetentionPlan, artifacts: int, size: int) -> None:
    """Refuses a plan that no longer matches reality.

    Args:
        plan: as it was made.
        artifacts: how many of its artifacts still meet its criteria.
        size: their bytes.

    Raises:
        CoatcheckError: `plan_changed`.
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


def check_share(plan: RetentionPlan, live_bytes: int, *, confirm: bool) -> None:
    """Refuses to remove a large part of the store unless that is confirmed.

    Raises:
        CoatcheckError: `confirmation_needed`.
    """
    if confirm or plan.job not in REMOVING or plan.bytes <= live_bytes * CONFIRM_SHARE:
        return
    share = plan.bytes / live_bytes if live_bytes else 1.0
    raise CoatcheckError(
        Code.CONFIRMATION_NEEDED,
        f"The plan removes {share:.0%} of the live bytes ({plan.bytes:,} of {live_bytes:,}). Nothing was done. If "
        "that is intended, apply it with confirm=true (on the command line: --confirm).",
        share=round(share, 4),
    )
