"""Retention as decisions: what a job may be, what a plan covers, when it may be applied, what a run has done."""
