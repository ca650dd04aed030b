"""Compaction and accounting of model-bound histories, in every common wire format. Pure: storing is the caller's.

`plan` names what shall be stored, `carry_out` puts cards and markers in its place and reports, `spliced` makes the same
changes in the body's bytes, `measure` says how full a context is. See docs/decisions/0027-compaction.md.
"""

from coatcheck.core.context.apply import CompactedBody, carry_out
from coatcheck.core.context.counting import CountCache, Counter, Sizes
from coatcheck.core.context.detect import detect
from coatcheck.core.context.measure import Measured, MeasureRequest, Meters, ModelWindow, measure, measure_both
from coatcheck.core.context.model import Format
from coatcheck.core.context.plan import CompactionPlan, PlannedPayload, plan
from coatcheck.core.context.policy import CompactionPolicy, CompactionRule
from coatcheck.core.context.replace import StoredPayload
from coatcheck.core.context.report import Change, Report
from coatcheck.core.context.splice import Splice, spliced
from coatcheck.core.context.usage import input_tokens

__all__ = [
    "Change",
    "CompactedBody",
    "CompactionPlan",
    "CompactionPolicy",
    "CompactionRule",
    "CountCache",
    "Counter",
    "Format",
    "MeasureRequest",
    "Measured",
    "Meters",
    "ModelWindow",
    "PlannedPayload",
    "Report",
    "Sizes",
    "Splice",
    "StoredPayload",
    "carry_out",
    "detect",
    "input_tokens",
    "measure",
    "measure_both",
    "plan",
    "spliced",
]
