"""Fits web-search responses into a budget, and verifies citations."""
