"""Compaction and accounting of model-bound histories, in every common wire format. Pure: storing is the caller's.

`plan` names what shall be stored, `apply` puts cards and markers in its place and reports, `spliced` makes the same
changes in the body's bytes, `measure` says how full a context is. See docs/decisions/0027-compaction.md.
"""

from coatcheck.core.context.apply import Applied, apply, carry_out
from coatcheck.core.context.counting import Counter, Counts, Sizes
from coatcheck.core.context.detect import detect
from coatcheck.core.context.measure import Ask, Measured, Meters, Window, measure, measure_both
from coatcheck.core.context.model import Format
from coatcheck.core.context.plan import Payload, Plan, plan
from coatcheck.core.context.policy import Policy, Rule
from coatcheck.core.context.replace import Stored
from coatcheck.core.context.report import Change, Report
from coatcheck.core.context.splice import Cut, spliced
from coatcheck.core.context.usage import input_tokens

__all__ = [
    "Applied",
    "Ask",
    "Change",
    "Counter",
    "Counts",
    "Cut",
    "Format",
    "Measured",
    "Meters",
    "Payload",
    "Plan",
    "Policy",
    "Report",
    "Rule",
    "Sizes",
    "Stored",
    "Window",
    "apply",
    "carry_out",
    "detect",
    "input_tokens",
    "measure",
    "measure_both",
    "plan",
    "spliced",
]
