"""Retention is planned, run, undone and held back."""
