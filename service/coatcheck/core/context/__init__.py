"""Compaction and accounting of model-bound histories, in every common wire format. Pure: the caller stores.

`plan` names what to store, `carry_out` replaces it by cards and markers and reports, `splice_body` makes the same
changes in the body's bytes, `measure` computes how full a context is. See docs/decisions/0027-compaction.md.
"""

from coatcheck.core.context.apply import CompactedBody, carry_out
from coatcheck.core.context.body.model import Format
from coatcheck.core.context.body.splice import Splice, splice_body
from coatcheck.core.context.counting import CountCache, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.context.measure import (
    ContextMeasurement,
    MeasureRequest,
    Meters,
    SearchCaps,
    measure,
    measure_both,
    session_lines,
)
from coatcheck.core.context.plan import CompactionPlan, PlanContext, Planner, plan
from coatcheck.core.context.policy import CompactionPolicy, CompactionRule
from coatcheck.core.context.references import KnownArtifacts, references, turn_searches
from coatcheck.core.context.replace import StoredPayload
from coatcheck.core.context.replaceable import PlannedPayload
from coatcheck.core.context.report import CompactionReport
from coatcheck.core.context.signs import SearchText
from coatcheck.core.context.window import ModelWindow, input_tokens

__all__ = [
    "CompactedBody",
    "CompactionPlan",
    "CompactionPolicy",
    "CompactionReport",
    "CompactionRule",
    "ContextMeasurement",
    "CountCache",
    "Counter",
    "Format",
    "KnownArtifacts",
    "MeasureRequest",
    "Meters",
    "ModelWindow",
    "PlanContext",
    "PlannedPayload",
    "Planner",
    "SearchCaps",
    "SearchText",
    "Splice",
    "StoredPayload",
    "carry_out",
    "index_of",
    "input_tokens",
    "measure",
    "measure_both",
    "plan",
    "references",
    "session_lines",
    "splice_body",
    "turn_searches",
]
