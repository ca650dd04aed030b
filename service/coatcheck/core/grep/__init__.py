"""Finds lines by a regular expression, in any text, in constant memory."""
