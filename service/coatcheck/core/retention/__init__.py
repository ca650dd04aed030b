"""Retention as decisions: what a job may be, what a plan says, when it may be applied, what a run remembers.

Values and arithmetic only. What is removed, and when, is decided by those who hold a database.
"""

from coatcheck.core.retention.jobs import LIVE_ONLY, REMOVING, Criteria, Job, JobScope, check_scope, described
from coatcheck.core.retention.plan import (
    AGES,
    CONFIRM_SHARE,
    PART,
    PLAN_LIFE,
    TOLERANCE,
    Group,
    PlanBuilder,
    PlanPart,
    RetentionCandidate,
    RetentionPlan,
    Sample,
    check_share,
    check_still,
)
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun, RunBatch, hourly_run, run_id

__all__ = [
    "AGES",
    "CONFIRM_SHARE",
    "LIVE_ONLY",
    "PART",
    "PLAN_LIFE",
    "REMOVING",
    "TOLERANCE",
    "Criteria",
    "Group",
    "Job",
    "JobScope",
    "JobState",
    "Outcome",
    "PlanBuilder",
    "PlanPart",
    "RetentionCandidate",
    "RetentionPlan",
    "RetentionRun",
    "RunBatch",
    "Sample",
    "check_scope",
    "check_share",
    "check_still",
    "described",
    "hourly_run",
    "run_id",
]
