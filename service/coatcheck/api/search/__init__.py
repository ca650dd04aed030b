"""Budgeted web searches, and citations."""
