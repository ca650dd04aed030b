"""Compaction and accounting of model-bound histories, in every common wire format. Nothing here does I/O.

`plan` (plan.py) names what the caller has to store, `carry_out` (apply.py) replaces it by cards and markers and
reports, `splice_body` (body/splice.py) makes the same changes in the body's bytes, `measure` (measure.py) computes how
full a context is. See docs/decisions/0027-compaction.md.
"""
