"""Converts search providers' responses to one form."""
