"""Retention: plans, runs, undo, the schedule."""
