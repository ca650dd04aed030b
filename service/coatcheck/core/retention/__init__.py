"""Retention decisions: valid jobs, what a plan covers, when it may be applied, what a run has done."""
