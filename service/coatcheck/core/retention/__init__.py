"""Retention as decisions: what a job may be, what a plan says, when it may be applied, what a run remembers.

Values and arithmetic only. What is removed, and when, is decided by those who hold a database.
"""

from coatcheck.core.retention.jobs import REMOVING, Criteria, Job, JobScope, check_scope
from coatcheck.core.retention.plan import (
    PLAN_LIFE,
    Group,
    PlanBuilder,
    PlanPart,
    RetentionPlan,
    Sample,
    check_share,
    check_still,
)
from coatcheck.core.retention.runs import JobState, Outcome, RetentionRun, hourly_run, scheduled_round

__all__ = [
    "PLAN_LIFE",
    "REMOVING",
    "Criteria",
    "Group",
    "Job",
    "JobScope",
    "JobState",
    "Outcome",
    "PlanBuilder",
    "PlanPart",
    "RetentionPlan",
    "RetentionRun",
    "Sample",
    "check_scope",
    "check_share",
    "check_still",
    "hourly_run",
    "scheduled_round",
]
