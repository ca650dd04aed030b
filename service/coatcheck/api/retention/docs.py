"""What the OpenAPI document says of retention and the audit. Values only; see `docs`."""

from typing import Final

from coatcheck.api.audit import wire as audit_fields
from coatcheck.api.keys.docs import TAG
from coatcheck.api.retention import wire as fields
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

_WRITTEN: Final = (*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT)

PLAN: Final = Doc(
    operation_id="planRetention",
    tag=TAG,
    summary="Rehearse a job",
    description=(
        "Says what a job would remove now, and why; removes nothing. The plan can be applied for an hour, by its "
        "digest, which covers exactly that set."
    ),
    headers=CODED,
    body=((JSON, "PlanAsk"),),
    answers=(DocumentedAnswer(status=200, description="The plan.", model=fields.PlanView),),
    problems=_WRITTEN,
)
APPLY: Final = Doc(
    operation_id="applyRetention",
    tag=TAG,
    summary="Apply a plan",
    description=(
        "Removes what the plan covers and still meets its reason, and nothing else. Refused when more than a tenth of "
        "its artifacts or bytes have gone, or are held or pinned by now, and, without `confirm`, when it would remove "
        "more than 20 % of the live bytes. Applying a plan that is being applied answers its run."
    ),
    headers=CODED,
    body=((JSON, "ApplyAsk"),),
    answers=(
        DocumentedAnswer(status=200, description="The run has ended.", model=fields.RunView),
        DocumentedAnswer(status=202, description="The run goes on; ask for it.", model=fields.RunView),
    ),
    problems=(*_WRITTEN, Code.PLAN_CHANGED, Code.CONFIRMATION_NEEDED),
)
LIST_RUNS: Final = Doc(
    operation_id="listRuns",
    tag=TAG,
    summary="List runs",
    description="The latest first. Rounds of the schedule are one run an hour and job; where nothing is done, none.",
    query=fields.RunsQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=fields.RunsView),),
    problems=(Code.INVALID_CURSOR,),
)
GET_RUN: Final = Doc(
    operation_id="getRun",
    tag=TAG,
    summary="A run",
    description="How far it is, or what it has done.",
    answers=(DocumentedAnswer(status=200, description="The run.", model=fields.RunView),),
    problems=(Code.RUN_NOT_FOUND,),
)
STATUS: Final = Doc(
    operation_id="getRetentionStatus",
    tag=TAG,
    summary="How retention stands",
    description="What is overdue, the schedule, and the runs that are under way. Needs a key of `*`.",
    answers=(DocumentedAnswer(status=200, description="The status.", model=fields.StatusView),),
)
CHANGE_JOB: Final = Doc(
    operation_id="changeJob",
    tag=TAG,
    summary="Pause, resume or pace a job of the schedule",
    description="Holds for every replica within five seconds. Expiry itself is exact on every route, paused or not.",
    headers=CODED,
    body=((JSON, "JobAsk"),),
    answers=(DocumentedAnswer(status=200, description="Changed.", model=fields.JobView),),
    problems=_WRITTEN,
)
UNDO: Final = Doc(
    operation_id="undoRemoval",
    tag=TAG,
    summary="Bring back what was removed",
    description=(
        "Until the grace of the sweep has passed: by artifact IDs, or what a run has removed. An artifact comes back "
        "with its ID, bytes, views, labels and expiry; one that has expired needs a `ttl`. What cannot be brought back "
        "is named with its reason. A run with more than 500 artifacts takes several calls, each with `next` as cursor."
    ),
    headers=CODED,
    body=((JSON, "UndoAsk"),),
    answers=(DocumentedAnswer(status=200, description="What came back, and what did not.", model=fields.UndoneView),),
    problems=(*_WRITTEN, Code.RUN_NOT_FOUND, Code.INVALID_ARTIFACT_ID),
)
LIST_AUDIT: Final = Doc(
    operation_id="listAudit",
    tag=TAG,
    summary="The audit's lines",
    description=(
        "The latest first. Every removal is in exactly one line, with all its artifacts. A line's hash is SHA-256 over "
        "its fields and the hash before it, as docs/decisions/0031 spells them out."
    ),
    query=audit_fields.AuditQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=audit_fields.LinesView),),
)
VERIFY_AUDIT: Final = Doc(
    operation_id="verifyAudit",
    tag=TAG,
    summary="Verify the audit",
    description=(
        "Follows the chain from its first line to its head. A line that was changed, removed, inserted or moved shows, "
        "and a missing end does. Who may change every row of the database can write a new chain, which only a head "
        "that was kept elsewhere shows: give it as `head`. Needs a key of `*`."
    ),
    query=audit_fields.VerifyAuditQuery,
    answers=(
        DocumentedAnswer(status=200, description="Whole, or where it is not.", model=audit_fields.VerifiedAuditView),
    ),
)
AUDIT_HEAD: Final = Doc(
    operation_id="getAuditHead",
    tag=TAG,
    summary="The audit's head",
    description="To be kept where who administers the database cannot write. Needs a key of `*`.",
    answers=(DocumentedAnswer(status=200, description="The head.", model=audit_fields.HeadView),),
    problems=(Code.INTEGRITY,),
)
